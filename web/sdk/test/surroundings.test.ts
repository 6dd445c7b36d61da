/** Where the SDK runs: nothing at import, and what a platform does without. */

import { afterEach, expect, test, vi } from "vitest";
import { connect, liveDocument, topic, webSocket } from "../src/index.ts";
import { shared } from "../src/shared.ts";
import { FakeSocket, settle } from "./fake_hub.ts";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.resetModules();
});

const OF_PAGES = ["WebSocket", "document", "window", "location", "addEventListener", "indexedDB", "sessionStorage", "localStorage", "SharedWorker", "BroadcastChannel", "navigator", "fetch"]; // biome-ignore format: one line
const ENTRIES = ["index", "offline", "protobuf", "sse", "shared", "react", "react-native"];

test.each(ENTRIES)(
  "nothing happens at import of %s: no global of a page is even looked at",
  async (entry) => {
    await import("react");
    const touched: string[] = [];
    const real = new Map(OF_PAGES.map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]));
    for (const name of OF_PAGES)
      Object.defineProperty(globalThis, name, {
        configurable: true,
        get() {
          if (new Error().stack?.includes("/sdk/src/")) touched.push(name);
          const { value, get } = real.get(name) ?? {};
          return get ? get.call(globalThis) : value;
        },
      });
    try {
      await import(`../src/${entry}.ts`);
    } finally {
      for (const [name, descriptor] of real) {
        if (descriptor) Object.defineProperty(globalThis, name, descriptor);
        else Reflect.deleteProperty(globalThis, name);
      }
    }
    expect(touched).toEqual([]);
  },
);

test("without Web Locks each tab has its own WebSocket", async () => {
  vi.stubGlobal("navigator", {});
  vi.stubGlobal("WebSocket", FakeSocket);
  FakeSocket.all = [];
  const clients = [1, 2].map(() => connect("http://hub.test", { hub: "h", transports: [shared()] }));
  await settle();
  expect(clients.map(({ transport }) => transport)).toEqual(["websocket", "websocket"]);
  expect(FakeSocket.all).toHaveLength(2);
  await Promise.all(clients.map((client) => client.close()));
});

test("storage that the browser refuses costs a page nothing but the restore after a reload", async () => {
  vi.stubGlobal("WebSocket", FakeSocket);
  const page = new EventTarget();
  vi.stubGlobal("addEventListener", page.addEventListener.bind(page));
  vi.stubGlobal("removeEventListener", page.removeEventListener.bind(page));
  vi.stubGlobal("sessionStorage", undefined);
  Object.defineProperty(globalThis, "sessionStorage", {
    configurable: true,
    get() {
      throw new DOMException("refused", "SecurityError");
    },
  });
  const client = connect("http://hub.test", { hub: "h", restore: "tab" });
  await settle();
  FakeSocket.last.greet();
  FakeSocket.last.say("SessionRestore", { restoreKey: "k1" });
  await settle();
  expect(client.state).toBe("connected");
  page.dispatchEvent(new Event("pagehide"));
  expect(client.state).toBe("waiting");
  await client.close();
});

test("a page without TLS, which has no crypto.randomUUID, has topics and documents all the same", async () => {
  vi.stubGlobal("crypto", { getRandomValues: crypto.getRandomValues.bind(crypto) });
  FakeSocket.all = [];
  const client = connect("http://hub.test", { hub: "h", transports: [webSocket(FakeSocket as never)] });
  await settle();
  const { answers } = FakeSocket.last;
  answers.ProducerOpen = ({ reqID }) => ["ProducerOpened", { reqID, fence: "1", sequence: "0" }];
  answers.DocumentGet = ({ reqID }) => ["DocumentGet", { reqID, epoch: "e", version: 0, document: {} }];
  FakeSocket.last.greet();
  void topic(client, "jobs")
    .put(1)
    .catch(() => {});
  const document = liveDocument(client, "doc:a");
  await document.ready;
  document.change([{ op: "add", path: "/n", value: 1 }]).catch(() => {});
  await settle();
  const [{ producer: of, changeID }] = FakeSocket.last.events("DocumentChange");
  const [{ producer }] = FakeSocket.last.events("Publish")[0].publishes;
  expect(new Set([of.id, changeID, producer.id]).size).toBe(3);
  await client.disconnect();
});
