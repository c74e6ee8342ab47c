// What Wakepath's helper for Node must tell apart: a pool of three that is always taken, a connection to Redis that all
// requests share, agents of five connections, timers, several calls at once. Settings come by environment.
const fs = require('fs'), http = require('http');
const load = name => require(require.resolve(name, { paths: [process.env.MODULES] }));
const { Pool } = load('pg'), Redis = load('ioredis'), undici = load('undici');
const { PORT, PG, REDIS, DOWN, LOG } = process.env;

const pool = new Pool({ host: '127.0.0.1', port: +PG, user: 'postgres', database: 'postgres', max: 3 });
const redis = new (Redis.default || Redis)(+REDIS, '127.0.0.1');
const agent = new http.Agent({ keepAlive: true, maxSockets: 5 });
const other = new undici.Pool(`http://127.0.0.1:${DOWN}`, { connections: 5 });
const log = fs.openSync(LOG, 'a');
const STATUS = { '/x': 200, '/miss': 404, '/fail': 500 };

const byNode = path => new Promise((done, failed) => {
  http.get({ host: '127.0.0.1', port: +DOWN, path, agent }, reply => {
    reply.resume();
    reply.on('end', done);
  }).on('error', failed);
});
const byUndici = async path => (await other.request({ path, method: 'GET' })).body.text();

async function work(rid) {
  await redis.incr(`rid:${rid}`);
  await pool.query(`/* rid=${rid} */ SELECT pg_sleep(0.001)`);
  await new Promise(done => setTimeout(done, 2));
  await Promise.all([byNode(`/down?rid=${rid}`), byUndici(`/down?rid=${rid}`), redis.get(`rid:${rid}`)]);
}

http.createServer(async (request, reply) => {
  const { pathname, searchParams } = new URL(request.url, 'http://a');
  const rid = searchParams.get('rid'), status = STATUS[pathname] ?? 404;
  if (status === 200) await work(rid);
  else await redis.incr(`rid:${rid}`);
  fs.writeSync(log, `rid=${rid} ${status}\n`);
  reply.writeHead(status, { 'Content-Length': rid.length });
  reply.end(rid);
}).listen(+PORT, '127.0.0.1');
