import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { connect, webSocket } from "../src/index.ts";
import { type AppState, reactNative } from "../src/react-native.ts";
import { confirmed, connected, FakeSocket, INFO, message, settle } from "./fake_hub.ts";

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, "random").mockReturnValue(1);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const page = new EventTarget();
beforeEach(() => {
  vi.stubGlobal("addEventListener", page.addEventListener.bind(page));
  vi.stubGlobal("removeEventListener", page.removeEventListener.bind(page));
});
afterEach(() => void vi.unstubAllGlobals());

const later = (ms: number) => vi.advanceTimersByTimeAsync(ms);

test("a lost connection is dialled at once, then after 250 ms, doubled up to 20 s", async () => {
  const client = await connected();
  const waits: number[] = [];
  client.on("state", ({ retryInMs }) => retryInMs !== undefined && waits.push(retryInMs));
  for (let i = 0; i < 10; i++) {
    FakeSocket.last.end();
    await later(waits.at(-1)!);
  }
  expect(waits).toEqual([0, 250, 500, 1000, 2000, 4000, 8000, 16000, 20000, 20000]);
  await client.close();
});

test("the wait has a random half", async () => {
  vi.mocked(Math.random).mockReturnValue(0);
  const client = await connected();
  const waits: number[] = [];
  client.on("state", ({ retryInMs }) => retryInMs !== undefined && waits.push(retryInMs));
  FakeSocket.last.end();
  await later(0);
  FakeSocket.last.end();
  expect(waits).toEqual([0, 125]);
  await client.close();
});

test("five seconds of connection make the next loss a new one", async () => {
  const client = await connected();
  FakeSocket.last.end();
  await later(0);
  FakeSocket.last.greet();
  await settle();
  await later(5_000);
  const waits: unknown[] = [];
  client.on("state", ({ retryInMs }) => waits.push(retryInMs));
  FakeSocket.last.end();
  expect(waits).toEqual([0]);
  await client.close();
});

test("a hub that is overloaded is not dialled at once, and not before it says", async () => {
  const client = await connected();
  const waits: unknown[] = [];
  client.on("state", ({ retryInMs, error }) => waits.push([retryInMs, error?.code]));
  FakeSocket.last.say("Disconnect", {
    code: "overloaded",
    reason: "too much",
    reconnect: true,
    retryAfter: 3,
  });
  FakeSocket.last.end(4432, "overloaded: too much");
  expect(waits).toEqual([[3000, "overloaded"]]);
  await client.close();
});

test.each([
  ["session_replaced", 4415],
  ["origin_refused", 4412],
])("%s closes for good, also where only the close code says it", async (code, number) => {
  const client = await connected();
  FakeSocket.last.end(number, `${code}: words`);
  expect(client.state).toBe("closed");
  await expect(client.ready).rejects.toMatchObject({ code: "client_closed", cause: { code } });
  await later(60_000);
  expect(FakeSocket.all).toHaveLength(1);
});

test.each([
  ["not_authenticated", 4407],
  ["authentication_timeout", 4410],
  ["invalid_token", 4411],
])("%s: a token is asked for once more, then the client gives up", async (code, number) => {
  const token = vi.fn(async (_why: string) => "t");
  const client = await connected({ token });
  for (let i = 0; i < 2; i++) {
    FakeSocket.last.say("Disconnect", { code, reason: "revoked", reconnect: false });
    FakeSocket.last.end(number, `${code}: revoked`);
    await later(300);
  }
  expect(token.mock.calls).toEqual([["start"], ["refused"]]);
  expect(client.state).toBe("closed");
});

