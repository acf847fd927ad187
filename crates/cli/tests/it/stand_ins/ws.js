// A server on the library ws that sends back each message as it came, and writes how many there were when it is stopped.
// With the word `compressed`, it compresses what it sends, and lets in only clients that agree to that.
const { WebSocketServer } = require("ws");

const isCompressed = process.argv[2] === "compressed";
const perMessageDeflate = isCompressed && { threshold: 0 };
let came = 0;
const server = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate });
server.on("connection", (socket) => {
  if (isCompressed && !socket.extensions.includes("permessage-deflate")) {
    socket.terminate();
  }
  socket.on("message", (content, isBinary) => {
    came += 1;
    socket.send(content, { binary: isBinary });
  });
});
server.on("listening", () => console.log(`listening websocket=${server.address().port}`));
process.on("SIGTERM", () => {
  console.log(`came=${came}`);
  process.exit(0);
});
