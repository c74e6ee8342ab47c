// A web service on Node.js that some requests block: `service.js` prints its port, `service.js DOWN` calls a service at that port
// for each request. GET /hog computes for 50 ms; everything else is answered at once.
const http = require("node:http");

const HOG_NS = 50e6;
const down = process.argv[2];
const agent = new http.Agent({ keepAlive: true });

const hog = () => {
  const until = process.hrtime.bigint() + BigInt(HOG_NS);
  while (process.hrtime.bigint() < until);
};

const call = (done) =>
  http.get({ host: "127.0.0.1", port: down, path: "/down", agent }, (reply) => reply.resume().on("end", done));

const server = http.createServer((request, reply) => {
  if (request.url.startsWith("/hog")) {
    hog();
    reply.end("ok");
  } else if (down) {
    call(() => reply.end("ok"));
  } else {
    reply.end("ok");
  }
});

server.listen(0, "127.0.0.1", () => console.log(server.address().port));
