// CPU per delivered message, on fake sockets that hand over frames as a hub sends them: node bench/cpu.mjs [MESSAGES]
// Beside it: bare parsing of the same frames, and centrifuge-js with the frames of its own protocol.

const MESSAGES = Number(process.argv[2] ?? 200_000);
const PER_FRAME = 10;
const RUNS = 5;
const sdk = new URL("../../../src/hubbub/web/sdk/", import.meta.url);
const { connect, webSocket } = await import(new URL("hubbub.js", sdk));
const { protobuf } = await import(new URL("protobuf.js", sdk));
const data = { user: "ann", text: "hello world, how are you today?", n: 12345, tags: ["a", "b"] };

class Socket {
  static last;
  readyState = 1;
  bufferedAmount = 0;
  constructor() {
    Socket.last = this;
    queueMicrotask(() => this.onopen?.({}));
  }
  send(frame) {
    this.onsend?.(frame);
  }
  close() {}
}

function wire(serial) {
  return {
    channel: "room:1",
    event: "",
    payload: { json: data },
    msgID: `m${serial}`,
    ts: 1760000000000 + serial,
    channelSerial: String(serial),
    publisher: "ann",
  };
}

const settle = () => new Promise((resolve) => setTimeout(resolve, 20));
const jsonFrames = [];
for (let i = 0; i < MESSAGES; i += PER_FRAME) {
  const lines = [];
  for (let j = 1; j <= PER_FRAME; j++) lines.push(JSON.stringify({ event: "Publish", payload: wire(i + j) }));
  jsonFrames.push(lines.join("\n"));
}

// -- protobuf frames, written by hand as the hub's are: field after field of ChannelPublish
const utf8 = new TextEncoder();
function varint(n) {
  const out = [];
  for (; n > 127; n = Math.floor(n / 128)) out.push((n % 128) | 128);
  return [...out, n];
}
const block = (number, bytes) => [...varint(number * 8 + 2), ...varint(bytes.length), ...bytes];
const text = (number, value) => block(number, utf8.encode(value));
function published(serial) {
  const body = [
    ...text(1, "room:1"),
    ...text(3, JSON.stringify(data)),
    ...text(4, `m${serial}`),
    40,
    ...varint(1760000000000 + serial),
    ...text(6, String(serial)),
    ...text(7, "application/json"),
    ...text(8, "ann"),
  ];
  return block(1, [8, 22, ...block(2, body)]);
}
const protoFrames = [];
for (let i = 0; i < MESSAGES; i += PER_FRAME) {
  const bytes = [];
  for (let j = 1; j <= PER_FRAME; j++) bytes.push(...published(i + j));
  protoFrames.push(Uint8Array.from(bytes).buffer);
}

async function hubbub(codec, frames, greet, confirm) {
  const client = connect("http://hub.test", {
    hub: "h",
    transports: [webSocket(Socket)],
    ...(codec && { codec }),
  });
  let sum = 0;
  client.channel("room:1").subscribe((message) => {
    sum += message.data.n;
  });
  await settle();
  const socket = Socket.last;
  socket.onsend = (frame) => confirm(frame, socket);
  socket.onmessage({ data: greet });
  await settle();
  const all = () => sum === MESSAGES * data.n;
  const cost = await measure(frames, (frame) => socket.onmessage({ data: frame }), all);
  await client.disconnect();
  return cost;
}

/** Until all messages have arrived: some clients hand them over in a later turn. */
async function measure(frames, f, arrived) {
  globalThis.gc?.();
  const before = process.cpuUsage();
  for (const frame of frames) f(frame);
  while (!arrived()) await new Promise(setImmediate);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / MESSAGES;
}

const info = { hubID: "h", sessionID: "s", hubAllowAnonymous: true, pingInterval: 25 };
const json = () =>
  hubbub(undefined, jsonFrames, JSON.stringify({ event: "SessionInfo", payload: info }), (frame, socket) => {
    const { event, payload } = JSON.parse(frame);
    if (event !== "Subscribe") return;
    const channels = [{ channel: "room:1", epoch: "e", serial: "0", recovered: true }];
    queueMicrotask(() =>
      socket.onmessage({
        data: JSON.stringify({ event, payload: { reqID: payload.reqID, channels, failures: [] } }),
      }),
    );
  });

