import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Wire } from "../src/index.ts";
import { Tracker } from "../src/tracker.ts";
import { confirmed, connected, FakeSocket, message, settle } from "./fake_hub.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("subscriptions to one channel are one on the wire, and linger for 250 ms", async () => {
  const client = await connected();
  const one = client.channel("a").subscribe();
  const two = client.channel("a").subscribe();
  expect(await two.ready).toBe("0.e1");
  await one.unsubscribe();
  await two.unsubscribe();
  expect(FakeSocket.last.events("Subscribe")).toHaveLength(1);
  const three = client.channel("a").subscribe();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(FakeSocket.last.events("Unsubscribe")).toEqual([]);
  await three.unsubscribe();
  await vi.advanceTimersByTimeAsync(300);
  expect(FakeSocket.last.events("Unsubscribe")).toMatchObject([{ channels: ["a"] }]);
  await client.close();
});

const CHEAP = { condition: { lt: { "payload.price": 10 } } };
const DEAR = { condition: { gt: { "payload.price": 10 } } };

test("another filter replaces one that only lingers; one that is in use is a conflict", async () => {
  const client = await connected();
  for (const event of ["SetFilter", "UnsetFilter"])
    FakeSocket.last.answers[event] = ({ reqID }) => [event, { reqID }];
  const channel = client.channel("a");
  const first = channel.subscribe({ filter: CHEAP });
  await first.ready;
  expect(() => channel.subscribe({ filter: DEAR })).toThrow(expect.objectContaining({ code: "conflict" }));
  await first.unsubscribe();
  const second = channel.subscribe({ filter: DEAR });
  expect(await second.ready).toBe("0.e1");
  const asked = ["SetFilter", "Subscribe", "Unsubscribe", "UnsetFilter", "SetFilter", "Subscribe"];
  expect(FakeSocket.last.sent.map(([event]) => event)).toEqual(asked);
  expect(FakeSocket.last.events("SetFilter").at(-1)).toMatchObject(DEAR);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(FakeSocket.last.events("Unsubscribe")).toHaveLength(1); // nothing of the first one lingers
  await client.close();
});

test("the answer to a subscription that was replaced confirms nothing", async () => {
  const client = await connected();
  delete FakeSocket.last.answers.Subscribe;
  for (const event of ["SetFilter", "UnsetFilter"])
    FakeSocket.last.answers[event] = ({ reqID }) => [event, { reqID }];
  const channel = client.channel("a");
  const first = channel.subscribe();
  await settle();
  await first.unsubscribe();
  const got: unknown[] = [];
  channel.subscribe((m) => got.push(m.data), { filter: DEAR });
  await settle();
  const [before, now] = FakeSocket.last.events("Subscribe");
  const answer = (request: Wire) =>
    FakeSocket.last.say("Subscribe", { reqID: request.reqID, channels: request.channels.map(confirmed) });
  answer(before);
  FakeSocket.last.say("Publish", message("a", 1)); // passed no filter
  answer(now);
  FakeSocket.last.say("Publish", message("a", 2, { previousSerial: "0" }));
  expect(got).toEqual([2]);
  await client.close();
});

test("a subscription that joins others gets the retained message like the first one, and only that one does", async () => {
  const client = await connected();
  const got: Record<string, unknown[]> = { first: [], second: [], third: [] };
  const follow = (name: string) =>
    client.channel("a").subscribe((m) => got[name]!.push([m.data, m.retained]));
  follow("first");
  await settle();
  FakeSocket.last.say("Publish", message("a", 1));
  FakeSocket.last.say("Publish", message("a", 2));
  follow("second");
  follow("third");
  await settle();
  expect(FakeSocket.last.events("Subscribe").slice(1)).toMatchObject([{ channels: [{ channel: "a" }] }]);
  FakeSocket.last.say("Publish", message("a", 1, { retained: true }));
  FakeSocket.last.say("Publish", message("a", 3));
  FakeSocket.last.say("Publish", message("a", 3, { retained: true })); // nobody waits for it any more
  const last = [3, false];
  expect(got.first).toEqual([[1, false], [2, false], last]); // biome-ignore format: one line
  expect([got.second, got.third]).toEqual([1, 2].map(() => [[1, true], last])); // biome-ignore format: one line
  await client.close();
});

