import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Client, connect, webSocket } from "../src/index.ts";
import { serverSentEvents } from "../src/sse.ts";
import { connected, FakeSocket, INFO, message, overHttp, settle } from "./fake_hub.ts";

interface Request {
  url: URL;
  method: string;
  headers: Record<string, string>;
  body: string | undefined;
  /** Of a stream: an event with an id. */
  say(event: string, payload: unknown, id?: string): void;
  beat(): void;
  end(): void;
}

let requests: Request[] = [];
let refusal: { status: number; error: object } | undefined;
const WELCOME = { ...INFO, authenticated: true };
const ID = "YQ.ZTE."; // channel a, epoch e1

/** An event stream for `/events`, an empty answer for anything else. */
function answer(url: URL, init: RequestInit): Promise<Response> {
  if (refusal) {
    const { status, error } = refusal;
    return Promise.resolve(new Response(JSON.stringify({ error }), { status }));
  }
  let out!: ReadableStreamDefaultController<Uint8Array>;
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      out = controller;
    },
  });
  init.signal?.addEventListener("abort", () => out.error(new DOMException("gone", "AbortError")));
  const request: Request = {
    url,
    method: init.method ?? "",
    headers: init.headers as Record<string, string>,
    body: init.body as string,
    say(event, payload, id) {
      const lines = [
        id === undefined ? [] : [`id: ${id}`],
        `event: ${event}`,
        `data: ${JSON.stringify(payload)}`,
      ];
      out.enqueue(new TextEncoder().encode(`${lines.flat().join("\n")}\n\n`));
    },
    beat: () => out.enqueue(new TextEncoder().encode(":\n\n")),
    end: () => out.close(),
  };
  if (url.pathname.endsWith("/socket"))
    return Promise.resolve(Response.json({ error: { code: "upgrade_required" } }, { status: 426 }));
  requests.push(request);
  if (!url.pathname.endsWith("/events"))
    return Promise.resolve(Response.json({ published: [{ success: true, msgID: "m1" }] }));
  return Promise.resolve(new Response(stream));
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date"] });
  vi.stubGlobal("fetch", answer);
  requests = [];
  refusal = undefined;
  FakeSocket.all = [];
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const streams = () => requests.filter(({ url }) => url.pathname.endsWith("/events"));
const last = () => streams().at(-1)!;

