import "fake-indexeddb/auto";
import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { connect, topic, webSocket } from "../src/index.ts";
import { openOutbox } from "../src/offline.ts";
import { FakeSocket } from "./fake_hub.ts";
import { FakeTopics, serveAll } from "./fake_topics.ts";

let serving: { stop(): void } | undefined;
afterEach(() => {
  serving?.stop();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});
let count = 0;

function start(topics: FakeTopics) {
  FakeSocket.all = [];
  serving?.stop();
  serving = serveAll(topics);
  return connect("http://hub.test", {
    hub: "h",
    transports: [webSocket(FakeSocket as never)],
    backoff: { firstMs: 1, longestMs: 2 },
  });
}

test("a put is on disk before the hub has it, and is sent when there is a connection", async () => {
  const name = `box${count++}`;
  FakeSocket.all = [];
  const away = connect("http://hub.test", { hub: "h", transports: [webSocket(FakeSocket as never)] });
  const first = await openOutbox(away, name);
  expect(first.durable).toBe(true);
  await first.put("jobs", "one");
  await first.put("jobs", "two", "resize");
  expect(await first.waiting()).toBe(2);
  await first.close(); // the tab is closed
  await away.close();

  const topics = new FakeTopics();
  const client = start(topics);
  const second = await openOutbox(client, name);
  const { confirmed } = await second.put("jobs", "three");
  expect(await confirmed).toMatchObject({ id: "m3", serial: 3n, duplicate: false });
  await second.drained();
  expect(topics.stored).toEqual(["one", "two", "three"]);
  await second.close();
  await client.close();
});

test("what the hub refuses is handed back, and its number goes to the one behind it", async () => {
  const topics = new FakeTopics();
  const client = start(topics);
  const outbox = await openOutbox(client, `box${count++}`);
  topics.refuse = (data) => data === 13;
  const puts = [];
  for (const data of [1, 13, 2, 3]) puts.push(await outbox.put("jobs", data));
  await outbox.drained();
  expect(topics.stored).toEqual([1, 2, 3]);
  await expect(puts[1]!.confirmed).rejects.toMatchObject({ code: "bad_request" });
  const [refusal] = await outbox.refused();
  expect(refusal).toMatchObject({ topic: "jobs", data: 13, error: { code: "bad_request" } });
  await outbox.forget(refusal!);
  expect(await outbox.refused()).toEqual([]);
  await outbox.close();
  await client.close();
});

test("without a database puts are kept in memory", async () => {
  const real = globalThis.indexedDB;
  // @ts-expect-error a browser that refuses
  globalThis.indexedDB = undefined;
  try {
    const topics = new FakeTopics();
    const client = start(topics);
    const outbox = await openOutbox(client, "memory");
    expect(outbox.durable).toBe(false);
    const puts = await Promise.all([1, 2, 3].map((n) => outbox.put("jobs", n))); // at once
    const receipts = await Promise.all(puts.map(({ confirmed }) => confirmed));
    expect(receipts).toMatchObject([{ id: "m1" }, { id: "m2" }, { id: "m3" }]);
    expect(topics.stored).toEqual([1, 2, 3]);
    await outbox.close();
    await client.close();
  } finally {
    globalThis.indexedDB = real;
  }
});

test.each(["InvalidStateError", "UnknownError"])(
  "a database that the browser severs (%s) is opened again, once",
  async (error) => {
    const topics = new FakeTopics();
    const client = start(topics);
    const outbox = await openOutbox(client, `box${count++}`);
    await (await outbox.put("jobs", 1)).confirmed;
    const sever = vi.spyOn(IDBDatabase.prototype, "transaction");
    const severed = () => {
      throw new DOMException("severed", error);
    };
    sever.mockImplementationOnce(severed);
    await (await outbox.put("jobs", 2)).confirmed;
    expect(topics.stored).toEqual([1, 2]);
    sever.mockImplementationOnce(severed).mockImplementationOnce(severed);
    await expect(outbox.put("jobs", 3)).rejects.toMatchObject({ name: error });
    sever.mockRestore();
    await outbox.close();
    await client.close();
  },
);

test("what the browser cannot store costs no number", async () => {
  const topics = new FakeTopics();
  const client = start(topics);
  const outbox = await openOutbox(client, `box${count++}`);
  await expect(outbox.put("jobs", { f() {} } as never)).rejects.toMatchObject({ name: "DataCloneError" });
  await (await outbox.put("jobs", 1)).confirmed; // with the first number
  expect(topics.stored).toEqual([1]);
  await outbox.close();
  await client.close();
});

test("a producer dies with its database: after site data were cleared, puts count from one under another", async () => {
  const topics = new FakeTopics();
  const client = start(topics);
  const name = `box${count++}`;
  const outbox = await openOutbox(client, name);
  for (const n of [1, 2, 3]) await (await outbox.put("jobs", n)).confirmed;
  await new Promise((resolve, reject) => {
    const request = indexedDB.deleteDatabase(`hubbub:h:${name}`);
    request.onsuccess = resolve;
    request.onerror = reject;
  });
  expect(await (await outbox.put("jobs", 4)).confirmed).toMatchObject({ id: "m4", duplicate: false });
  expect(topics.stored).toEqual([1, 2, 3, 4]);
  await outbox.close();
  await client.close();
});

