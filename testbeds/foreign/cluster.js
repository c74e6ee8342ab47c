// Node.js's cluster: the primary accepts and hands connections to two workers. undici's pool, ioredis with pipelines, pg's pool.
const cluster = require("node:cluster");
const env = process.env;
const from = (name) => require(`${env.MODULES}/node_modules/${name}`);

if (cluster.isPrimary) {
  for (let i = 0; i < 2; i++) cluster.fork();
} else {
  const fs = require("node:fs");
  const fastify = from("fastify")();
  const { Pool } = from("undici");
  const Redis = from("ioredis");
  const pg = from("pg");
  const log = fs.openSync(env.LOG, "a");
  const down = new Pool(`http://127.0.0.1:${env.DOWN}`, { connections: 3 });
  const cache = new Redis(Number(env.REDIS), "127.0.0.1");
  const db = new pg.Pool({ host: "127.0.0.1", port: Number(env.PG), user: "postgres", database: "postgres", max: 3 });
  const status = { miss: 404, fail: 500 };
  fastify.get("/:kind", async (request, reply) => {
    const { rid } = request.query;
    const code = status[request.params.kind] ?? 200;
    await cache.pipeline().incr(`rid:${rid}`).expire(`rid:${rid}`, 60).exec();
    if (code === 200) {
      await Promise.all([
        db.query(`/* rid=${rid} */ SELECT pg_sleep(0.001)`),
        down.request({ path: `/down?rid=${rid}`, method: "GET" }).then((answer) => answer.body.text()),
      ]);
    }
    fs.writeSync(log, `rid=${rid} ${code}\n`);
    return reply.code(code).send(rid);
  });
  fastify.listen({ port: Number(env.PORT), host: "127.0.0.1" });
}