test("a token is renewed on the same connection at four fifths of its life", async () => {
  const token = vi.fn(async (_why: string) => `t${token.mock.calls.length}`);
  FakeSocket.all = [];
  const opening = connected({ token });
  await settle();
  const client = await opening;
  const expiresAt = Math.floor(Date.now() / 1000) + 100;
  FakeSocket.last.answers.Auth = ({ reqID }) => ["Auth", { reqID, success: true, userID: "ann", expiresAt }];
  await client.authenticate({ token });
  await later(79_000);
  const before = token.mock.calls.length;
  await later(3_000);
  expect(token.mock.calls.slice(before)).toEqual([["expiring"]]);
  expect(FakeSocket.all).toHaveLength(1);
  expect(FakeSocket.last.events("Auth").at(-1)).toMatchObject({ token: `t${token.mock.calls.length}` });
  await client.close();
});

test("a token that ended during sleep is renewed before the socket is dialled", async () => {
  const order: string[] = [];
  const token = async (why: string) => {
    order.push(`token ${why}`);
    return "t";
  };
  const client = await connected({ token, restore: false });
  FakeSocket.last.answers.Auth = ({ reqID }) => [
    "Auth",
    { reqID, success: true, expiresAt: Math.floor(Date.now() / 1000) + 10 },
  ];
  await client.authenticate({ token });
  order.length = 0;
  vi.setSystemTime(Date.now() + 3_600_000);
  const sockets = FakeSocket.all.length;
  FakeSocket.last.end();
  await later(0);
  expect(order).toEqual(["token expiring"]);
  expect(FakeSocket.all.length).toBe(sockets + 1);
  await client.close();
});

test("a session that is to be restored has a new token before the socket is dialled, where the old one has ended", async () => {
  const order: string[] = [];
  const token = async (why: string) => {
    order.push(`token ${why} with ${FakeSocket.all.length} sockets`);
    return `t${order.length}`;
  };
  const client = await connected({ token });
  FakeSocket.last.answers.Auth = ({ reqID }) => [
    "Auth",
    { reqID, success: true, expiresAt: Math.floor(Date.now() / 1000) + 10 },
  ];
  await client.authenticate({ token });
  FakeSocket.last.say("SessionRestore", { restoreKey: "k1" });
  order.length = 0;
  delete FakeSocket.last.answers.Ping;
  vi.setSystemTime(Date.now() + 3_600_000); // the machine sleeps, and no timer fires
  page.dispatchEvent(new Event("online"));
  await vi.advanceTimersByTimeAsync(0);
  FakeSocket.last.end(); // the socket did not survive
  await later(0);
  expect(order.at(-1)).toBe("token expiring with 1 sockets");
  FakeSocket.last.answers.SessionRestore = ({ reqID }) => [
    "Error",
    { reqID, error: { code: "restore_failed", message: "the token has ended", retry: false } },
  ];
  FakeSocket.last.greet();
  await settle();
  expect(FakeSocket.last.events("Auth")).toMatchObject([{ token: `t${order.length}` }]);
  expect([client.state, FakeSocket.all.length]).toEqual(["connected", 2]);
  await client.close();
});

test("a session that became anonymous while its token ended unseen is authenticated anew, and misses no channel", async () => {
  const token = vi.fn(async (_why: string) => `t${token.mock.calls.length}`);
  const client = await connected({ token });
  FakeSocket.last.answers.Auth = ({ reqID }) => [
    "Auth",
    { reqID, success: true, userID: "ann", expiresAt: Math.floor(Date.now() / 1000) + 10 },
  ];
  await client.authenticate({ token });
  const lost = vi.fn();
  client.on("accessLost", lost);
  const got: unknown[] = [];
  client.channel("private").subscribe((m) => got.push(m.data));
  await settle();
  FakeSocket.last.say("SessionRestore", { restoreKey: "k1" });
  FakeSocket.last.say("Publish", message("private", 1));
  vi.setSystemTime(Date.now() + 20_000); // the machine sleeps; this is what the socket has when it wakes
  const error = { code: "not_permitted", message: "nobody may", retry: false };
  FakeSocket.last.say("Unsubscribe", { failures: [{ channel: "private", error }] });
  await later(0);
  expect(token.mock.calls.at(-1)).toEqual(["expiring"]);
  FakeSocket.last.answers.SessionRestore = ({ reqID }) => ["SessionRestored", { reqID, sessionID: "s1" }];
  FakeSocket.last.greet();
  await settle();
  expect(FakeSocket.last.sent.map(([event]) => event)).toEqual([
    "SessionRestore",
    "Ping",
    "Auth",
    "Subscribe",
  ]);
  expect(FakeSocket.last.events("Subscribe")[0].channels).toEqual([
    { channel: "private", serial: "1", epoch: "e1" },
  ]);
  expect(client.session).toMatchObject({ userId: "ann", authenticated: true });
  FakeSocket.last.say("Publish", message("private", 2));
  expect([got, lost.mock.calls]).toEqual([[1, 2], []]);
  await client.close();
});

