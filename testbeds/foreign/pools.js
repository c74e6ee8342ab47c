// Node.js with Wakepath's helper, by the libraries that hand one request's connection to another in ways of their own. KIND: `pools` is
// Koa with knex, Sequelize, node-redis and axios; `mysql` is Fastify with mysql2; `pipelined` is Fastify with Postgres.js, which writes what
// several requests ask at once; `pipelines` is Fastify with pipelines of ioredis on one connection. Settings come by environment.
const fs = require('fs'), http = require('http');
const load = name => require(require.resolve(name, { paths: [process.env.MODULES] }));
const { KIND, PORT, PG, REDIS, MY, DOWN, LOG } = process.env;
const log = fs.openSync(LOG, 'a'), host = '127.0.0.1';
const axios = load('axios').create({ baseURL: `http://${host}:${DOWN}`, httpAgent: new http.Agent({ keepAlive: true, maxSockets: 5 }) });
const byFetch = async rid => (await fetch(`http://${host}:${DOWN}/down?rid=${rid}`)).text();
const byAxios = rid => axios.get(`/down?rid=${rid}`);

async function pools() {
  const knex = load('knex')({ client: 'pg', connection: { host, port: +PG, user: 'postgres', database: 'postgres' }, pool: { min: 2, max: 4 } });
  const options = { host, port: +PG, dialect: 'postgres', logging: false, pool: { max: 3 } };
  const sequelize = new (load('sequelize').Sequelize)('postgres', 'postgres', '', options);
  const redis = await load('redis').createClient({ url: `redis://${host}:${REDIS}` }).connect();
  const app = new (load('koa'))();
  app.use(async context => {
    const { rid } = context.query;
    await knex.raw(`/* rid=${rid} */ SELECT pg_sleep(0.001)`);
    await Promise.all([redis.incr(`rid:${rid}`), redis.get(`rid:${rid}`), byAxios(rid)]);
    await sequelize.query(`/* rid=${rid} */ SELECT 1`);
    await byFetch(rid);
    fs.writeSync(log, `rid=${rid} 200\n`);
    context.body = rid;
  });
  app.listen(+PORT, host);
}

async function mysql() {
  const pool = load('mysql2/promise').createPool({ host, port: +MY, user: 'root', connectionLimit: 4 });
  const app = load('fastify')();
  app.get('/x', async ({ query: { rid } }) => {
    await pool.query(`/* rid=${rid} */ SELECT SLEEP(0.001)`);
    await Promise.all([byAxios(rid), byFetch(rid)]);
    const connection = await pool.getConnection();
    try {
      await Promise.all([1, 2].map(n => connection.query(`/* rid=${rid} */ SELECT ${n}`)));
    } finally {
      connection.release();
    }
    fs.writeSync(log, `rid=${rid} 200\n`);
    return rid;
  });
  await app.listen({ port: +PORT, host });
}

async function pipelined() {
  const sql = load('postgres')({ host, port: +PG, user: 'postgres', database: 'postgres', max: 3 });
  const app = load('fastify')();
  app.get('/x', async ({ query: { rid } }) => {
    await byFetch(rid);
    await Promise.all([sql.unsafe(`/* rid=${rid} */ SELECT pg_sleep(0.001)`), byAxios(rid)]);
    fs.writeSync(log, `rid=${rid} 200\n`);
    return rid;
  });
  await app.listen({ port: +PORT, host });
}

async function pipelines() {
  const redis = new (load('ioredis'))(+REDIS, host);
  const app = load('fastify')();
  app.get('/x', async ({ query: { rid } }) => {
    await redis.pipeline().lrange(`rid:${rid}:l`, 0, -1).incr(`rid:${rid}`).hgetall(`rid:${rid}:h`).exec();
    await Promise.all([byAxios(rid), redis.pipeline().lrange(`rid:${rid}:l`, 0, -1).incr(`rid:${rid}`).exec()]);
    fs.writeSync(log, `rid=${rid} 200\n`);
    return rid;
  });
  await app.listen({ port: +PORT, host });
}

async function limited() {
  const options = { host, port: +PG, user: 'postgres', database: 'postgres' };
  const limit = load('p-limit')(2), queue = new (load('p-queue').default)({ concurrency: 2 });
  const connect = async () => {
    const client = new (load('pg').Client)(options);
    await client.connect();
    return client;
  };
  const pool = load('generic-pool').createPool({ create: connect, destroy: client => client.end() }, { min: 3, max: 3 });
  const app = new (load('koa'))();
  app.use(async context => {
    const { rid } = context.query;
    await Promise.all([limit(() => byAxios(rid)), limit(() => byFetch(rid)), queue.add(() => byAxios(rid))]);
    await pool.use(client => client.query(`/* rid=${rid} */ SELECT pg_sleep(0.001)`));
    fs.writeSync(log, `rid=${rid} 200\n`);
    context.body = rid;
  });
  app.listen(+PORT, host);
}

async function streamed(ask = byAxios) {
  const pool = new (load('pg').Pool)({ host, port: +PG, user: 'postgres', database: 'postgres', max: 4 });
  const redis = new (load('ioredis'))(+REDIS, host);
  const serve = async (request, response) => {
    const rid = request.url.split('rid=')[1];
    await pool.query(`/* rid=${rid} */ SELECT pg_sleep(0.001)`);
    response.write('a part');
    await ask(rid);
    response.write('another part');
    await redis.incr(`rid:${rid}`);
    fs.writeSync(log, `rid=${rid} 200\n`);
    response.end(rid);
  };
  http.createServer(serve).listen(+PORT, host);
}

async function queued() {
  const jobs = [];
  let wake;
  await streamed(rid => new Promise(done => {
    jobs.push({ rid, done });
    wake?.();
  }));
  for (;;) {
    while (jobs.length === 0) await new Promise(go => { wake = go; });
    const { rid, done } = jobs.shift();
    done(await byAxios(rid));
  }
}

({ pools, mysql, pipelined, pipelines, limited, streamed, queued })[KIND]();
