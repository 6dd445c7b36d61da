/** What the connection does when the page, the network or the machine goes away and comes back. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { connected, FakeSocket, settle } from "./fake_hub.ts";

let page = new EventTarget();
let sight = Object.assign(new EventTarget(), { visibilityState: "visible" });
let heard: string[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, "random").mockReturnValue(1);
  page = new EventTarget();
  sight = Object.assign(new EventTarget(), { visibilityState: "visible" });
  heard = [];
  vi.stubGlobal("document", sight);
  vi.stubGlobal("addEventListener", (type: string, f: () => void) => {
    heard.push(type);
    page.addEventListener(type, f);
  });
  vi.stubGlobal("removeEventListener", page.removeEventListener.bind(page));
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

const later = (ms: number) => vi.advanceTimersByTimeAsync(ms);

function happen(event: string): void {
  if (event === "visible") sight.dispatchEvent(new Event("visibilitychange"));
  else page.dispatchEvent(new Event(event));
}

function hide(): void {
  sight.visibilityState = "hidden";
  sight.dispatchEvent(new Event("visibilitychange"));
}

function show(): void {
  sight.visibilityState = "visible";
  sight.dispatchEvent(new Event("visibilitychange"));
}

const COMING_BACK = ["online", "visible", "pageshow"];

/** No timer fires for a minute; then the next one finds that so much time has passed. */
async function sleep(): Promise<void> {
  vi.setSystemTime(Date.now() + 60_000);
  await later(5_000);
}

test("sleep: a client that waits dials now", async () => {
  const client = await connected();
  for (let i = 0; i < 8; i++) {
    FakeSocket.last.end();
    await later(i ? 250 * 2 ** (i - 1) : 0);
  }
  FakeSocket.last.end();
  const before = FakeSocket.all.length;
  await later(6_000);
  expect([FakeSocket.all.length, client.state]).toEqual([before, "waiting"]); // for 20 s
  await sleep();
  expect([FakeSocket.all.length, client.state]).toEqual([before + 1, "connecting"]);
  await client.close();
});

test("sleep: a socket that was dialled before is given up, and another one dialled", async () => {
  const client = await connected();
  FakeSocket.last.end();
  await later(0);
  const first = FakeSocket.last;
  await sleep();
  expect(first.closed).toBe(true);
  expect([FakeSocket.all.length, client.state]).toEqual([3, "connecting"]);
  FakeSocket.last.greet();
  await settle();
  expect(client.state).toBe("connected");
  await client.close();
});

test.each(COMING_BACK)("%s: a client that waits dials now", async (event) => {
  const client = await connected();
  for (let i = 0; i < 6; i++) {
    FakeSocket.last.end();
    await later(i ? 250 * 2 ** (i - 1) : 0);
  }
  FakeSocket.last.end();
  expect(client.state).toBe("waiting"); // for 8 s
  const before = FakeSocket.all.length;
  happen(event);
  await settle();
  expect([FakeSocket.all.length, client.state]).toEqual([before + 1, "connecting"]);
  await client.close();
});

test.each(COMING_BACK)(
  "%s: dialling that takes longer than a second is given up and begun anew",
  async (event) => {
    const client = await connected();
    FakeSocket.last.end();
    await later(0);
    const first = FakeSocket.last;
    await later(900);
    happen(event);
    await settle();
    expect([FakeSocket.last, first.closed]).toEqual([first, false]); // it is young
    await later(200);
    happen(event);
    await settle();
    expect(first.closed).toBe(true);
    expect(FakeSocket.last).not.toBe(first);
    first.greet(); // too late
    await settle();
    expect(client.state).toBe("connecting");
    FakeSocket.last.greet();
    await settle();
    expect(client.state).toBe("connected");
    await client.close();
  },
);