test("a token that is renewed while the connection breaks, or while there is none, is asked for once", async () => {
  const token = vi.fn(async (_why: string) => `t${token.mock.calls.length}`);
  const client = await connected({ token });
  FakeSocket.last.answers.Auth = ({ reqID }) => [
    "Auth",
    { reqID, success: true, expiresAt: Math.floor(Date.now() / 1000) + 100 },
  ];
  await client.authenticate({ token });
  FakeSocket.last.say("SessionRestore", { restoreKey: "k1" });
  token.mockClear();
  delete FakeSocket.last.answers.Auth;
  await later(80_000);
  expect(token.mock.calls).toEqual([["expiring"]]);
  FakeSocket.last.end(); // before the answer
  for (const ms of [0, 250, 500, 1000]) {
    await later(ms);
    FakeSocket.last.end();
  }
  vi.setSystemTime(Date.now() + 3_600_000);
  await later(2_000);
  FakeSocket.last.answers.SessionRestore = ({ reqID }) => ["SessionRestored", { reqID, sessionID: "s1" }];
  FakeSocket.last.greet();
  await settle();
  expect(FakeSocket.last.events("Auth")).toHaveLength(1);
  expect([client.state, token.mock.calls]).toEqual(["connected", [["expiring"]]]);
  await client.close();
});

test("one token is asked for at a time, whoever needs it", async () => {
  let give: (token: string) => void = () => {};
  const token = vi.fn((_why: string) => new Promise<string>((resolve) => { give = resolve; })); // biome-ignore format: one line
  const opening = connected({ token });
  await settle();
  expect(FakeSocket.all).toEqual([]); // before dialling
  const client = await opening;
  give("t1");
  await settle();
  FakeSocket.last.greet();
  await settle();
  const both = [client.authenticate({ token }), client.authenticate({ token })];
  await settle();
  give("t2");
  await Promise.all(both);
  expect(token).toHaveBeenCalledTimes(2);
  await client.close();
});

test("a token that cannot be had is asked for again, later and later", async () => {
  const token = vi.fn(async (_why: string): Promise<string> => {
    throw new Error("no login");
  });
  const client = await connected({ token });
  const waits: unknown[] = [];
  client.on("state", ({ retryInMs, error }) => error && waits.push([retryInMs, error.code, error.message]));
  await later(250);
  expect(waits.at(-1)).toEqual([500, "not_authenticated", "there is no token: no login"]);
  expect(FakeSocket.all).toEqual([]);
  await client.close();
});

test("a token or credentials that never come end the attempt, and are asked for again", async () => {
  for (const name of ["token", "credentials"]) {
    const never = vi.fn(() => new Promise<string>(() => {}));
    const client = await connected({ [name]: never, requestMs: 5_000 });
    const errors: unknown[] = [];
    client.on("state", ({ error }) => error && errors.push(error.message));
    await later(5_000);
    expect(client.state).toBe("waiting");
    expect(errors).toEqual([expect.stringContaining(`\`${name}\` did not answer in 5000 ms`)]);
    await later(1);
    if (name === "credentials") FakeSocket.last.greet();
    await settle();
    expect(never).toHaveBeenCalledTimes(2);
    await client.close();
  }
});

