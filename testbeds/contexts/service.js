// A service on Node, for tests of the helper: each of its calls has the name that its request has.
// usage: node service.js down | calls DOWN | queue DOWN; prints its port
'use strict';
const http = require('node:http'), net = require('node:net');
const [kind, down] = process.argv.slice(2);

const agent = new http.Agent({ keepAlive: true, maxSockets: 3 });
const pause = ms => new Promise(done => setTimeout(done, ms));
const get = path => new Promise((done, failed) => {
  http.get({ host: '127.0.0.1', port: Number(down), path, agent }, reply => {
    reply.resume();
    reply.on('end', done);
  }).on('error', failed);
});

/** Three calls, of which two at once; more requests than connections. */
async function calls(name) {
  await get(`/down/${name}`);
  await pause(1);
  await Promise.all([get(`/down/${name}`), get(`/down/${name}`)]);
}

// two connections for all, given to who waits by who releases one, in whose context the next writes
const free = [], waiting = [];
let made = 0;

function taken(use) {
  if (free.length > 0) return use(free.pop());
  if (made === 2) return waiting.push(use);
  made++;
  const connection = net.connect(Number(down), '127.0.0.1', () => use(connection));
  connection.on('data', text => {
    if (!text.toString().endsWith('ok')) return;
    const { answered } = connection;
    if (waiting.length > 0) waiting.shift()(connection);
    else free.push(connection);
    answered();
  });
}

const queue = name => new Promise(done => taken(connection => {
  connection.answered = done;
  connection.write(`GET /down/${name} HTTP/1.1\r\nHost: x\r\n\r\n`);
}));

const work = { calls, queue }[kind];
const server = http.createServer(async (request, reply) => {
  const name = request.url.split('/').pop();
  if (work) await work(name);
  else await pause(1);
  const text = work ? name : 'ok';
  reply.writeHead(200, { 'Content-Length': text.length });
  reply.end(text);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
