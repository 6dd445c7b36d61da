import "fake-indexeddb/auto";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Client, connect, type Json, type LiveDocument, liveDocument, webSocket } from "../src/index.ts";
import { type Outbox, openOutbox } from "../src/offline.ts";
import { FakeDocument } from "./fake_documents.ts";
import { FakeSocket } from "./fake_hub.ts";

/** Pages that are open: each with a client, an outbox and a document. */
interface Page {
  client: Client;
  outbox: Outbox;
  document: LiveDocument<Record<string, Json>>;
  leave(): Promise<void>;
}

let count = 0;
let name = "";
let hub = new FakeDocument("doc:a");
let serving: ReturnType<typeof setInterval> | undefined;
const pages = new Set<Page>();

beforeEach(() => {
  name = `box${count++}`;
  hub = new FakeDocument("doc:a");
  FakeSocket.all = [];
});
afterEach(async () => {
  for (const page of pages) await page.leave();
  goAway();
});

/** Every socket is greeted and served. */
function come(user = "ann"): void {
  clearInterval(serving);
  serving = setInterval(() => {
    for (const socket of FakeSocket.all.filter(({ readyState }) => readyState === 0)) {
      hub.serve(socket);
      socket.answers.Auth = ({ reqID }) => ["Auth", { reqID, success: true, userID: user }];
      socket.greet();
    }
  }, 1);
}

/** The hub cannot be reached; connections end. */
function goAway(): void {
  clearInterval(serving);
  for (const socket of FakeSocket.all) socket.end();
}

async function open(connectedFirst = false): Promise<Page> {
  const client = connect("http://hub.test", {
    hub: "h",
    token: "t",
    transports: [webSocket(FakeSocket as never)],
    backoff: { firstMs: 1, longestMs: 2 },
  });
  if (connectedFirst) await client.ready;
  const outbox = await openOutbox(client, name);
  const document = liveDocument<Record<string, Json>>(client, "doc:a", { cache: outbox });
  const page: Page = {
    client,
    outbox,
    document,
    async leave() {
      pages.delete(page);
      await document.close(); // as the end of a tab does, gives its lock back
      await outbox.close();
      await client.close();
    },
  };
  pages.add(page);
  return page;
}

const add = (path: string, value: Json) => [{ op: "add" as const, path, value }];
const nothing = () => [];
/** Promises of pages that are closed meanwhile are rejected. */
const begin = (page: Page, path: string, value: Json) =>
  void page.document.change(add(path, value)).catch(() => {});

test("a page shows without a connection what the page before it had, with its edits, and sends them later", async () => {
  come();
  const first = await open();
  await first.document.change(add("/n", 1));
  goAway();
  begin(first, "/offline", true);
  begin(first, "/list", [1]);
  await expect.poll(() => first.document.pending).toBe(2);
  await first.leave();

  const second = await open();
  expect(await second.document.ready).toEqual({ n: 1, offline: true, list: [1] });
  expect([second.document.pending, second.document.stale, hub.version]).toEqual([2, true, 1]);
  begin(second, "/list/-", 2);
  come();
  await expect.poll(() => hub.value).toEqual({ n: 1, offline: true, list: [1, 2] });
  await expect.poll(() => second.document.pending).toBe(0);
  expect(hub.version).toBe(4);
  await second.leave();

  const third = await open();
  await third.document.ready;
  expect([third.document.pending, hub.version]).toEqual([0, 4]); // nothing is sent twice
});

test("two tabs have a copy each; when one of them is closed, the other one sends its edits", async () => {
  come();
  const tabs = [await open(), await open()];
  for (const [i, tab] of tabs.entries()) await tab.document.change(add(`/tab${i}`, true));
  goAway();
  begin(tabs[0]!, "/first", 1);
  begin(tabs[1]!, "/second", 2);
  await expect.poll(() => tabs.map(({ document }) => document.pending)).toEqual([1, 1]);
  await tabs[1]!.leave();
  come();
  await expect.poll(() => hub.value).toEqual({ tab0: true, tab1: true, first: 1, second: 2 });
  await expect.poll(() => tabs[0]!.document.value).toEqual(hub.value);
});

test("a page that is connected already sends the edits of all tabs before it", async () => {
  const tabs = [await open(), await open(), await open()];
  for (const [i, tab] of tabs.entries()) begin(tab, `/tab${i}`, i);
  await expect.poll(() => tabs.map(({ document }) => document.pending)).toEqual([1, 1, 1]);
  for (const tab of tabs) await tab.leave();
  come();
  const { document } = await open(true);
  await expect.poll(() => hub.value).toEqual({ tab0: 0, tab1: 1, tab2: 2 });
  await expect.poll(() => document.value).toEqual(hub.value);
});