test("a token that cannot be had costs no session", async () => {
  let works = true;
  const token = async () => {
    if (!works) throw new Error("offline");
    return "t";
  };
  const client = await connected({ token });
  FakeSocket.last.answers.Auth = ({ reqID }) => [
    "Auth",
    { reqID, success: true, userID: "ann", expiresAt: Math.floor(Date.now() / 1000) + 10 },
  ];
  await client.authenticate({ token });
  FakeSocket.last.say("SessionRestore", { restoreKey: "k1" });
  works = false;
  vi.setSystemTime(Date.now() + 3_600_000);
  FakeSocket.last.end();
  await later(1_000);
  expect(FakeSocket.all).toHaveLength(1);
  works = true;
  await later(20_000);
  FakeSocket.last.greet();
  await settle();
  expect(FakeSocket.last.events("SessionRestore")).toMatchObject([{ restoreKey: "k1" }]);
  await client.close();
});

test("a session is there before a subscription is ready, a new one and a restored one", async () => {
  const client = await connected({ token: "t" });
  const seen: unknown[] = [];
  const ready = client
    .channel("a")
    .subscribe()
    .ready.then(() => seen.push(client.session?.id));
  await ready;
  FakeSocket.last.say("SessionRestore", { restoreKey: "k1" });
  FakeSocket.last.end();
  await later(0);
  void client
    .channel("b")
    .subscribe()
    .ready.then(() => seen.push(client.session?.id));
  FakeSocket.last.answers.SessionRestore = ({ reqID }) => [
    "SessionRestored",
    { reqID, sessionID: "s1", userID: "ann", channels: ["a", "b"].map((channel) => confirmed({ channel })) },
  ];
  FakeSocket.last.greet({ sessionID: "s2" });
  await settle();
  expect(seen).toEqual(["s1", "s1"]);
  await client.close();

  FakeSocket.all = [];
  const first = connect("http://hub.test", { hub: "h", transports: [webSocket(FakeSocket as never)] });
  void first
    .channel("a")
    .subscribe()
    .ready.then(() => seen.push(first.session?.id));
  await settle();
  FakeSocket.last.greet({ sessionID: "s3" });
  await settle();
  expect(seen.at(-1)).toBe("s3");
  await first.close();
});

test("a subscription that the hub refuses is told as an error, and on a developer's machine in the console", async () => {
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  for (const hostname of ["localhost", "127.0.0.1", "[::1]", "shop.example"]) {
    vi.stubGlobal("location", { hostname, href: `http://${hostname}/` });
    const client = await connected();
    const errors: unknown[] = [];
    client.on("error", (error) => errors.push(error));
    FakeSocket.last.answers.Subscribe = ({ reqID, channels }) => [
      "Subscribe",
      {
        reqID,
        channels: [],
        failures: channels.map(({ channel }: { channel: string }) => ({
          channel,
          error: { code: "not_permitted", message: "nobody may", retry: false },
        })),
      },
    ];
    client.channel("secret").subscribe(() => {});
    await settle();
    expect(errors).toEqual([
      expect.objectContaining({ code: "not_permitted", details: { channel: "secret" } }),
    ]);
    const said = hostname === "shop.example" ? [] : [["hubbub: 'secret' is refused: nobody may"]];
    expect(warn.mock.calls).toEqual(said);
    warn.mockClear();
    await client.close();
  }
});

test("4415 is never fought back, also not with a token that can be renewed", async () => {
  const token = vi.fn(async (_why: string) => "t");
  const client = await connected({ token });
  FakeSocket.last.say("Disconnect", {
    code: "session_replaced",
    reason: "restored elsewhere",
    reconnect: false,
  });
  FakeSocket.last.end(4415, "session_replaced: restored elsewhere");
  await later(60_000);
  expect([client.state, FakeSocket.all.length, token.mock.calls.length]).toEqual(["closed", 1, 1]);
});

