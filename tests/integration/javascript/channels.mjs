// Publish, subscribe, history, presence, patterns, filters and calls, over the wire of a real hub.
import assert from "node:assert/strict";
import { open, until } from "./connection.mjs";

const { HubbubError } = await import(`${process.env.SDK}/hubbub.js`);

const states = [];
const client = await open((opened) => opened.on("state", ({ state }) => states.push(state)));
const { session } = client;
assert.equal(session.hub, process.env.HUB);
assert.equal(session.userId, "ann");
assert.ok(session.expiresAt > new Date());
assert.ok(session.maxMessageBytes > 1000);

// Iterating, in every kind of data.
const room = client.channel("room:1");
const subscription = room.subscribe();
await subscription.ready;
const bytes = new Uint8Array([0, 255, 10, 13]);
const sent = [{ n: 1, deep: [null, true, "ü"] }, "text\nwith lines", bytes, 42, null, ""];
for (const data of sent) {
  const receipt = await room.publish(data, { event: "thing", headers: { a: 1 }, conversation: "c1", priority: 5 });
  assert.equal(typeof receipt.serial, "bigint");
}
const got = [];
for await (const message of subscription) {
  got.push(message);
  if (got.length === sent.length) break;
}
assert.deepEqual(got.map((each) => each.data), sent);
assert.deepEqual(got.map((each) => Number(each.serial)), [1, 2, 3, 4, 5, 6]);
const [first] = got;
assert.deepEqual([first.event, first.publisher, first.conversation, first.priority], ["thing", "ann", "c1", 5]);
assert.deepEqual(first.headers, { a: 1 });
assert.equal(first.contentType, "application/json");
assert.ok(Math.abs(first.at - Date.now()) < 60_000);
assert.equal(JSON.parse(JSON.stringify(first)).data.n, 1);

// History, forwards from a position and backwards.
const page = await room.history({ after: got[1].position, limit: 2 });
assert.deepEqual(page.messages.map((each) => each.data), [bytes, 42]);
assert.equal(page.more, true);
const rest = await room.history({ after: page.next });
assert.deepEqual(rest.messages.map((each) => each.data), [null, ""]);
assert.equal((await room.history()).messages.length, 6);

// From the start, and from a position, on a channel that others follow already.
const live = room.subscribe(() => {});
const again = [];
await new Promise((resolve) => room.subscribe((m) => again.push(m.data) === 4 && resolve(), { since: got[1].position }));
assert.deepEqual(again, sent.slice(2));
await live.unsubscribe();

// Presence.
const lobby = client.channel("lobby:1").subscribe(() => {}, { presence: { mood: "fresh" } });
await lobby.ready;
await until(() => lobby.members.size === 1);
const [ann] = lobby.members.values();
assert.equal(ann.userId, "ann");
if (client.transport !== "sse") assert.deepEqual(ann.data, { mood: "fresh" });
assert.equal((await client.channel("lobby:1").presence()).length, 1);

// Patterns: also a channel that comes into being later.
const seen = [];
const pattern = client.channel("hall:#").subscribe((m) => seen.push([m.channel, m.data]));
await pattern.ready;
await client.channel("hall:1").publish(1);
await client.channel("hall:2").publish(2);
await client.channel("hall:2:side").publish(3);
await until(() => seen.length === 2);
assert.deepEqual(seen, [["hall:1", 1], ["hall:2", 2]]);

// Filters.
const cheap = [];
const offers = client.channel("offers").subscribe((m) => cheap.push(m.data.price), { filter: { condition: { lt: { "payload.price": 10 } } } });
await offers.ready;
for (const price of [9, 12, 7]) await client.channel("offers").publish({ price });
await until(() => cheap.length === 2);
assert.deepEqual(cheap, [9, 7]);

// Another filter, as soon as nobody needs the one before.
await offers.unsubscribe();
const dear = [];
const others = client.channel("offers").subscribe((m) => dear.push(m.data.price), { filter: { condition: { gt: { "payload.price": 10 } } } });
await others.ready;
for (const price of [8, 13]) await client.channel("offers").publish({ price });
await until(() => dear.length === 1);
assert.deepEqual([dear, cheap], [[13], [9, 7]]);

// The retained message is for every subscription, however late it comes and whoever was there before.
const board = client.channel("board:1");
for (const text of ["old", "new"]) await board.publish(text, { retain: true });
const readers = [[], [], []];
const other = await open();
for (const [i, of] of [client, client, other].entries()) {
  of.channel("board:1").subscribe((m) => readers[i].push([m.data, m.retained]));
  await until(() => readers[i].length === 1);
}
await board.publish("newest", { retain: true });
await until(() => readers.every((each) => each.length === 2));
for (const each of readers) assert.deepEqual(each, [["new", true], ["newest", false]]);
await other.close();

// Errors have codes, and what is too large does not cost the connection.
await assert.rejects(client.channel("closed").publish(1), (error) => error instanceof HubbubError && error.code === "not_permitted");
await assert.rejects(client.channel("closed").subscribe().ready, { code: "not_permitted" });
await assert.rejects(room.publish("x".repeat(session.maxMessageBytes)), { code: "too_large" });
await assert.rejects(client.call("nobody.home", 1), (error) => ["service_not_found", "not_permitted"].includes(error.code));
assert.throws(() => room.send(undefined), { code: "invalid_payload" });
assert.equal(client.state, "connected");
await client.close();
assert.equal(states.at(-1), "closed");
assert.throws(() => room.send(1), { code: "client_closed" });
console.log("done");
