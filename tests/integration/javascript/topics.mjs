// Topics, the outbox and notifications, over the wire of a real hub.
import assert from "node:assert/strict";
import { open, until } from "./connection.mjs";

const { topic, notifications } = await import(`${process.env.SDK}/hubbub.js`);
const { openOutbox } = await import(`${process.env.SDK}/offline.js`);
const client = await open();

const jobs = topic(client, "orders:jobs");
const standing = await jobs.subscribe("worker", { start: "first" });
assert.deepEqual([standing.new, standing.floor], [true, 0n]);
assert.equal((await jobs.subscribe("worker")).new, false);
const receipts = await Promise.all([1, 2, 3].map((n) => jobs.put({ n }, "job")));
assert.deepEqual(receipts.map((each) => each.serial), [1n, 2n, 3n]);
const [first] = await jobs.get("worker");
assert.deepEqual([first.data, first.event, first.serial, first.deliveries], [{ n: 1 }, "job", 1n, 1]);
assert.equal(await jobs.ack(1n, "worker"), 1n);
const read = [];
for await (const article of jobs.read("worker")) {
  read.push(article.data.n);
  if (read.length === 2) break;
}
assert.deepEqual(read, [2, 3]);
assert.deepEqual((await jobs.subscribe("worker")).floor, 2n); // the third was not done when reading ended

const outbox = await openOutbox(client, "tab");
assert.equal(outbox.durable, false); // Node has no IndexedDB
const sent = [];
for (let n = 0; n < 100; n++) sent.push((await outbox.put("orders:box", n)).confirmed);
assert.deepEqual((await Promise.all(sent)).map((each) => each.serial), sent.map((_, n) => BigInt(n + 1)));
const refused = (await outbox.put("closed", 1)).confirmed;
await assert.rejects(refused, { code: "not_permitted" });
assert.equal((await outbox.refused()).length, 1);

const inbox = notifications(client, "ann");
let told = 0;
inbox.on("new", () => told++);
await inbox.ready; // over SSE, what is created before is not announced
await inbox.page();
const create = async (event) => {
  const body = JSON.stringify({ notifications: [{ event, payload: { text: `about ${event}` } }] });
  const headers = { Authorization: `Bearer ${process.env.SERVICE}`, "Content-Type": "application/json" };
  const url = `${process.env.URL}/v1/admin/hubs/${process.env.HUB}/channels/notification:u:ann/notifications`;
  const answer = await fetch(url, { method: "POST", headers, body });
  assert.equal(answer.ok, true, await answer.text());
};
await create("one");
await create("two");
await until(() => told === 2 && inbox.unread === 2);
const page = await inbox.page({ unread: true });
assert.deepEqual(page.map((each) => [each.event, each.data, each.read]), [["two", "about two", false], ["one", "about one", false]]);
await inbox.markRead([page[0].id]);
await until(() => inbox.unread === 1);
await inbox.markRead("seen");
await until(() => inbox.unread === 0);

await outbox.close();
await client.close();
console.log("done");