test("a message that comes before the hub's word on what is retained is not repeated as the retained one", async () => {
  const client = await connected();
  client.channel("a").subscribe(() => {});
  await settle();
  delete FakeSocket.last.answers.Subscribe;
  const got: unknown[] = [];
  client.channel("a").subscribe((m) => got.push(m.data));
  await settle();
  const [{ reqID, channels }] = FakeSocket.last.events("Subscribe").slice(1);
  FakeSocket.last.say("Publish", message("a", 1)); // is to be retained
  FakeSocket.last.say("Subscribe", { reqID, channels: channels.map(confirmed) });
  FakeSocket.last.say("Publish", message("a", 1, { retained: true }));
  expect(got).toEqual([1]);
  await client.close();
});

test("a gap is recovered once from the position; what does not come is a gap", async () => {
  const client = await connected();
  const gaps: unknown[] = [];
  client.on("gap", (gap) => gaps.push(gap.reason));
  const got: unknown[] = [];
  client.channel("a").subscribe((m) => got.push([m.data, m.gap !== undefined]));
  await settle();
  FakeSocket.last.say("Publish", message("a", 1));
  FakeSocket.last.say("Publish", message("a", 4));
  await settle();
  expect(FakeSocket.last.events("Subscribe").at(-1).channels).toEqual([
    { channel: "a", serial: "1", epoch: "e1" },
  ]);
  FakeSocket.last.say("Publish", message("a", 3));
  FakeSocket.last.say("Publish", message("a", 4));
  expect(got).toEqual([
    [1, false],
    [3, true],
    [4, false],
  ]);
  expect(gaps).toEqual(["the hub did not send them"]);
  await client.close();
});

test("a message that names the one before it is no gap", async () => {
  const client = await connected();
  const got: unknown[] = [];
  client.channel("a").subscribe((m) => got.push(m.data));
  await settle();
  FakeSocket.last.say("Publish", message("a", 1));
  FakeSocket.last.say("Publish", message("a", 9, { previousSerial: "1" }));
  expect(got).toEqual([1, 9]);
  expect(FakeSocket.last.events("Subscribe")).toHaveLength(1);
  await client.close();
});

test("a channel that began anew is a gap, which iterating throws once where asked to", async () => {
  const client = await connected();
  const subscription = client.channel("a").subscribe({ onGap: "throw" });
  await settle();
  FakeSocket.last.say("ChannelReset", { channel: "a", epoch: "e2", serial: "0" });
  FakeSocket.last.say("Publish", message("a", 1));
  const iterator = subscription[Symbol.asyncIterator]();
  await expect(iterator.next()).rejects.toMatchObject({ code: "messages_lost" });
  expect((await iterator.next()).value?.position).toBe("1.e2");
  await client.close();
});

test("another epoch of a channel that was empty is no gap, live and after a reconnect", async () => {
  const client = await connected();
  const subscription = client.channel("a").subscribe({ onGap: "throw" });
  await settle();
  FakeSocket.last.say("ChannelReset", { channel: "a", epoch: "e2", serial: "0", recovered: true });
  const confirmed = { channel: "a", epoch: "e3", serial: "1", recovered: true };
  FakeSocket.last.say("Subscribe", { channels: [confirmed] });
  FakeSocket.last.say("Publish", message("a", 1));
  const iterator = subscription[Symbol.asyncIterator]();
  expect((await iterator.next()).value?.position).toBe("1.e3");
  await client.close();
});

