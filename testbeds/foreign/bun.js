// A service on Bun, whose own client for HTTP is a thread of its own. Settings come by environment.
const fs = require('fs');
const { PORT, REDIS, DOWN, LOG, MODULES } = process.env;
const Redis = require(require.resolve('ioredis', { paths: [MODULES] }));

const redis = new (Redis.default || Redis)(+REDIS, '127.0.0.1');
const get = async rid => (await fetch(`http://127.0.0.1:${DOWN}/down?rid=${rid}`)).text();
const answer = (rid, status) => {
  fs.appendFileSync(LOG, `rid=${rid} ${status}\n`);
  return new Response(`${rid}\n`, { status });
};

Bun.serve({
  port: +PORT,
  hostname: '127.0.0.1',
  async fetch(request) {
    const at = new URL(request.url), rid = at.searchParams.get('rid');
    const status = { '/miss': 404, '/fail': 500 }[at.pathname] ?? 200;
    if (status === 200) await Promise.all([get(rid), get(rid)]);
    await redis.incr(`rid:${rid}`);
    if (status === 200) await get(rid);
    return answer(rid, status);
  },
});