/** Streams are read in later turns. */
async function quiet(): Promise<void> {
  for (let i = 0; i < 5; i++) {
    await settle();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  await quiet();
}

async function greeted(...channels: string[]) {
  const client = connect("http://hub.test", { hub: "h", token: "t", transports: [serverSentEvents()] });
  const got: unknown[] = [];
  for (const channel of channels) client.channel(channel).subscribe((m) => got.push(m.data));
  await quiet();
  last().say("SessionInfo", WELCOME);
  await quiet();
  if (channels.length) await confirmStream(...channels);
  return { client, got };
}

async function confirmStream(...channels: string[]): Promise<void> {
  last().say("SessionInfo", { ...INFO, sessionID: "s2", authenticated: true });
  const confirmed = channels.map((channel) => ({ channel, epoch: "e1", serial: "4", recovered: true }));
  last().say("Subscribe", { channels: confirmed, failures: [] }, `${ID}4`);
  await quiet();
}

test("three sockets without a greeting while the hub answers over HTTP lead to a stream, and the state says so", async () => {
  vi.spyOn(Math, "random").mockReturnValue(1);
  const client = connect("http://hub.test", {
    hub: "h",
    transports: [webSocket(FakeSocket as never), serverSentEvents()],
  });
  const states: string[] = [];
  client.on("state", ({ state, transport }) => states.push(`${state} ${transport}`));
  await quiet();
  for (const ms of [0, 250, 500]) {
    FakeSocket.last.end();
    await pass(ms);
  }
  expect(FakeSocket.all).toHaveLength(3);
  expect(states.at(-1)).toBe("connecting sse");
  last().say("SessionInfo", INFO);
  await quiet();
  expect(states.at(-1)).toBe("connected sse");

  await pass(5_000); // a socket is tried
  expect(FakeSocket.all).toHaveLength(4);
  FakeSocket.last.end();
  for (let i = 0; i < 30; i++) {
    last().beat();
    await pass(20_000);
  }
  expect(FakeSocket.all).toHaveLength(4);
  await pass(10_000);
  expect([FakeSocket.all.length, client.transport]).toEqual([5, "sse"]);
  FakeSocket.last.greet();
  await quiet();
  expect(states.at(-1)).toBe("connecting websocket");
  FakeSocket.last.greet();
  await quiet();
  expect([client.state, client.transport]).toEqual(["connected", "websocket"]);
  await client.close();
});

test("a hub that is away is asked for by sockets again after one stream", async () => {
  vi.spyOn(Math, "random").mockReturnValue(1);
  refusal = { status: 503, error: { code: "overloaded", message: "later", retry: true, retryAfter: 7 } };
  const client = connect("http://hub.test", {
    hub: "h",
    transports: [webSocket(FakeSocket as never), serverSentEvents()],
  });
  const waits: (number | undefined)[] = [];
  client.on("state", ({ retryInMs }) => retryInMs !== undefined && waits.push(retryInMs));
  await quiet();
  for (const ms of [0, 250, 500]) {
    FakeSocket.last.end();
    await pass(ms);
  }
  expect([waits.at(-1), client.state, client.transport]).toEqual([7_000, "waiting", "websocket"]);
  await client.close();
});

/** The newest socket ends without a greeting, and the client tries again. */
async function fail(client: Client): Promise<void> {
  let wait = 0;
  const unlisten = client.on("state", ({ retryInMs }) => {
    wait = retryInMs ?? wait;
  });
  FakeSocket.last.end();
  unlisten();
  await pass(wait);
}

test("a hub that cannot be reached at all is asked for by sockets, and the session is restored", async () => {
  const client = await connected({
    transports: [webSocket(FakeSocket as never), serverSentEvents()],
    token: "t",
  });
  FakeSocket.last.say("SessionRestore", { restoreKey: "k1" });
  for (let i = 0; i < 12; i++) {
    await fail(client);
  }
  expect([FakeSocket.all.length, overHttp.asked.length, client.transport]).toEqual([13, 10, "websocket"]);
  expect(new Set(overHttp.asked)).toEqual(new Set(["http://hub.test/v1/hubs/h/socket"]));
  overHttp.error = { code: "upgrade_required", message: "connect here with WebSocket" }; // the hub is back
  await fail(client);
  FakeSocket.last.answers.SessionRestore = ({ reqID }) => [
    "SessionRestored",
    { reqID, sessionID: "s1", userID: "ann" },
  ];
  FakeSocket.last.greet({ sessionID: "s2" });
  await quiet();
  expect(client.session).toMatchObject({ id: "s1", restored: true });
  await client.close();
});

test("a hub that is reached over HTTP before a socket fails, and not after it, is not asked for a stream", async () => {
  const client = await connected({ transports: [webSocket(FakeSocket as never), serverSentEvents()] });
  for (const answers of [false, false, true, false, true, false, true]) {
    overHttp.error = answers ? { code: "upgrade_required" } : undefined;
    await fail(client);
  }
  expect([client.transport, client.state]).toEqual(["websocket", "connecting"]);
  await client.close();
});

test.each([
  ["origin_refused", false],
  ["overloaded", true],
])("%s: what the hub has against the client is in its state, and it goes on trying", async (code, retry) => {
  const client = await connected({ transports: [webSocket(FakeSocket as never), serverSentEvents()] });
  overHttp.error = { code, message: "words of the hub", retry };
  const said: unknown[] = [];
  client.on("state", ({ error }) => said.push(error?.code, error?.message));
  for (let i = 0; i < 3; i++) {
    await fail(client);
  }
  expect(said).toContain(code);
  expect(said).toContain("words of the hub");
  expect(client.transport).toBe("websocket");
  expect(["waiting", "connecting"]).toContain(client.state);
  await client.close();
});

test("a client that had a session and gets a stream now does not wait for a restore that streams do not have", async () => {
  const client = await connected({
    transports: [webSocket(FakeSocket as never), serverSentEvents()],
    token: "t",
  });
  FakeSocket.last.say("SessionRestore", { restoreKey: "k1" });
  vi.stubGlobal("fetch", answer);
  for (let i = 0; i < 4 && client.transport === "websocket"; i++) {
    await fail(client);
  }
  last().say("SessionInfo", WELCOME);
  await quiet();
  expect([client.state, client.transport, streams().length]).toEqual(["connected", "sse", 1]);
  await client.close();
});

test("a stream goes on from its last id when channels are added", async () => {
  const { client, got } = await greeted("a");
  expect(client.session).toMatchObject({ id: "s2", authenticated: true });
  last().say("Publish", message("a", 5), `${ID}5`);
  await quiet();
  client.channel("b").subscribe((m) => got.push(m.data), { since: "7.e2" });
  await quiet();
  expect(last().url.searchParams.getAll("channel")).toEqual(["a", "b"]);
  expect(last().headers).toMatchObject({ "Last-Event-ID": `${ID}5~Yg.ZTI.7`, Authorization: "Bearer t" });
  expect(got).toEqual([5]);
  await client.close();
});

test("a stream that ends is opened again from where the client is", async () => {
  const { client, got } = await greeted("a");
  last().say("Publish", message("a", 5), `${ID}5`);
  await quiet();
  last().end();
  await quiet();
  expect(client.state).toBe("waiting");
  await pass(0);
  last().say("SessionInfo", WELCOME);
  await quiet();
  expect(last().headers["Last-Event-ID"]).toBe(`${ID}5`);
  await confirmStream("a");
  last().say("Publish", message("a", 5), `${ID}5`);
  last().say("Publish", message("a", 6), `${ID}6`);
  await quiet();
  expect(got).toEqual([5, 6]);
  await client.close();
});

test("who authenticates anew knows so when the new stream follows the channels: what is published then arrives", async () => {
  const { client } = await greeted("a");
  let done = false;
  const again = client.authenticate({ token: "t2" }).then((session) => {
    done = true;
    return session;
  });
  await quiet();
  expect(last().headers.Authorization).toBe("Bearer t2");
  last().say("SessionInfo", { ...WELCOME, sessionID: "s3", userID: "ann", expiresAt: 4_000_000_000 });
  await quiet();
  expect(done).toBe(false);
  const confirmed = [{ channel: "a", epoch: "e1", serial: "4", recovered: true }];
  last().say("Subscribe", { channels: confirmed, failures: [] }, `${ID}4`);
  expect(await again).toMatchObject({ userId: "ann", authenticated: true });
  await client.close();
});

test("a channel that is refused costs neither the client nor the others", async () => {
  const { client } = await greeted("a");
  const error = { code: "not_permitted", message: "no", retry: false };
  const refused = client.channel("closed").subscribe();
  await quiet();
  last().say("SessionInfo", INFO);
  last().say("Subscribe", { channels: [], failures: [{ channel: "closed", error }] });
  await expect(refused.ready).rejects.toMatchObject({ code: "not_permitted" });
  const lost = vi.fn();
  client.on("accessLost", lost);
  last().say("Disconnect", { ...error, reason: "no", reconnect: false });
  await quiet();
  expect(lost).toHaveBeenCalledWith({
    channel: "a",
    error: expect.objectContaining({ code: "not_permitted" }),
  });
  expect(client.state).toBe("connected");
  expect(last().url.search).toBe("?empty=true");
  await client.close();
});

test("publishes go one request after the other, in their order", async () => {
  const { client } = await greeted();
  const receipt = client.channel("a").publish("x", { event: "e" });
  client.channel("a").send("y");
  await quiet();
  await pass(50);
  expect(await receipt).toEqual({ id: "m1", serial: undefined, duplicate: false });
  const posts = requests.filter(({ method }) => method === "POST");
  const bodies = posts.flatMap(({ body }) =>
    JSON.parse(body!).publishes.map((each: { payload: object }) => each.payload),
  );
  expect(bodies).toEqual([{ text: "x" }, { text: "y" }]);
  refusal = { status: 429, error: { code: "rate_limited", message: "slowly", retry: true } };
  await expect(client.channel("a").publish("z")).rejects.toMatchObject({ code: "rate_limited" });
  expect(client.state).toBe("connected");
  await client.close();
});

test("garbage, half events and silence end the stream, and the client comes back", async () => {
  const { client } = await greeted("a");
  last().say("Publish", "half");
  await quiet();
  expect(client.state).toBe("connected"); // a message of no channel
  vi.stubGlobal("fetch", () => Promise.resolve(new Response("<html>captive portal</html>", { status: 502 })));
  last().end();
  await pass(0);
  expect(client.state).toBe("waiting");
  vi.stubGlobal("fetch", answer);
  await pass(1_000);
  last().say("SessionInfo", WELCOME);
  await quiet();
  await confirmStream("a");
  expect(client.state).toBe("connected");
  const before = streams().length;
  await pass(35_000); // not even a heartbeat: the stream is opened anew
  expect(streams().length).toBeGreaterThan(before);
  await client.close();
});
