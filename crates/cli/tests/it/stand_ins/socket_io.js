// A server on the library socket.io. A client without a name is not let in. Each `message` is acknowledged and sent to the
// room of its device, which clients enter by `subscribe`; every twentieth reaches nobody. When it is stopped, it writes
// what it counted.
const { createServer } = require("node:http");
const { Server } = require("socket.io");

const counts = { came: 0, lost: 0, pushed: 0 };
const http = createServer();
// Pings come often, so that a client that does not answer them is closed within a test.
const io = new Server(http, { pingInterval: 300, pingTimeout: 2000, transports: ["websocket"] });
io.use((socket, next) => next(socket.handshake.auth.name ? undefined : new Error("nobody without a name")));
io.on("connection", (socket) => {
  socket.on("subscribe", (device) => {
    socket.join(device);
    socket.emit("subscribed", device);
  });
  socket.on("message", (content, acknowledge) => {
    counts.came += 1;
    acknowledge("taken");
    if (counts.came % 20 === 0) {
      counts.lost += 1;
      return;
    }
    counts.pushed += io.sockets.adapter.rooms.get(content.device)?.size ?? 0;
    io.to(content.device).emit("message", content);
  });
});
http.listen(0, "127.0.0.1", () => console.log(`listening websocket=${http.address().port}`));
process.on("SIGTERM", () => {
  console.log(Object.entries(counts).map(([name, count]) => `${name}=${count}`).join(" "));
  process.exit(0);
});