test.each([...COMING_BACK, "offline"])(
  "%s: a connection is asked, and dialled anew without an answer in 3 s",
  async (event) => {
    const client = await connected();
    happen(event);
    await later(3_100);
    expect([FakeSocket.last.events("Ping").length, FakeSocket.all.length]).toEqual([1, 1]); // it answered
    delete FakeSocket.last.answers.Ping;
    happen(event);
    expect(FakeSocket.last.closed).toBe(false); // no blind close
    await later(2_900);
    expect(FakeSocket.all).toHaveLength(1);
    await later(200);
    expect(FakeSocket.all).toHaveLength(2);
    expect(client.state).toBe("connecting");
    await client.close();
  },
);

test("a hidden page stays connected and answers pings without a timer", async () => {
  const client = await connected();
  hide();
  vi.setSystemTime(Date.now() + 3_600_000); // no timer fires
  FakeSocket.last.say("Ping", { reqID: 1 });
  expect(FakeSocket.last.events("Pong")).toEqual([{ reqID: 1 }]);
  expect([client.state, FakeSocket.last.closed]).toEqual(["connected", false]);
  await client.close();
});

test("a hidden page leaves after the time that it was given, and comes back when it is seen", async () => {
  const client = await connected({ hidden: { leaveAfterMs: 60_000 } });
  hide();
  for (let i = 0; i < 3; i++) {
    await later(19_000);
    FakeSocket.last.say("Ping", {});
  }
  show(); // in time
  hide();
  await later(20_000);
  expect(client.state).toBe("connected");
  await later(41_000);
  expect([client.state, FakeSocket.last.closed]).toEqual(["waiting", true]);
  await later(600_000);
  expect(FakeSocket.all).toHaveLength(1);
  show();
  await settle();
  FakeSocket.last.greet();
  await settle();
  expect([client.state, FakeSocket.all.length]).toEqual(["connected", 2]);
  await client.close();
});

test("a page that goes into the back/forward cache says that it may come back", async () => {
  const client = await connected();
  page.dispatchEvent(Object.assign(new Event("pagehide"), { persisted: true }));
  expect(FakeSocket.last.closeCode).toBe(4000);
  happen("pageshow");
  await settle();
  FakeSocket.last.greet();
  await settle();
  page.dispatchEvent(Object.assign(new Event("pagehide"), { persisted: false }));
  expect(FakeSocket.last.closeCode).toBe(1000);
  await client.close();
});

test.each(COMING_BACK)("%s: dialling that fails right after it is repeated at once", async (event) => {
  const client = await connected();
  for (let i = 0; i < 9; i++) {
    FakeSocket.last.end();
    await later(20_000);
  }
  FakeSocket.last.end();
  await later(19_500);
  expect(client.state).toBe("waiting");
  const waits: unknown[] = [];
  client.on("state", ({ retryInMs }) => retryInMs !== undefined && waits.push(retryInMs));
  happen(event);
  await settle();
  FakeSocket.last.end();
  await later(0);
  FakeSocket.last.end();
  expect(waits).toEqual([0, 250]);
  await client.close();
});

test("a page that goes away closes its socket without Close, and a page that comes back from the cache goes on", async () => {
  const client = await connected();
  FakeSocket.last.say("SessionRestore", { restoreKey: "k1" });
  happen("pagehide");
  expect(FakeSocket.last.closed).toBe(true);
  expect(FakeSocket.last.events("Close")).toEqual([]);
  await later(60_000);
  expect(FakeSocket.all).toHaveLength(1); // nothing is open while the page is in the cache
  happen("pageshow");
  await settle();
  FakeSocket.last.greet();
  await settle();
  expect(FakeSocket.last.events("SessionRestore")).toMatchObject([{ restoreKey: "k1" }]);
  expect(heard.filter((type) => /unload/.test(type))).toEqual([]);
  await client.close();
});

test("nothing of the page revives a client that was disconnected", async () => {
  const client = await connected();
  await client.disconnect();
  for (const event of [...COMING_BACK, "offline", "pagehide"]) happen(event);
  vi.setSystemTime(Date.now() + 3_600_000);
  await later(60_000);
  expect([FakeSocket.all.length, client.state]).toEqual([1, "idle"]);
});