const proto = () => {
  const greet = Uint8Array.from(block(1, [8, 10, ...block(2, [...text(1, "h"), ...text(2, "s")])])).buffer;
  return hubbub(protobuf(), protoFrames, greet, (frame, socket) => {
    if (frame[3] !== 20) return; // Subscribe
    const reqID = frame[7];
    const channel = [...text(1, "room:1"), ...text(2, "e"), ...text(3, "0"), 32, 1];
    const answer = Uint8Array.from(block(1, [8, 20, ...block(2, [8, reqID, ...block(4, channel)])])).buffer;
    queueMicrotask(() => socket.onmessage({ data: answer }));
  });
};

const bare = async () => {
  let sum = 0;
  const parse = (frame) => {
    for (const line of frame.split("\n")) sum += JSON.parse(line).payload.payload.json.n;
  };
  return measure(jsonFrames, parse, () => sum > 0);
};

async function centrifuge() {
  const { Centrifuge } = await import("centrifuge");
  const frames = [];
  for (let i = 0; i < MESSAGES; i += PER_FRAME) {
    const lines = [];
    for (let j = 1; j <= PER_FRAME; j++) {
      const pub = { data, offset: i + j, info: { user: "ann", client: "c" } };
      lines.push(JSON.stringify({ push: { channel: "room:1", pub } }));
    }
    frames.push(lines.join("\n"));
  }
  const client = new Centrifuge("ws://hub.test", { websocket: Socket });
  let sum = 0;
  const subscription = client.newSubscription("room:1");
  subscription.on("publication", ({ data: got }) => {
    sum += got.n;
  });
  subscription.subscribe();
  client.connect();
  await settle();
  const socket = Socket.last;
  socket.onsend = (text_) => {
    for (const line of text_.split("\n")) {
      const { id, connect: connecting, subscribe } = JSON.parse(line);
      const reply = connecting
        ? { connect: { client: "c", version: "1" } }
        : subscribe
          ? { subscribe: { recoverable: true, epoch: "e", offset: 0, positioned: true } }
          : undefined;
      if (reply) queueMicrotask(() => socket.onmessage({ data: JSON.stringify({ id, ...reply }) }));
    }
  };
  socket.onopen({});
  await settle();
  await settle();
  const all = () => sum === MESSAGES * data.n;
  const cost = await measure(frames, (frame) => socket.onmessage({ data: frame }), all);
  client.disconnect();
  return cost;
}

const subjects = {
  "bare parsing of the JSON frames": bare,
  "Hubbub, JSON": json,
  "Hubbub, protobuf": proto,
  "centrifuge-js, JSON": centrifuge,
};
const results = Object.fromEntries(Object.keys(subjects).map((name) => [name, []]));
for (let run = 0; run < RUNS; run++) {
  for (const [name, f] of Object.entries(subjects)) {
    try {
      results[name].push(await f());
    } catch (error) {
      if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
    }
  }
}
console.log(
  `µs of CPU per message, ${MESSAGES} messages, ${PER_FRAME} to a frame, ${RUNS} runs in turns: median (lowest to highest)`,
);
for (const [name, costs] of Object.entries(results)) {
  costs.sort((a, b) => a - b);
  if (costs.length)
    console.log(
      `${name.padEnd(34)} ${costs[costs.length >> 1].toFixed(2)} (${costs[0].toFixed(2)} to ${costs.at(-1).toFixed(2)})`,
    );
  else console.log(`${name.padEnd(34)} not installed`);
}
const median = (name) => results[name][results[name].length >> 1];
for (const [name, most] of [
  ["bare parsing of the JSON frames", 1.5],
  ["centrifuge-js, JSON", 1],
]) {
  const ratio = median("Hubbub, JSON") / median(name);
  console.log(`Hubbub, JSON: ${ratio.toFixed(2)} of ${name}, ${most} or less wanted`);
}
process.exit(0);