test("edits of a tab that is closed later, while another one waits for its lock, are sent by that one", async () => {
  const tabs = [await open(), await open()];
  begin(tabs[1]!, "/second", 2);
  await expect.poll(() => tabs[1]!.document.pending).toBe(1);
  await tabs[1]!.client.disconnect(); // its network is gone, not that of the first
  come();
  await tabs[0]!.document.ready;
  expect(hub.version).toBe(0);
  await tabs[1]!.leave();
  await expect.poll(() => hub.value).toEqual({ second: 2 });
});

test("an edit of an earlier page that the hub refuses is among the refused ones, with its operations", async () => {
  come();
  const first = await open();
  await first.document.ready;
  goAway();
  begin(first, "/forbidden", 1);
  begin(first, "/fine", 2);
  await expect.poll(() => first.document.pending).toBe(2);
  await first.leave();
  hub.refuse = ([{ path }]) => path === "/forbidden";
  come();
  const second = await open();
  await expect.poll(() => hub.value).toEqual({ fine: 2 });
  const [refusal, ...more] = await second.outbox.refused();
  expect(more).toEqual([]);
  expect(refusal).toMatchObject({
    topic: "doc:a",
    edit: true,
    data: add("/forbidden", 1),
    error: { code: "not_permitted" },
  });
  await second.outbox.forget(refusal!);
  expect(await second.outbox.refused()).toEqual([]);
  await expect.poll(() => second.document.value).toEqual({ fine: 2 });
});

test("edits of one user are not sent in the name of another", async () => {
  come("ann");
  const first = await open();
  await first.document.ready;
  goAway();
  begin(first, "/of", "ann");
  await expect.poll(() => first.document.pending).toBe(1);
  await first.leave();
  come("bob");
  const second = await open();
  await second.client.ready;
  await expect.poll(() => second.document.change(nothing).catch(({ code }) => code)).toBe("copy_mismatch");
  expect(hub.version).toBe(0);
  await second.leave();
  come("ann");
  await open();
  await expect.poll(() => hub.value).toEqual({ of: "ann" });
});

test("an edit that is made before the copy is read waits for it, and one after the end is refused", async () => {
  come();
  const page = await open();
  expect(await page.document.change((value) => add("/n", Object.keys(value).length))).toBe(1);
  await page.document.close();
  await expect(page.document.change(add("/n", 2))).rejects.toMatchObject({ code: "client_closed" });
});

test("a change tells the operations that led to it, where they are known", async () => {
  come();
  const { document } = await open();
  await document.ready;
  const told: unknown[] = [];
  document.on("change", (value, operations) => told.push([value, operations]));
  await document.change(add("/mine", 1));
  await expect.poll(() => document.version).toBe(1);
  told.length = 0;
  hub.edit(add("/theirs", 2));
  await expect.poll(() => told).toEqual([[{ mine: 1, theirs: 2 }, add("/theirs", 2)]]);
  const change = document.change(add("/mine", 3));
  expect(told.at(-1)).toEqual([{ mine: 3, theirs: 2 }, add("/mine", 3)]);
  await change;
});

test("wherever pages and connections end, every edit is done once", async () => {
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.constant("edit") },
    fc.constantFrom("leave", "away", "come", "cut", "wait"),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 25 }), async (steps) => {
      name = `box${count++}`;
      hub = new FakeDocument("doc:a");
      let edits = 0;
      let cuts = 0;
      hub.cut = () => cuts-- > 0;
      let page = await open();
      for (const each of steps) {
        if (each === "edit") begin(page, "/all", `edit ${++edits}`);
        else if (each === "away") goAway();
        else if (each === "come") come();
        else if (each === "cut") cuts++;
        else if (each === "wait") for (let i = 0; i < 50; i++) await new Promise(setImmediate);
        else {
          await page.document.change(nothing); // the copy is read
          await page.leave();
          page = await open();
        }
      }
      come();
      await expect.poll(() => [hub.version, page.document.pending]).toEqual([edits, 0]);
      const values = hub.changes.map(({ ops }) => ops[0].value);
      expect(values).toEqual(Array.from({ length: edits }, (_, i) => `edit ${i + 1}`));
      await page.leave();
    }),
    { numRuns: 15 },
  );
}, 60_000);
