// Commands, conversations and filters, between two users and the hub.
import assert from "node:assert/strict";
import { open, until } from "./connection.mjs";

const { command, CommandRefused, filters, onCommand, search, setFilter, Status, thread, threads, unsetFilter } = await import(
  `${process.env.SDK}/commands.js`
);
const ann = await open();
const answers = process.env.CODEC !== "sse"; // streams bring no commands to a client

// The hub carries out a command, and says why it does not.
assert.deepEqual(await command(ann, "hEcho", { a: [1] }), { a: [1] });
assert.equal(await command(ann, "hSubscribe", { chid: "#news@demo" }), undefined);
await assert.rejects(command(ann, "hSubscribe", { chid: "#news@demo" }), (error) => {
  assert.ok(error instanceof CommandRefused);
  assert.deepEqual([error.code, error.status], ["command_refused", Status.notAuthorized]);
  return error.message.includes("subscribed");
});
await assert.rejects(command(ann, "nothing"), { status: Status.notAvailable });
await assert.rejects(command(ann, "ring", {}, { entity: "nobody@demo" }), { status: Status.notAvailable });

if (answers) {
  // A bot in five lines: another user answers.
  const bob = await open(() => {}, { token: process.env.BOB });
  const errors = [];
  bob.on("error", (error) => errors.push(error));
  const asked = [];
  const unlisten = onCommand(bob, "Dim", async (each) => {
    asked.push(each);
    return { brightness: each.params.to };
  });
  onCommand(bob, "quiet", () => {});
  onCommand(bob, "refuse", () => {
    throw new CommandRefused(Status.invalid, "to is no number");
  });
  onCommand(bob, "fail", () => {
    throw new TypeError("not a function");
  });
  onCommand(bob, "large", () => "x".repeat(400_000));
  assert.throws(() => onCommand(bob, "dim", () => 1), { code: "conflict" });
  const entity = "bob@demo";
  assert.deepEqual(await command(ann, "dim", { to: 3 }, { entity }), { brightness: 3 });
  assert.equal(asked[0].sender, `ann@demo/${ann.session.id}`);
  assert.ok(asked[0].sent instanceof Date && Date.now() - asked[0].sent < 60_000);
  assert.equal(await command(ann, "quiet", undefined, { entity: `${entity}/${bob.session.id}` }), undefined);
  await assert.rejects(command(ann, "refuse", {}, { entity }), { status: Status.invalid, message: "to is no number" });
  await assert.rejects(command(ann, "fail", {}, { entity }), { status: Status.technical, message: "not a function" });
  await assert.rejects(command(ann, "large", {}, { entity }), { status: Status.technical });
  assert.deepEqual(errors.map((error) => error.message), ["not a function"]);
  const all = await Promise.all(Array.from({ length: 30 }, (_, to) => command(ann, "dim", { to }, { entity })));
  assert.deepEqual(all.map((each) => each.brightness), Array.from({ length: 30 }, (_, to) => to));
  unlisten();
  await assert.rejects(command(ann, "dim", {}, { entity, timeoutMs: 50 }), { status: Status.timeout });
  await bob.close();
}

// Conversations of a channel that stores.
const say = async (payload, more = {}) => (await command(ann, "hPublish", { chid: "#news@demo", publisher: "ann@demo", payload, transient: false, ...more })).msgid;
const first = await say("is anybody there?");
await say("I am", { convid: first });
await say({ status: "closed" }, { convid: first, type: "hConvState" });
await say("something else");
const page = await threads(ann, "news");
assert.deepEqual(page.threads.map(({ conversation, messages, status, first: { data } }) => [conversation === first, messages, status, data]), [
  [true, 3, "closed", "is anybody there?"],
  [false, 1, undefined, "something else"],
]);
assert.equal(page.more, false);
const closed = await threads(ann, "news", { status: "closed", limit: 1 });
assert.deepEqual(closed.threads.map(({ conversation }) => conversation), [first]);
assert.deepEqual((await threads(ann, "news", { after: closed.threads[0].first.serial })).threads.length, 1);
const talk = await thread(ann, "news", first, { limit: 2 });
assert.deepEqual(talk.messages.map(({ data }) => data), ["is anybody there?", "I am"]);
assert.equal(talk.more, true);
const rest = await thread(ann, "news", first, { after: talk.messages[1].serial });
assert.deepEqual(rest.messages.map(({ event }) => event), ["hConvState"]);

// Search, ranked or by time, page by page.
const found = await search(ann, '"anybody there"');
assert.deepEqual(found.hits.map(({ message: { channel, data, serial } }) => [channel, data, serial]), [["news", "is anybody there?", 1n]]);
assert.ok(found.hits[0].score > 0 && found.hits[0].score < 1);
assert.deepEqual([found.cursor, found.behind], [undefined, 0]);
const newest = await search(ann, "i", { order: "time", limit: 1, channel: "ne*", since: new Date(Date.now() - 60_000) });
assert.deepEqual(newest.hits.map(({ message }) => message.data), ["I am"]);
assert.deepEqual((await search(ann, "else", { until: new Date(Date.now() - 60_000) })).hits, []);
assert.deepEqual((await search(ann, "anybody", { filter: { condition: { eq: { payload: "I am" } } } })).hits, []);
await assert.rejects(search(ann, "..."), { code: "bad_request" });
const cases = await search(ann, "something else");
assert.deepEqual(cases.hits.map(({ message }) => message.data), ["something else"]);

// Filters of the session.
if (answers && process.env.CODEC !== "shared") {
  await setFilter(ann, { name: "urgent", channel: "news", condition: { gte: { priority: 4 } } });
  assert.deepEqual((await filters(ann)).map(({ name, channel }) => [name, channel]), [["urgent", "news"]]);
  const heard = [];
  const subscription = ann.channel("news").subscribe((message) => heard.push(message.data));
  await subscription.ready;
  await say("calm", { priority: 1 });
  await say("fire", { priority: 5 });
  await until(() => heard.length);
  assert.deepEqual(heard, ["fire"]);
  await assert.rejects(setFilter(ann, { name: "bad", condition: { no: {} } }), { code: "invalid_filter" });
  await unsetFilter(ann, "urgent");
  assert.deepEqual(await filters(ann), []);
  await setFilter(ann, { name: "again", relevant: true });
  await ann.disconnect();
  ann.connect();
  await ann.ready;
  for (let i = 0; i < 200 && !(await filters(ann)).length; i++);
  assert.deepEqual((await filters(ann)).map(({ name }) => name), ["again"]);
}
await ann.close();
console.log("done");
