// The transport of the JavaScript client of 2012, told what to do by lines of JSON: what is an array
// is emitted, `"disconnect"` leaves. Prints what it hears, an array in each line.
"use strict";
const readline = require("readline");
const io = require("socket.io-client");

const say = (...heard) => console.log(JSON.stringify(heard));
const socket = io.connect(process.argv[2], { transports: ["websocket"], reconnect: false });
for (const name of ["connect", "disconnect", "connect_failed", "error", "hStatus", "attrs", "hMessage", "hCommand",
  "hResult"]) {
  socket.on(name, (value) => say(name, value === undefined ? null : value));
}
const heartbeat = io.Transport.prototype.onHeartbeat;
io.Transport.prototype.onHeartbeat = function () {
  say("heartbeat", null);
  return heartbeat.apply(this, arguments);
};
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const told = JSON.parse(line);
  if (told === "disconnect") socket.disconnect();
  else socket.emit(...told);
}).on("close", () => process.exit(0));