test("a subscription that is not read leaves the live stream and catches up from history", async () => {
  const client = await connected();
  const history: Wire[] = [];
  FakeSocket.last.answers.History = ({ reqID, after }) => {
    const messages = history.filter((m) => Number(m.channelSerial) > Number(after)).slice(0, 2);
    const more = messages.length > 0 && messages.at(-1).channelSerial !== String(history.length);
    return [
      "History",
      { reqID, channel: "a", messages, epoch: "e1", head: String(history.length), recovered: true, more },
    ];
  };
  const subscription = client.channel("a").subscribe({ buffer: 3 });
  await settle();
  for (let i = 1; i <= 8; i++) {
    history.push(message("a", i));
    FakeSocket.last.say("Publish", history.at(-1));
  }
  const got: unknown[] = [];
  for await (const each of subscription) {
    got.push(each.data);
    if (each.data === 5) {
      history.push(message("a", 9));
      FakeSocket.last.say("Publish", history.at(-1));
    }
    if (each.data === 9) break;
  }
  expect(got).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  await client.close();
});

test("access that is taken away ends the subscription with its error", async () => {
  const client = await connected();
  const lost: unknown[] = [];
  client.on("accessLost", ({ channel, error }) => lost.push([channel, error.code]));
  const subscription = client.channel("a").subscribe();
  await settle();
  FakeSocket.last.say("Unsubscribe", {
    unsubscribedChannels: [],
    failures: [{ channel: "a", error: { code: "not_permitted", message: "no", retry: false } }],
  });
  await expect(subscription[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: "not_permitted" });
  expect(lost).toEqual([["a", "not_permitted"]]);
  await client.close();
});

test("what a function throws is told and harms nobody else", async () => {
  const client = await connected();
  const told: unknown[] = [];
  const got: unknown[] = [];
  client.on("error", (error) => told.push((error as Error).message));
  client.channel("a").subscribe(() => {
    throw new Error("mine");
  });
  client.channel("a").subscribe((m) => got.push(m.data));
  await settle();
  FakeSocket.last.say("Publish", message("a", 1));
  expect([told, got]).toEqual([["mine"], [1]]);
  await client.close();
});

test("a signal ends a subscription", async () => {
  const client = await connected();
  const abort = new AbortController();
  const subscription = client.channel("a").subscribe({ signal: abort.signal });
  await settle();
  abort.abort();
  expect(await subscription[Symbol.asyncIterator]().next()).toEqual({ done: true, value: undefined });
  await client.close();
});

test("whatever is lost, doubled or late, messages come once and in order, and no loss is silent", () => {
  const deliveries = fc.array(
    fc.record({ serial: fc.integer({ min: 1, max: 20 }), retained: fc.boolean() }),
    { maxLength: 60 },
  );
  fc.assert(
    fc.property(deliveries, fc.boolean(), (list, answers) => {
      const tracker = new Tracker("a");
      tracker.confirm({ channel: "a", serial: "0", epoch: "e", recovered: true });
      const taken: number[] = [];
      let gaps = 0;
      const give = (serial: number): void => {
        const wire = message("a", serial);
        const verdict = tracker.judge(wire);
        if (verdict === "take") taken.push(serial);
        if (verdict === "lost") {
          tracker.skip(wire);
          gaps++;
          taken.push(serial);
        }
        if (verdict !== "recover") return;
        const from = Number(tracker.recover().serial);
        tracker.confirm(confirmed({ channel: "a", serial: String(from), epoch: "e" }));
        if (answers) for (let i = from + 1; i <= serial; i++) give(i);
        else give(serial);
      };
      for (const { serial } of list) give(serial);
      const rising = taken.every((serial, i) => i === 0 || serial > taken[i - 1]!);
      const missing = taken.filter((serial, i) => serial !== (taken[i - 1] ?? 0) + 1).length;
      expect(rising).toBe(true);
      expect(gaps).toBe(missing);
      if (answers) expect(missing).toBe(0);
    }),
  );
});
