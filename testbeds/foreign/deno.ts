// Deno, whose server and `fetch` work in Rust on one loop. Settings come by environment.
const env = Deno.env.toObject();
const { default: { Pool } } = await import(`${env.MODULES}/node_modules/pg/esm/index.mjs`);
const log = Deno.openSync(env.LOG, { append: true, write: true });
const db = new Pool({ host: "127.0.0.1", port: Number(env.PG), user: "postgres", database: "postgres", max: 5 });
const status: Record<string, number> = { "/miss": 404, "/fail": 500 };

Deno.serve({ port: Number(env.PORT), hostname: "127.0.0.1", onListen() {} }, async (request) => {
  const url = new URL(request.url);
  const rid = url.searchParams.get("rid");
  const code = status[url.pathname] ?? 200;
  await db.query(`/* rid=${rid} */ SELECT 1`);
  if (code === 200) {
    await (await fetch(`http://127.0.0.1:${env.DOWN}/down?rid=${rid}`)).text();
  }
  log.writeSync(new TextEncoder().encode(`rid=${rid} ${code}\n`));
  return new Response(rid, { status: code });
});