test.each(["limited", "rate_limited", "slow_consumer", "overloaded"])(
  "%s: the hub is not dialled at once",
  async (code) => {
    const client = await connected();
    const waits: unknown[] = [];
    client.on("state", ({ retryInMs }) => waits.push(retryInMs));
    FakeSocket.last.end(4429, `${code}: too much`);
    expect(waits).toEqual([250]);
    await client.close();
  },
);

test("a call is never repeated, a question is", async () => {
  const client = await connected();
  const call = client.call("pay", { euros: 5 });
  const history = client.channel("a").history();
  await settle();
  expect(FakeSocket.last.sent.map(([event]) => event)).toEqual(["RPC", "History"]);
  FakeSocket.last.end();
  await expect(call).rejects.toMatchObject({ code: "connection_lost" });
  await later(0);
  FakeSocket.last.answers.History = ({ reqID }) => [
    "History",
    { reqID, messages: [], epoch: "e1", head: "0" },
  ];
  FakeSocket.last.greet();
  await settle();
  expect((await history).messages).toEqual([]);
  expect(FakeSocket.last.events("RPC")).toEqual([]);
  await client.close();
});

test("an answer that does not come is a request_timeout, and a signal ends the waiting", async () => {
  const client = await connected({ requestMs: 2_000 });
  const presence = client.channel("a").presence();
  const caught = expect(presence).rejects.toMatchObject({ code: "request_timeout", retry: true });
  await later(2_000);
  await caught;
  const abort = new AbortController();
  const call = client.call("slow", null, { signal: abort.signal, timeoutMs: 60_000 });
  await settle();
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: "aborted" });
  expect(client.state).toBe("connected");
  await client.close();
});

test("a listener is removed by its function and by its signal, and a disposed client is closed", async () => {
  const told: unknown[] = [];
  const abort = new AbortController();
  {
    await using client = await connected();
    client.on("state", ({ state }) => told.push(state));
    client.on("state", () => told.push("by signal"), { signal: abort.signal });
    client.on("state", () => told.push("removed"))();
    abort.abort();
    await expect(client.ready).resolves.toBe(client.session);
  }
  expect(told).toEqual(["idle", "closed"]);
});

test("a session is restored with the positions of its channels, without a token", async () => {
  const token = vi.fn(async () => "t");
  const client = await connected({ token });
  const got: unknown[] = [];
  client.channel("a").subscribe((m) => got.push(m.data));
  await settle();
  FakeSocket.last.say("SessionRestore", { restoreKey: "k1" });
  FakeSocket.last.say("Publish", message("a", 1));
  FakeSocket.last.end();
  await later(0);
  FakeSocket.last.answers.SessionRestore = ({ reqID, positions }) => [
    "SessionRestored",
    {
      reqID,
      sessionID: "s1",
      userID: "ann",
      channels: positions.map((p: object) => ({ ...p, recovered: true })),
      failures: [],
    },
  ];
  FakeSocket.last.greet({ sessionID: "other" });
  await settle();
  expect(FakeSocket.last.events("SessionRestore")).toMatchObject([
    { restoreKey: "k1", positions: [{ channel: "a", serial: "1", epoch: "e1" }] },
  ]);
  expect(FakeSocket.last.events("Auth")).toEqual([]);
  expect(FakeSocket.last.events("Subscribe")).toEqual([]);
  expect(client.session).toMatchObject({ id: "s1", restored: true, userId: "ann" });
  FakeSocket.last.say("Publish", message("a", 1));
  FakeSocket.last.say("Publish", message("a", 2));
  expect(got).toEqual([1, 2]);
  expect(token).toHaveBeenCalledTimes(1);
  await client.close();
});

