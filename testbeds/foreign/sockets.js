// A WebSocket server by `ws`, which asks the service behind for each message. Settings come by environment.
// HOW: ids (JSON-RPC), turns (plain text, the next message is the answer), pushed (the same, and it also speaks unasked).
const http = require('http');
const { PORT, DOWN, HOW, MODULES } = process.env;
const { WebSocketServer } = require(require.resolve('ws', { paths: [MODULES] }));

const agent = new http.Agent({ keepAlive: true });
const get = path => new Promise((done, failed) => {
  http.get({ host: '127.0.0.1', port: +DOWN, path, agent }, reply => {
    reply.resume();
    reply.on('end', done);
  }).on('error', failed);
});

const news = HOW === 'ids' ? JSON.stringify({ jsonrpc: '2.0', method: 'news' }) : 'news';
const server = new WebSocketServer({ port: +PORT, host: '127.0.0.1' });
server.on('connection', socket => {
  socket.on('message', async data => {
    const said = data.toString();
    if (HOW !== 'turns') socket.send(news);
    await get(`/down?${said.match(/rid=[^ "]*/)[0]}`);
    socket.send(HOW === 'ids' ? JSON.stringify({ jsonrpc: '2.0', id: JSON.parse(said).id, result: 'done' }) : 'done');
  });
});
