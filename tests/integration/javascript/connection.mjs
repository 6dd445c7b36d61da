// How the scripts beside this one connect: CODEC is json, protobuf, sse for a network that lets no WebSocket through, or shared
// for a connection that is that of several tabs. WS is a module with a WebSocket, where the runtime has none.
import assert from "node:assert/strict";

const { connect, webSocket } = await import(`${process.env.SDK}/hubbub.js`);
const options = { hub: process.env.HUB, token: process.env.TOKEN };
if (process.env.CODEC === "protobuf") options.codec = (await import(`${process.env.SDK}/protobuf.js`)).protobuf();
if (process.env.CODEC === "shared") {
  options.transports = [(await import(`${process.env.SDK}/shared.js`)).shared()];
}
if (process.env.WS && process.env.CODEC !== "sse") {
  assert.equal(globalThis.WebSocket, undefined);
  options.transports = [webSocket((await import(process.env.WS)).default)];
}
if (process.env.CODEC === "sse") {
  options.backoff = { firstMs: 1 };
  globalThis.WebSocket = class {
    constructor() {
      setTimeout(() => this.onclose?.({ code: 1006, reason: "" }));
    }
    close() {}
  };
}

export async function open(listen = () => {}, more = {}) {
  const client = connect(process.env.URL, { ...options, ...more });
  listen(client);
  await client.ready;
  const { CODEC } = process.env;
  assert.equal(client.transport, ["sse", "shared"].includes(CODEC) ? CODEC : "websocket");
  return client;
}

export async function until(condition) {
  for (let i = 0; i < 2000 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.ok(condition(), condition.toString());
}