test("what another page has opened since fences this one off, which stops instead of sending twice", async () => {
  vi.stubGlobal("navigator", { ...navigator, locks: undefined }); // nothing keeps two pages from sending
  const topics = new FakeTopics();
  const client = start(topics);
  const told: unknown[] = [];
  client.on("error", (error) => told.push((error as { code: string }).code));
  await client.ready; // from here on nobody but this test says what the socket answers
  const outbox = await openOutbox(client, `box${count++}`);
  const { producer } = await new Promise<{ producer: string }>((resolve) => {
    FakeSocket.last.answers.Publish = ({ publishes: [item] }) => {
      resolve({ producer: item.producer.id });
      return undefined; // on its way
    };
    void outbox.put("jobs", 1);
  });
  topics.serve(FakeSocket.last);
  FakeSocket.last.answers.ProducerOpen!({ reqID: 0, topic: "jobs", producer }); // by the other page
  const [{ publishes }] = FakeSocket.last.events("Publish");
  const [event, payload] = FakeSocket.last.answers.Publish!({ publishes });
  FakeSocket.last.say(event, payload);
  await expect.poll(() => told).toEqual(["producer_fenced"]);
  expect([topics.stored, await outbox.waiting()]).toEqual([[], 1]);
  await outbox.close();
  await client.close();
});

test("draining leaves room below what the hub lets a session send", async () => {
  const topics = new FakeTopics();
  const limited = start(topics);
  serving?.stop();
  await expect.poll(() => FakeSocket.all.length).toBeGreaterThan(0);
  topics.serve(FakeSocket.last);
  const sent: number[] = [];
  const answer = FakeSocket.last.answers.Publish!;
  FakeSocket.last.answers.Publish = (payload) => {
    const now = performance.now();
    for (const _ of payload.publishes) sent.push(now);
    return answer(payload);
  };
  FakeSocket.last.greet({ messagesPerSecond: 100, maxMessageBytes: 100_000 });
  const outbox = await openOutbox(limited, `box${count++}`);
  for (let n = 0; n < 160; n++) await outbox.put("jobs", n);
  await outbox.drained();
  expect(topics.stored).toHaveLength(160);
  const busiest = Math.max(...sent.map((at) => sent.filter((each) => each >= at && each < at + 1000).length));
  expect(busiest).toBeLessThan(150);
  expect(sent.at(-1)! - sent[0]!).toBeGreaterThan(1_000); // 50 at once, 110 at 80 a second
  await outbox.close();
  await limited.close();
});

test("a tab that takes over says what the tab before it had no time to say", async () => {
  const topics = new FakeTopics();
  topics.refuse = (data) => data === 13;
  const client = start(topics);
  const name = `box${count++}`;
  const [sending, other] = [await openOutbox(client, name), await openOutbox(client, name)];
  const post = vi.spyOn(BroadcastChannel.prototype, "postMessage");
  post.mockImplementation(function (this: BroadcastChannel, data: unknown) {
    if (typeof data === "string") sendingTabs.call(this, data); // what became of puts is not told
  });
  const stored = await other.put("jobs", 1);
  const refused = await other.put("jobs", 13);
  await expect.poll(async () => [await sending.waiting(), (await sending.refused()).length]).toEqual([0, 1]);
  const drained = other.drained();
  post.mockRestore();
  await sending.close();
  expect(await stored.confirmed).toMatchObject({ duplicate: true });
  await expect(refused.confirmed).rejects.toMatchObject({ code: "bad_request" });
  await drained;
  await other.close();
  await client.close();
});
const sendingTabs = BroadcastChannel.prototype.postMessage;

test("a database that is an old copy of itself stops sending instead of repeating", async () => {
  const topics = new FakeTopics();
  const client = start(topics);
  const told: unknown[] = [];
  client.on("error", (error) => told.push((error as { code: string }).code));
  topics.lie = 5;
  const outbox = await openOutbox(client, `box${count++}`);
  await outbox.put("jobs", 1);
  await expect.poll(() => told).toEqual(["outbox_mismatch"]);
  expect(topics.stored).toEqual([]);
  await outbox.close();
  await client.close();
});

test("whenever connections end, each put is stored once and in order; also without an outbox", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.boolean(), { maxLength: 12 }),
      fc.integer({ min: 1, max: 60 }),
      fc.boolean(),
      async (cuts, puts, durable) => {
        const topics = new FakeTopics();
        topics.cut = () => cuts.shift() ?? false;
        const client = start(topics);
        const numbers = Array.from({ length: puts }, (_, i) => i);
        if (durable) {
          const outbox = await openOutbox(client, `box${count++}`);
          for (const n of numbers) await outbox.put("jobs", n);
          await outbox.drained();
          await outbox.close();
        } else await Promise.all(numbers.map((n) => topic<number>(client, "jobs").put(n)));
        expect(topics.stored).toEqual(numbers);
        await client.close();
      },
    ),
    { numRuns: 12 },
  );
}, 30_000);
