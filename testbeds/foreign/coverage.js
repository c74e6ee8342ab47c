// Two shapes that need care: one Redis connection for all requests, then a call; and a query, a timer, two calls at once.
// usage: node coverage.js shared|timer; settings come by environment
const fs = require('fs'), http = require('http');
const load = name => require(require.resolve(name, { paths: [process.env.MODULES] }));
const { PORT, PG, REDIS, DOWN, LOG } = process.env;

const agent = new http.Agent({ keepAlive: true });
const log = fs.openSync(LOG, 'a');
const get = rid => new Promise((done, failed) => {
  http.get({ host: '127.0.0.1', port: +DOWN, path: `/down?rid=${rid}`, agent }, reply => {
    reply.resume();
    reply.on('end', done);
  }).on('error', failed);
});

function shared() {
  const Redis = load('ioredis'), redis = new (Redis.default || Redis)(+REDIS, '127.0.0.1');
  return async rid => {
    await redis.incr(`rid:${rid}`);
    await get(rid);
  };
}

function timer() {
  const { Pool } = load('pg');
  const pool = new Pool({ host: '127.0.0.1', port: +PG, user: 'postgres', database: 'postgres', max: 5 });
  return async rid => {
    await pool.query(`/* rid=${rid} */ SELECT pg_sleep(0.001)`);
    await new Promise(done => setTimeout(done, 4));
    await Promise.all([get(rid), get(rid)]);
  };
}

function plain() {
  const { Pool } = load('pg');
  const pool = new Pool({ host: '127.0.0.1', port: +PG, user: 'postgres', database: 'postgres', max: 5 });
  return rid => pool.query(`/* rid=${rid} */ SELECT pg_sleep(0.001)`);
}

const work = { shared, timer, pg: plain }[process.argv[2]]();
http.createServer(async (request, reply) => {
  const rid = new URL(request.url, 'http://a').searchParams.get('rid');
  await work(rid);
  fs.writeSync(log, `rid=${rid} 200\n`);
  reply.setHeader('Content-Length', rid.length);
  reply.end(rid);
}).listen(+PORT, '127.0.0.1');
