// Credentials in place of a token, at a hub that lets nobody in without.
import assert from "node:assert/strict";
import { open, until } from "./connection.mjs";

let asked = 0;
const credentials = () => {
  asked++;
  return { password: "secret" };
};
const client = await open(() => {}, { token: undefined, credentials });
const { session } = client;
assert.deepEqual([session.authenticated, session.userId, session.extra], [true, "ann", { name: "Ann" }]);
assert.ok(session.expiresAt > new Date());
assert.ok(session.id && session.maxMessageBytes > 1000);
assert.equal(asked, 1);

const room = client.channel("room:1");
const got = [];
await room.subscribe((m) => got.push(m.data)).ready;
await room.publish("hi");
await until(() => got.length === 1);
await assert.rejects(client.channel("closed").publish(1), { code: "not_permitted" });

// Again, on the same connection.
assert.equal((await client.authenticate({ credentials })).userId, "ann");
await room.publish("ho");
await until(() => got.length === 2);
assert.deepEqual(got, ["hi", "ho"]);
await client.close();
console.log("done");
