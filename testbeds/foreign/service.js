// Express; settings come by environment.
const fs = require('fs'), http = require('http');
const modules = process.env.MODULES;
const load = name => require(require.resolve(name, { paths: [modules] }));
const express = load('express'), { Pool } = load('pg'), Redis = load('ioredis');
const { PORT, PG, REDIS, DOWN, LOG } = process.env;

const pool = new Pool({ host: '127.0.0.1', port: +PG, user: 'postgres', database: 'postgres', max: 5 });
const redis = new (Redis.default || Redis)(+REDIS, '127.0.0.1');
const agent = new http.Agent({ keepAlive: true });
const log = fs.createWriteStream(LOG, { flags: 'a' });

const get = path => new Promise((done, failed) => {
  http.get({ host: '127.0.0.1', port: +DOWN, path, agent }, reply => {
    reply.resume();
    reply.on('end', done);
  }).on('error', failed);
});
const answer = (request, reply, status) => {
  log.write(`rid=${request.query.rid} ${status}\n`);
  reply.status(status).send(`${request.query.rid}\n`);
};

const app = express();
app.get('/x', async (request, reply) => {
  const { rid } = request.query;
  await redis.incr(`rid:${rid}`);
  await pool.query(`/* rid=${rid} */ SELECT pg_sleep(0.001)`);
  await new Promise(done => setTimeout(done, 2));
  await Promise.all([get(`/down?rid=${rid}`), get(`/down?rid=${rid}`)]);
  answer(request, reply, 200);
});
for (const [path, status] of [['/miss', 404], ['/fail', 500]]) {
  app.get(path, async (request, reply) => {
    await redis.incr(`rid:${request.query.rid}`);
    answer(request, reply, status);
  });
}
app.listen(+PORT, '127.0.0.1');
