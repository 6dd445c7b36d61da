// Two clients edit one document of a real hub.
import assert from "node:assert/strict";
import { open, until } from "./connection.mjs";

const { liveDocument } = await import(`${process.env.SDK}/hubbub.js`);
const [one, two] = await Promise.all([open(), open()]);

const mine = liveDocument(one, "doc:1");
const theirs = liveDocument(two, "doc:1");
await mine.ready;
await theirs.ready;
assert.deepEqual([mine.value, mine.version], [{}, 0]);

const saved = mine.change([{ op: "add", path: "/cards", value: [{ t: "a" }] }]);
assert.deepEqual(mine.value, { cards: [{ t: "a" }] }); // at once
assert.equal(mine.pending, 1);
assert.equal(await saved, 1);
await until(() => theirs.version === 1);
assert.deepEqual(theirs.value, { cards: [{ t: "a" }] });

// Forty increments from both sides, none lost.
const add = (value) => [{ op: "add", path: "/n", value: (value.n ?? 0) + 1 }];
await Promise.all(Array.from({ length: 40 }, (_, i) => (i % 2 ? mine : theirs).change(add)));
await until(() => mine.version === 41 && theirs.version === 41);
assert.equal(mine.value.n, 40);
assert.deepEqual(mine.value, theirs.value);

// Every kind of value.
const values = [null, true, -7, -2.5, 2 ** 53 - 1, -(2 ** 53 - 1), 2 ** 53, -(2 ** 60), 1e20, 1e21, "ü", { $bytes: "AAEC" }, [], {}, { $$bytes: 1 }];
await mine.change([{ op: "add", path: "/values", value: values }]);
await until(() => theirs.version === 42);
assert.deepEqual(theirs.value.values, values);
assert.deepEqual(mine.value, theirs.value);

// What does not fit is refused, with its operations handed back.
await assert.rejects(mine.change([{ op: "remove", path: "/nowhere" }]), { code: "patch_failed" });
await assert.rejects(mine.change([{ op: "add", path: "/n", value: 0 }], { expect: 1 }), { code: "version_mismatch" });

// Edits without a connection are kept, and sent when it is back.
await one.disconnect();
const later = mine.change([{ op: "add", path: "/cards/-", value: { t: "b" } }]);
assert.equal(mine.stale, true);
assert.equal(mine.value.cards.length, 2);
await theirs.change([{ op: "add", path: "/note", value: "meanwhile" }]);
one.connect();
await later;
await until(() => theirs.value.cards.length === 2 && mine.value.note === "meanwhile");
assert.deepEqual(mine.value, theirs.value);
await Promise.all([one.close(), two.close()]);
console.log("done");
