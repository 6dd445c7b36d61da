// Many clients in one process, which come back by themselves: node crowd.mjs URL CLIENTS CHANNELS
// Says a line of JSON whenever all of them are connected; answers every line of its input with what they have seen.

import { createInterface } from "node:readline";

const [url, clients, channels] = process.argv.slice(2);
const COUNT = Number(clients);
const { connect } = await import(new URL("../../../src/hubbub/web/sdk/hubbub.js", import.meta.url));
const all = [];
const attempts = new Map(); // by second
let gaps = 0;
let disorder = 0;

function say(what) {
  process.stdout.write(`${JSON.stringify(what)}\n`);
}

function changed({ state }) {
  if (state === "connecting") {
    const second = Math.floor(Date.now() / 1000);
    attempts.set(second, (attempts.get(second) ?? 0) + 1);
  }
  if (state === "connected" && all.every(({ client }) => client.state === "connected"))
    say({ connected: Date.now() });
}

for (let i = 0; i < COUNT; i++) {
  const client = connect(url, { hub: "crowd" });
  const one = { client, last: 0 };
  all.push(one);
  client.on("state", changed);
  client.on("gap", () => gaps++);
  const subscription = client.channel(`room:${i % Number(channels)}`).subscribe(({ data }) => {
    if (data !== one.last + 1) disorder++;
    one.last = data;
  });
  await subscription.ready; // one after the other: the benchmark begins when all are there
}
say({ connected: Date.now() });

for await (const _line of createInterface({ input: process.stdin })) {
  const streams = all.filter(({ client }) => client.transport === "sse").length;
  say({ least: Math.min(...all.map(({ last }) => last)), gaps, disorder, streams, attempts: [...attempts] });
  attempts.clear();
}
process.exit(0);
