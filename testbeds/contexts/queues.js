// Do numbers that Wakepath's helper for Node tells name the right request? Handlers that share work in several ways, amid eight clients;
// what is written to sockets is held against the names of the requests in it. Each kind replies at once, or in parts before and behind its work.
// usage: node queues.js HELPER; prints a line of JSON for each: calls that were told right, wrong, not at all
'use strict';
const fs = require('node:fs'), http = require('node:http'), net = require('node:net');
const { Worker } = require('node:worker_threads');
const AT_ID = 6, CLIENTS = 8, REQUESTS = 12;

/** Number, whether it is a reply, and names of requests, of each write. */
const writes = [];
const { _writeGeneric: generic } = net.Socket.prototype;
net.Socket.prototype._writeGeneric = function (many, data, ...more) {
  const text = Array.isArray(data) ? data.map(d => String(d.chunk ?? d)).join('') : String(data);
  const [, what, names] = /(GET \/down\/|reply )(\S+)/.exec(text) ?? [];
  const id = globalThis[Symbol.for('wakepath.helper')].memory[AT_ID];
  if (names) writes.push({ id, isReply: what === 'reply ', names: names.split('_') });
  return generic.call(this, many, data, ...more);
};
require(process.argv[2]);

let down, lines, agent;
const pause = ms => new Promise(done => setTimeout(done, ms));
const get = (...names) => new Promise((done, failed) => {
  http.get({ host: '127.0.0.1', port: down, path: `/down/${names.join('_')}`, agent }, reply => {
    reply.resume();
    reply.on('end', done);
  }).on('error', failed);
});

const KINDS = {
  alone: () => async name => {
    await get(name);
    await pause(1);
    await Promise.all([get(name), get(name)]);
  },
  // one asks for all that come meanwhile
  joined() {
    let batch = null;
    return async name => {
      if (batch === null) {
        const own = batch = { names: [] };
        own.done = (async () => {
          await pause(2);
          batch = null;
          await get(...own.names);
          await pause(1);
        })();
      }
      batch.names.push(name);
      await batch.done;
    };
  },
  // one serves the queue of all
  served() {
    const queue = [];
    let runs = false;
    const serve = async () => {
      runs = true;
      while (queue.length > 0) {
        const [name, done] = queue.shift();
        await get(name);
        done();
      }
      runs = false;
    };
    return name => new Promise(done => {
      queue.push([name, done]);
      if (!runs) serve();
    });
  },
  // who releases one of two lets the next go on
  released() {
    const waiting = [];
    let free = 2;
    return async name => {
      if (free > 0) free--;
      else await new Promise(go => waiting.push(go));
      await get(name);
      const next = waiting.shift();
      if (next) next();
      else free++;
    };
  },
  // what two ask at about the same time goes out in one's write
  pipelined() {
    const connections = [1, 2, 3, 4].map(pipelined);
    return async name => {
      await connections[name[1] % 4](name);
      await pause(Math.random() * 20);
    };
  },
};

/** A client that writes what all have asked since it last wrote at once; answers come one by one. */
function pipelined() {
  const socket = net.connect(lines), asked = [];
  let together = [], rest = '';
  socket.on('data', data => {
    const answers = (rest + data).split('\n');
    rest = answers.pop();
    for (const _ of answers) asked.shift()();
  });
  const write = () => {
    socket.write(`GET /down/${together.join('_')} \n`);
    together = [];
  };
  return name => new Promise(done => {
    asked.push(done);
    if (together.push(name) === 1) setTimeout(write, 2);
  });
}

const CLIENT = `
const http = require('node:http'), { port, clients, requests } = require('node:worker_threads').workerData;
const ask = (agent, path) => new Promise(done => http.get({ host: '127.0.0.1', port, path, agent }, reply => {
  reply.resume();
  reply.on('end', done);
}));
for (let client = 0; client < clients; client++) {
  (async () => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    for (let i = 0; i < requests; i++) await ask(agent, '/c' + client + 'r' + i);
    agent.destroy();
  })();
}`;

const serving = handle => new Promise(done => {
  const server = http.createServer(handle).listen(0, '127.0.0.1', () => done(server));
});

async function tried(kind, inParts) {
  writes.length = 0;
  agent = new http.Agent({ keepAlive: true });
  const work = KINDS[kind]();
  const server = await serving(async (request, reply) => {
    const name = request.url.slice(1);
    // the reply is still to come
    reply.writeContinue();
    if (inParts) {
      await get(name);
      reply.write(`reply ${name} `);
    }
    await work(name);
    reply.end(`reply ${name} `);
  });
  const { port } = server.address();
  const worker = new Worker(CLIENT, { eval: true, workerData: { port, clients: CLIENTS, requests: REQUESTS } });
  await new Promise(done => worker.on('exit', done));
  server.close();
  agent.destroy();
  const named = new Map(), last = new Map();
  for (const { id, names: [name] } of writes.filter(w => w.isReply)) {
    // of a reply in parts the last one counts, and a number that replies to several is believed for none
    const before = last.get(name);
    if (before !== undefined && before !== id) named.set(before, null);
    last.set(name, id);
    if (id !== 0) named.set(id, !named.has(id) || named.get(id) === name ? name : null);
  }
  const out = { kind, inParts, right: 0, wrong: 0, open: 0 };
  for (const { id, names } of writes.filter(w => !w.isReply)) {
    const told = named.get(id);
    out[told == null ? 'open' : names.length === 1 && names[0] === told ? 'right' : 'wrong']++;
  }
  fs.writeSync(1, `${JSON.stringify(out)}\n`);
}

(async () => {
  const server = await serving(async (_, reply) => {
    await pause(2);
    reply.end('ok');
  });
  down = server.address().port;
  const answering = net.createServer(async socket => {
    let last = Promise.resolve();
    socket.on('data', data => {
      for (const _ of String(data).matchAll(/c\d+r\d+/g)) last = last.then(() => pause(5)).then(() => socket.write('ok\n'));
    });
  }).listen(0, '127.0.0.1');
  await new Promise(done => answering.on('listening', done));
  lines = answering.address().port;
  for (const inParts of [false, true]) {
    for (const kind of Object.keys(KINDS)) await tried(kind, inParts);
  }
  process.exit(0);
})();