test("a key that is spent leads to Auth on the same socket", async () => {
  const client = await connected({ token: "t" });
  FakeSocket.last.say("SessionRestore", { restoreKey: "k1" });
  FakeSocket.last.end();
  await later(0);
  FakeSocket.last.answers.SessionRestore = ({ reqID }) => [
    "Error",
    { reqID, error: { code: "restore_failed", message: "spent", retry: false } },
  ];
  FakeSocket.last.greet();
  await settle();
  expect(FakeSocket.last.sent.map(([event]) => event)).toEqual(["SessionRestore", "Auth"]);
  expect(client.state).toBe("connected");
  expect(FakeSocket.all).toHaveLength(2);
  await client.close();
});

test("nothing revives a client that was disconnected", async () => {
  const client = await connected();
  await client.disconnect();
  expect([client.state, FakeSocket.last.closed]).toEqual(["idle", true]);
  vi.setSystemTime(Date.now() + 3_600_000);
  await later(60_000);
  expect(FakeSocket.all).toHaveLength(1);
  client.connect();
  await settle();
  expect(FakeSocket.all).toHaveLength(2);
  await client.close();
});

test("after sleep a connection that does not answer in 3 s is dialled anew", async () => {
  const client = await connected();
  delete FakeSocket.last.answers.Ping;
  vi.setSystemTime(Date.now() + 60_000);
  await later(5_000);
  expect(FakeSocket.last.events("Ping")).toHaveLength(1);
  await later(3_000);
  expect(FakeSocket.all).toHaveLength(2);
  expect(client.state).toBe("connecting");
  await client.close();
});

test("a socket that opens and stays silent is given up after 10 s", async () => {
  const client = await connected();
  FakeSocket.last.end();
  await later(0);
  await later(10_000);
  expect(client.state).toBe("waiting");
  expect(FakeSocket.last.closed).toBe(true);
  await client.close();
});

test("what cannot be read ends the connection, and the client comes back", async () => {
  const client = await connected();
  FakeSocket.last.onmessage?.({ data: '{"event": "Publ' });
  expect(client.state).toBe("waiting");
  await later(0);
  FakeSocket.last.greet();
  await settle();
  expect(client.state).toBe("connected");
  await client.close();
});

test("events that nobody knows are ignored", async () => {
  const client = await connected();
  FakeSocket.last.say("Applause", { loud: true });
  FakeSocket.last.say("Publish", message("nobody asked", 1));
  expect(client.state).toBe("connected");
  await client.close();
});

test("a ping is answered in the same turn", async () => {
  const client = await connected();
  FakeSocket.last.say("Ping", { reqID: 7 });
  expect(FakeSocket.last.events("Pong")).toEqual([{ reqID: 7 }]);
  await client.close();
});

test("publishes wait for a connection; one that was sent and not acknowledged is in doubt", async () => {
  const client = await connected();
  FakeSocket.last.end();
  const first = client.channel("a").publish(1);
  expect(client.queued).toBe(1);
  await later(0);
  FakeSocket.last.greet();
  await settle();
  expect(FakeSocket.last.events("Publish")[0].publishes).toMatchObject([
    { channel: "a", payload: { json: 1 } },
  ]);
  FakeSocket.last.end();
  await expect(first).rejects.toMatchObject({ code: "connection_lost", retry: true });
  await client.close();
});

test("a full queue refuses, by messages and by bytes", async () => {
  const client = await connected({ maxQueued: { messages: 2, bytes: 300 } });
  FakeSocket.last.end();
  client.channel("a").send("x".repeat(200));
  expect(() => client.channel("a").send("x".repeat(200))).toThrow(
    expect.objectContaining({ code: "queue_full" }),
  );
  client.channel("a").send(1);
  expect(() => client.channel("a").send(2)).toThrow(expect.objectContaining({ code: "queue_full" }));
  await client.close();
});

test("publishes of one turn go in one frame; what is too large is split or refused", async () => {
  const client = await connected();
  const channel = client.channel("a");
  for (let i = 0; i < 3; i++) channel.send("x".repeat(400));
  const large = channel.publish("x".repeat(1000));
  await settle();
  expect(FakeSocket.last.events("Publish").map(({ publishes }) => publishes.length)).toEqual([2, 1]);
  await expect(large).rejects.toMatchObject({ code: "too_large" });
  expect(client.state).toBe("connected");
  expect(INFO.maxMessageBytes).toBe(1000);
  await client.close();
});

