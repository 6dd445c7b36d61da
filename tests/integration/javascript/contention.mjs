// Ten clients count in one document at once: every edit is a function, and none is lost.
import assert from "node:assert/strict";
import { open, until } from "./connection.mjs";

const { liveDocument } = await import(`${process.env.SDK}/hubbub.js`);
const clients = await Promise.all(Array.from({ length: 10 }, () => open()));
const counters = clients.map((client) => liveDocument(client, "doc:counter"));
const add = (value) => [{ op: "add", path: "/n", value: (value.n ?? 0) + 1 }];
await Promise.all(
  counters.map(async (counter) => {
    await counter.ready;
    for (let i = 0; i < 20; i++) await counter.change(add);
  }),
);
await until(() => counters.every(({ version }) => version === 200));
assert.deepEqual(counters[0].value, { n: 200 });
await Promise.all(clients.map((client) => client.close()));
console.log("done");
