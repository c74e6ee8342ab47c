// Node.js by TLS or without (CERT): `front`, HTTP/2 before another of its kind (BACK) by HTTP/2; `web`, HTTP/1.1 before PostgreSQL with a pool of
// five; `back`, HTTP/2, asks nobody. Each writes what it was asked to ASKED. usage: node tls.js front|back|web; settings come by environment
const fs = require('fs'), http = require('http'), http2 = require('http2'), https = require('https');
const { PORT, LOG, ASKED, CERT, KEY, BACK, PG, MODULES } = process.env;

const keys = CERT && { cert: fs.readFileSync(CERT), key: fs.readFileSync(KEY) };
const log = fs.openSync(LOG, 'a'), asked = fs.openSync(ASKED, 'a');
const isEven = rid => '02468'.includes(rid.at(-1));

// asks the other service: half of them read, half of them order with a body of more than a record
function byStreams() {
  let session;
  return rid => new Promise((done, failed) => {
    session ??= http2.connect(`${CERT ? 'https' : 'http'}://127.0.0.1:${BACK}`, { rejectUnauthorized: false });
    const [method, path, body] = isEven(rid) ? ['POST', '/orders', 'o'.repeat(20000)] : ['GET', '/items', ''];
    // the id stands in the head as it is: these letters at its end take more room when they are compressed
    const head = { ':method': method, ':path': path, 'x-rid': `rid=${rid} ${'\\'.repeat(32)}` };
    const stream = session.request(head, { endStream: !body });
    stream.on('error', failed).on('end', done).resume();
    if (body) stream.end(body);
  });
}

function byStatements() {
  const { Pool } = require(require.resolve('pg', { paths: [MODULES] }));
  const ssl = CERT ? { rejectUnauthorized: false } : false;
  const pool = new Pool({ host: '127.0.0.1', port: +PG, user: 'postgres', database: 'postgres', max: 5, ssl });
  return async rid => {
    await pool.query(`/* rid=${rid} */ SELECT name FROM items WHERE id = 7`);
    if (isEven(rid)) await pool.query({ text: `/* rid=${rid} */ INSERT INTO orders VALUES ($1, $2)`, values: [7, 'o'.repeat(3000)] });
  };
}

const work = { front: byStreams, web: byStatements, back: () => null }[process.argv[2]]();
async function answer(request, reply) {
  const { pathname, searchParams } = new URL(request.url, 'http://a');
  fs.writeSync(asked, `${request.method} ${pathname}\n`);
  for await (const _ of request);
  if (!work) return reply.end('i'.repeat(10000));
  const rid = searchParams.get('rid');
  await work(rid);
  fs.writeSync(log, `rid=${rid} 200\n`);
  reply.end(rid);
}
const isHTTP2 = process.argv[2] !== 'web';
const server = CERT
  ? (isHTTP2 ? http2.createSecureServer(keys, answer) : https.createServer(keys, answer))
  : (isHTTP2 ? http2 : http).createServer(answer);
server.listen(+PORT, '127.0.0.1');