test("a clock that is set back does not keep a dead connection alive", async () => {
  const client = await connected();
  delete FakeSocket.last.answers.Ping;
  vi.setSystemTime(Date.now() - 3_600_000);
  await later(5_000);
  expect(FakeSocket.last.events("Ping")).toHaveLength(1);
  await later(3_000);
  expect(FakeSocket.all).toHaveLength(2);
  await client.close();
});

test("a clock that is ahead of the hub's does not ask for tokens again and again", async () => {
  const token = vi.fn(async () => "t");
  const client = await connected({ token });
  const past = Math.floor(Date.now() / 1000) - 3600;
  FakeSocket.last.answers.Auth = ({ reqID }) => [
    "Auth",
    { reqID, success: true, userID: "ann", expiresAt: past },
  ];
  await client.authenticate({ token });
  const before = token.mock.calls.length;
  await later(59_000);
  expect(token).toHaveBeenCalledTimes(before);
  await later(2_000);
  expect(token).toHaveBeenCalledTimes(before + 1);
  await client.close();
});

test("a hub that is upgraded under an open page is come back to, whatever it says beside", async () => {
  const client = await connected();
  const got: unknown[] = [];
  client.channel("a").subscribe((m) => got.push(m.data));
  await settle();
  FakeSocket.last.say("Publish", message("a", 1));
  FakeSocket.last.say("Disconnect", { code: "going_away", reason: "a new version", reconnect: true });
  FakeSocket.last.end(1001);
  await later(0);
  FakeSocket.last.greet({ protocolVersion: 2, mood: "fresh", limits: { applause: 3 } });
  await settle();
  expect(FakeSocket.last.events("Subscribe")[0].channels).toEqual([
    { channel: "a", serial: "1", epoch: "e1" },
  ]);
  FakeSocket.last.say("Applause", { channel: "a" });
  FakeSocket.last.say("Publish", message("a", 2, { mood: "fresh" }));
  expect([client.state, got]).toEqual(["connected", [1, 2]]);
  await client.close();
});

test("the key to a session is in the tab's storage only between two pages, so a duplicated tab has none", async () => {
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => kept.set(name, value),
    removeItem: (name: string) => kept.delete(name),
  });
  const client = await connected({ restore: "tab" });
  FakeSocket.last.say("SessionRestore", { restoreKey: "k1" });
  expect(kept.size).toBe(0);
  page.dispatchEvent(new Event("pagehide"));
  expect([...kept.values()].map((text) => JSON.parse(text).key)).toEqual(["k1"]);
  const next = await connected({ restore: "tab" });
  expect([kept.size, FakeSocket.last.events("SessionRestore")]).toMatchObject([0, [{ restoreKey: "k1" }]]);
  await Promise.all([client.close(), next.close()]);
  vi.unstubAllGlobals();
});

test("on React Native the application's states are what pages' events are elsewhere", async () => {
  const heard: { state?: (state: string) => void; network?: (state: { isConnected: boolean }) => void } = {};
  const removed = vi.fn();
  const app: AppState = {
    addEventListener(_type, f) {
      heard.state = f;
      return { remove: removed };
    },
  };
  const { lifecycle } = reactNative(app, {
    addEventListener(f) {
      heard.network = f;
      return removed;
    },
  });
  const client = await connected({ lifecycle: lifecycle! });
  heard.network!({ isConnected: true });
  heard.state!("background");
  expect(FakeSocket.last.events("Ping")).toHaveLength(0);
  heard.state!("active");
  expect(FakeSocket.last.events("Ping")).toHaveLength(1);
  await later(3_000);
  heard.network!({ isConnected: false });
  expect(FakeSocket.last.events("Ping")).toHaveLength(2);
  await client.close();
  expect(removed).toHaveBeenCalledTimes(2);
});
