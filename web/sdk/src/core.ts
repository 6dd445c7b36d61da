/** The connection of a client: one socket after the other, until there is a reason to stop. */

import { Backoff, LIMITED } from "./backoff.ts";
import { HubbubError, lost } from "./errors.ts";
import { addTo, Feed, type FeedOwner, Reader, tell } from "./feed.ts";
import { watchPage } from "./lifecycle.ts";
import { type Answered, readReceipt, SendQueue } from "./queue.ts";
import { keepRestore, type Saved, takeRestore } from "./restore.ts";
import { loadStreams } from "./streams.ts";
import { TokenKeeper } from "./token.ts";
import type {
  Codec,
  Data,
  Envelope,
  Events,
  Gap,
  Lifecycle,
  Link,
  LinkEvents,
  Message,
  Options,
  Proof,
  Receipt,
  Session,
  State,
  SubscribeOptions,
  Transport,
  Unlisten,
  Wire,
} from "./types.ts";
import { webSocket } from "./websocket.ts";
import { endOf, jsonCodec, toError } from "./wire.ts";

const CONNECT_MS = 10_000;
const PROBE_MS = 3_000;
const LINGER_MS = 250;
const TICK_MS = 5_000;
const ASLEEP_MS = 15_000;
/** How often a client without a WebSocket tries whether one gets through. */
const UPGRADE_MS = 600_000;
/** Of sockets without a greeting: more than there are before the hub is asked. */
const ASKED = 100;
const BATCH = 500;
const FILTER = "hubbub:subscription";
const REFUSED = /^(invalid_token|not_authenticated|authentication_timeout)$/;

type Listener = (event: never) => void;
type Heard = (payload: Wire, event: string) => void;

interface Waiting {
  resolve(payload: Wire): void;
  reject(error: unknown): void;
  timer: ReturnType<typeof setTimeout>;
}

export interface AskOptions {
  /** Milliseconds more than usual. */
  moreMs?: number;
  /** Do not ask again when the connection is lost before the answer. */
  once?: boolean;
  signal?: AbortSignal | undefined;
}

export class Core implements FeedOwner {
  readonly options: Options;
  readonly base: URL;
  readonly #codec: Codec;
  /** Undefined: server-sent events, loaded when they are needed. */
  readonly #transports: (Transport | undefined)[];
  readonly #tokens: TokenKeeper;
  readonly queue: SendQueue;
  readonly #backoff: Backoff;
  readonly #listeners = new Map<string, Set<Listener>>();
  readonly #heard = new Map<string, Set<Heard>>();
  readonly #feeds = new Map<string, Feed>();
  readonly #patterns = new Set<Feed>();
  readonly #joined = new Set<Feed>();
  readonly #waiting = new Map<number, Waiting>();
  state: State = "idle";
  session: Session | undefined;
  #transport = 0;
  /** Sockets that ended before a greeting, one after the other; from `ASKED` on those since the hub answered over HTTP. */
  #silent = 0;
  /** The last connection was not a WebSocket. */
  #proven = false;
  #triedAt = 0;
  #trial: Link | undefined;
  #link: Link | undefined;
  #up = false;
  #info: Wire;
  /** The session that the connection under way will have. */
  #coming!: Session;
  #farewell: Wire;
  #closed: HubbubError | undefined;
  #restoreKey: string | undefined;
  #saved: Saved;
  #nextId = 1;
  #generation = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #deadline: ReturnType<typeof setTimeout> | undefined;
  #tick: ReturnType<typeof setInterval> | undefined;
  #ticked = 0;
  #dialledAt = 0;
  #connectedAt = 0;
  #receivedAt = 0;
  #probing = false;
  #refusedOnce = false;
  #unwatch: Unlisten | undefined;
  #settled: (() => void)[] = [];

  constructor(url: string | URL, options: Options) {
    this.options = options;
    this.base = new URL(url, globalThis.location?.href);
    this.base.protocol = this.base.protocol.replace(/^ws/, "http");
    this.#codec = options.codec ?? jsonCodec;
    this.#transports = options.transports ?? [webSocket(), undefined];
    this.queue = new SendQueue(options.maxQueued, () => this.#nextId++);
    this.#backoff = new Backoff(options.backoff?.firstMs, options.backoff?.longestMs);
    this.#tokens = new TokenKeeper(options, async () => this.#up && this.#renew(), options.requestMs);
    this.#saved = takeRestore(options);
    this.#restoreKey = this.#saved.key;
  }

  get transport(): string {
    return this.#transports[this.#transport]?.name ?? "sse";
  }

  // -- what the application hears

  on<K extends keyof Events>(type: K, f: (event: Events[K]) => void): Unlisten {
    return addTo(this.#listeners, type, f as Listener);
  }

  emit<K extends keyof Events>(type: K, event: Events[K]): void {
    tell(this.#listeners.get(type), type === "error" ? () => {} : this.report, event as never);
  }

  /** What an application's function threw. Nobody listens: it is thrown where the platform shows it. */
  readonly report = (error: unknown): void => {
    if (this.#listeners.get("error")?.size) this.emit("error", error);
    else queueMicrotask(() => { throw error; }); // biome-ignore format: one line
  };

  /** On the machine of a developer: what would be looked for in vain. */
  #warn(words: string): void {
    const { hostname } = globalThis.location ?? this.base;
    // biome-ignore lint/suspicious/noConsole: meant to be seen
    if (/^(localhost|127|\[::1)/.test(hostname)) console.warn(`hubbub: ${words}`);
  }

  noteGap(gap: Gap): void {
    this.emit("gap", gap);
  }

  /** Events of the protocol that features follow (documents, notifications). */
  listen(event: string, f: Heard): Unlisten {
    return addTo(this.#heard, event, f);
  }

  /** The same, of one channel. */
  listenTo(channel: string, event: string, f: (payload: Wire) => void): Unlisten {
    return this.listen(event, (payload) => payload.channel === channel && f(payload));
  }

  // -- life

  start(): void {
    if (this.#closed) throw this.#closed;
    if (this.state !== "idle") return;
    this.#ticked = Date.now();
    this.#tick = setInterval(() => this.#onTick(), TICK_MS);
    const watch = this.options.lifecycle ?? ((life: Lifecycle) => watchPage(this.options.hidden, life));
    this.#unwatch = watch({
      wake: () => this.#wake(),
      doubt: () => this.#up && this.#probe(),
      leave: (forGood, returns) => this.#leave(forGood, returns),
    });
    this.#dial();
  }

  /** Until `start`; nothing else brings it back. */
  stop(): void {
    if (this.state === "closed") return;
    this.#unwatch?.();
    clearInterval(this.#tick);
    this.#drop(lost("the client was disconnected"));
    this.#setState("idle");
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    if (this.#up && this.#link) {
      await until(this.queue.emptied(), AbortSignal.timeout(5_000)).catch(() => {});
      this.#link?.send([["Close", {}]], 0);
    }
    this.#finish(new HubbubError("client_closed", "the client is closed"));
  }

  #finish(closed: HubbubError, error?: HubbubError): void {
    if (error) this.#warn(closed.message);
    this.#closed = closed;
    this.stop();
    this.#setState("closed", error && { error });
    this.queue.failAll(closed);
    for (const feed of this.#feeds.values()) feed.finish(error);
    this.#feeds.clear();
    for (const resolve of this.#settled.splice(0)) resolve();
  }

  #setState(state: State, more: { error?: HubbubError; retryInMs?: number } = {}): void {
    if (this.state === state && !more.error) return;
    this.state = state;
    this.emit("state", { state, transport: this.transport, ...more });
  }

  /** Close the socket, keeping the session for a restore. */
  #leave(forGood: boolean, returns?: boolean): void {
    if (forGood) keepRestore(this.options, this.#restoreKey, this.#feeds.values());
    if (!this.#link) return;
    this.#drop(lost("the page was left"), returns);
    this.#setState("waiting");
  }

  #drop(error: HubbubError, returns?: boolean): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#deadline);
    this.#tokens.rest();
    this.#generation++;
    const link = this.#link;
    this.#link = undefined;
    this.#up = false;
    this.#probing = false;
    this.#trial?.close();
    for (const feed of this.#feeds.values()) feed.requested = false;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject, timer } of waiting) {
      clearTimeout(timer);
      reject(error);
    }
    this.queue.stop(error);
    link?.close(returns);
  }

  /** The connection is over, or never was: connect again, or give up. */
  #lose(cause: HubbubError, reconnect = true): void {
    const stable = this.#up && Date.now() - this.#connectedAt >= (this.options.backoff?.stableMs ?? 5_000);
    const dialled = this.#link !== undefined;
    this.#drop(cause.code === "too_large" ? cause : lost(`the connection was lost: ${cause.message}`, cause));
    if (this.#closed || this.state === "idle") return;
    if (dialled && !this.#info) {
      if (!this.#transport) this.#silent++;
      else if (!this.#proven) this.#change(); // streams have one attempt, unless they are known to work
    }
    if (dialled && REFUSED.test(cause.code) && this.#tokens.renewable && !this.#refusedOnce) {
      this.#refusedOnce = true;
      this.#tokens.refuse();
      this.#restoreKey = undefined;
    } else if (!reconnect) {
      const words = `the hub ended the session: ${cause.message}`;
      this.#finish(new HubbubError("client_closed", words, { cause }), cause);
      return;
    }
    if (stable) this.#backoff.reset();
    const retryInMs = this.#backoff.next(cause);
    this.#setState("waiting", { error: cause, retryInMs });
    this.#timer = setTimeout(() => this.#dial(), retryInMs);
  }

  /** The next transport has its turn. */
  #change(): void {
    this.#transport = (this.#transport + 1) % this.#transports.length;
    this.#silent = 0;
  }

  /** Whether the hub answers over HTTP, and would take a WebSocket. Rejects with what it has against this client. */
  async #answersHttp(): Promise<boolean> {
    const url = new URL(`v1/hubs/${encodeURIComponent(this.options.hub)}/socket`, this.base);
    const answer = fetch(url, { signal: AbortSignal.timeout(PROBE_MS) }).then((response) => response.json());
    const error: Wire = (await answer.catch(() => {}))?.error;
    const { code } = error ?? {};
    if (code === "origin_refused" || LIMITED.test(code)) throw toError(error);
    return code === "upgrade_required";
  }

  async #dial(): Promise<void> {
    clearTimeout(this.#timer);
    const generation = ++this.#generation;
    const here = () => generation === this.#generation;
    this.#info = this.#farewell = undefined;
    this.#dialledAt = Date.now();
    this.#setState("connecting");
    let code = "not_authenticated";
    let words = "there is no token";
    try {
      await this.#tokens.prepare(!this.#restoreKey); // before dialling: a token may take longer than a greeting
      if (!here()) return;
      code = "unreachable";
      words = `no hub answers at ${this.base.host}`;
      // A proxy may refuse WebSockets. Where the hub cannot be reached at all, a stream is of no use.
      if (!this.#transport && this.#silent > 1) {
        const answers = await this.#answersHttp();
        if (!here()) return;
        if (answers && this.#silent > ASKED) {
          this.#change();
          this.emit("state", { state: this.state, transport: this.transport });
        } else this.#silent = answers ? ASKED : 2;
      }
      this.#dialledAt = Date.now();
      this.#deadline = setTimeout(() => {
        this.#lose(new HubbubError("request_timeout", words, { retry: true }));
      }, CONNECT_MS);
      const used = this.#transport;
      const transport = this.#transports[used] ?? (await loadStreams());
      this.#transports[used] = transport;
      if (!here()) return;
      this.#link = this.#open(transport, {
        receive: (envelopes) => here() && this.#receive(envelopes),
        ended: (code, reason) => here() && this.#ended(code, reason),
      });
    } catch (error) {
      if (!here()) return;
      const message = (error as Error)?.message;
      this.#warn(message);
      if (error instanceof HubbubError) this.#lose(error);
      else {
        const reconnect = this.#transport > 0 || code !== "unreachable"; // a WebSocket that cannot be made will never be
        this.#lose(new HubbubError(code, `${words}: ${message}`, { retry: true, cause: error }), reconnect);
      }
    }
  }

  #ended(code: number, reason: string): void {
    const said = this.#farewell;
    if (said) {
      const { reason: message, reconnect: retry } = said;
      this.#lose(toError({ ...said, message, retry }), retry);
      return;
    }
    const [, name, words] = /^(\w+): (.*)$/s.exec(reason) ?? [];
    if (code >= 4400 && name)
      this.#lose(new HubbubError(name, words!), code > 4428 || code === 4406 || code === 4408);
    else if (code === 1009)
      this.#lose(new HubbubError("too_large", "a message is larger than the hub takes"));
    else if (this.#info) this.#lose(lost(reason || `the connection ended: ${code}`));
    else
      this.#lose(
        new HubbubError("unreachable", reason || `no hub answers at ${this.base.host}`, { retry: true }),
      );
  }

  // -- doubt and sleep

  #onTick(): void {
    const now = Date.now();
    const setBack = now < this.#ticked;
    const asleep = now - this.#ticked > ASLEEP_MS || setBack;
    this.#ticked = now;
    if (setBack) this.#receivedAt = now;
    if (asleep) this.#wake();
    else if (this.#up && now - this.#receivedAt > (this.#info.pingInterval || 25) * 1000 + TICK_MS)
      this.#probe();
    else if (this.#up && this.#transport && now - this.#triedAt > UPGRADE_MS) this.#upgrade();
  }

  /** Try whether a WebSocket gets through by now. It takes over when nothing is under way that a change would interrupt. */
  #upgrade(): void {
    this.#triedAt = Date.now();
    this.#trial?.close();
    const trial = this.#open(this.#transports[0]!, {
      receive: ([first]) => {
        if (this.#trial !== trial || first?.[0] !== "SessionInfo") return;
        trial.close();
        if (this.#waiting.size || this.queue.busy) this.#triedAt = 0;
        else {
          this.#transport = 0;
          this.#drop(lost("a WebSocket is open"));
          this.#dial();
        }
      },
      ended: () => {},
    });
    this.#trial = trial;
  }

  #open(transport: Transport, events: LinkEvents): Link {
    const token = async () => (await this.#tokens.current()) ?? (this.#tokens.given ? "" : undefined);
    return transport.open(this.base, this.options.hub, this.#codec, token, events);
  }

  #wake(): void {
    this.#backoff.reset(); // what failed before says nothing of now
    this.#silent = 0;
    if (this.state === "waiting") this.#dial();
    else if (this.state === "connecting" && Date.now() - this.#dialledAt > 1_000) {
      this.#drop(lost("dialling anew"));
      this.#dial();
    } else if (this.#up) this.#probe();
  }

  #probe(): void {
    if (this.#probing) return;
    this.#probing = true;
    this.#receivedAt = 0;
    this.#link?.send([["Ping", {}]], 0);
    const generation = this.#generation;
    setTimeout(() => {
      if (generation !== this.#generation) return;
      this.#probing = false;
      if (this.#receivedAt) return;
      this.#lose(lost("the hub does not answer"));
      if (this.state === "waiting") this.#dial();
    }, PROBE_MS);
  }

  // -- the handshake

  async #establish(info: Wire): Promise<void> {
    const generation = this.#generation;
    for (const feed of this.#feeds.values()) feed.tracker.recovering = true;
    const { hubID: hub, authenticated = false, userID: userId } = info;
    const session: Session = {
      id: "", hub, authenticated, userId, restored: false, expiresAt: endOf(info), extra: {},
    }; // biome-ignore format: dense
    this.#coming = session;
    try {
      if (this.#restoreKey !== undefined) await this.#restore(this.#restoreKey);
      if (!session.authenticated && this.#tokens.given) await this.#authenticate(session);
      if (generation === this.#generation) this.#introduce(); // before a subscription is ready
      await this.#subscribe();
    } catch (error) {
      if (generation === this.#generation) this.#failed(error as HubbubError);
      return;
    }
    if (generation !== this.#generation) return;
    clearTimeout(this.#deadline);
    this.#up = true;
    this.#connectedAt = Date.now();
    this.#silent = this.#triedAt = 0;
    this.#proven = this.#transport > 0;
    this.#refusedOnce = false;
    this.queue.start(this.#link!, session.maxMessageBytes ?? 0);
    this.#setState("connected");
    this.emit("connected", session);
    for (const resolve of this.#settled.splice(0)) resolve();
    await this.#subscribeSoon(); // what was asked for meanwhile
  }

  #failed(error: HubbubError): void {
    if (this.#farewell) return; // the close that follows says more
    this.#lose(error, error.retry || error.code === "connection_lost");
  }

  async #authenticate(session: Session): Promise<void> {
    this.#identify(session, await this.#request("Auth", await this.#tokens.proof()));
  }

  /** Who the hub says this is. */
  #identify(session: Session, answer: Wire): void {
    session.authenticated = true;
    session.userId = answer.userID;
    session.extra = answer.extra ?? {};
    session.expiresAt = endOf(answer);
    this.#tokens.expires(session.expiresAt);
  }

  /** A new proof on the same connection; subscriptions that it may not have end. */
  async authenticate(proof: Proof): Promise<Session> {
    this.#tokens.replace(proof);
    await this.connected();
    return this.#renew();
  }

  async #renew(): Promise<Session> {
    const session = { ...this.session! };
    await this.#authenticate(session);
    this.session = session;
    return session;
  }

  /** Where it fails, the session stays as it is. */
  async #restore(restoreKey: string): Promise<void> {
    const followed = [...this.#feeds.values()].filter((feed) => !feed.matches);
    const positions = followed.map((feed) => feed.tracker.position()).filter(Boolean);
    if (positions.length > BATCH || positions.length < followed.filter((feed) => feed.tracker.began).length)
      return;
    let answer: Wire;
    try {
      answer = await this.#request("SessionRestore", { restoreKey, positions });
    } catch (error) {
      const { code } = error as HubbubError;
      if (code === "connection_lost" || code === "request_timeout") throw error; // the key may still be good
      if (this.#restoreKey === restoreKey) this.#restoreKey = undefined;
      await this.#tokens.prepare(true);
      return;
    }
    this.#link?.send([["Ping", {}]], 0); // from here on the old key is worthless
    const present = new Set<string>([
      ...(answer.channels ?? []).map((each: Wire) => each.channel),
      ...(answer.patterns ?? []).map((each: Wire) => each.pattern),
    ]);
    for (const feed of this.#feeds.values()) {
      feed.requested =
        present.has(feed.name) ||
        (feed.byPattern && feed.patterns.some((pattern) => present.has(pattern.name)));
    }
    this.#refuse(answer.failures);
    const unwanted = [...present].filter((name) => !this.#feeds.has(name) && name !== `u:${answer.userID}`);
    if (unwanted.length) await this.#request("Unsubscribe", { channels: unwanted });
  }

  /** The session is the one of the connection before. */
  #goOn(answer: Wire): void {
    const session = this.#coming;
    session.id = answer.sessionID;
    session.restored = true;
    this.#identify(session, answer);
    session.authenticated = !!session.userId; // else the token ended, and the hub keeps the session of an anonymous client
    this.#introduce();
  }

  /** Show the application the session that is being established. */
  #introduce(): void {
    const { sessionID: id, maxMessageBytes, maxChannels, messagesPerSecond } = this.#info;
    const session = this.#coming;
    this.session = Object.assign(session, { maxMessageBytes, maxChannels, messagesPerSecond });
    if (!session.restored) session.id = id;
  }

  // -- subscriptions

  subscribe<T extends Data>(
    name: string,
    call: ((message: Message<T>) => unknown) | undefined,
    options: SubscribeOptions,
  ): Reader<T> {
    if (this.#closed) throw this.#closed;
    let feed = this.#feeds.get(name);
    if (feed && !feed.byPattern && JSON.stringify(feed.filter) !== JSON.stringify(options.filter)) {
      if (feed.subscriptions.size)
        throw new HubbubError("conflict", `a client has one filter for '${name}', and uses another`);
      clearTimeout(feed.linger);
      this.#unsubscribe(feed);
      feed = undefined;
    }
    const joins = feed !== undefined && !feed.byPattern;
    if (!feed || !joins) {
      feed?.finish();
      feed = new Feed(this, name, options.since ?? this.#saved.positions?.[name], options.filter);
      feed.presence = options.presence;
      this.#feeds.set(name, feed);
      if (feed.matches) this.#patterns.add(feed);
      this.#match();
      void this.#subscribeSoon();
    }
    clearTimeout(feed.linger);
    const reader = new Reader<T>(feed, this, call, options, joins);
    if (reader.joined) void this.#askState(feed);
    return reader;
  }

  /** Subscriptions joined the feed: the hub is to say again what it says to a new one, such as the retained message. */
  async #askState(feed: Feed): Promise<void> {
    this.#joined.add(feed);
    await undefined; // subscriptions of one turn go together
    if (!this.#joined.size || !this.#up) return; // the next connection brings the same
    const channels = [...this.#joined].map((each) => each.join());
    const joined = [...this.#joined];
    this.#joined.clear();
    await this.#request("Subscribe", { channels }).catch(() => {
      for (const each of joined) each.confirmAll(); // they go without
    });
  }

  /** Which patterns hand on what a channel gets. */
  #match(): void {
    for (const feed of this.#feeds.values()) {
      if (feed.matches) continue;
      feed.patterns = [...this.#patterns].filter((pattern) => pattern.matches!.test(feed.name));
      if (feed.byPattern && !feed.patterns.length) this.#feeds.delete(feed.name);
    }
  }

  release(feed: Feed): void {
    feed.linger = setTimeout(() => this.#unsubscribe(feed), LINGER_MS);
  }

  #unsubscribe(feed: Feed): void {
    if (feed.subscriptions.size || this.#feeds.get(feed.name) !== feed) return;
    this.#feeds.delete(feed.name);
    this.#patterns.delete(feed);
    this.#match();
    if (!feed.requested || !this.#link) return;
    this.#request("Unsubscribe", { channels: [feed.name] }).catch(() => {}); // the next connection does not ask for it
    if (feed.filter) this.#request("UnsetFilter", { name: FILTER, channel: feed.name }).catch(() => {});
  }

  async #subscribeSoon(): Promise<void> {
    await undefined; // subscriptions of one turn go together
    if (!this.#up) return;
    const generation = this.#generation;
    try {
      await this.#subscribe();
    } catch (error) {
      if (generation === this.#generation) this.#failed(error as HubbubError);
    }
  }

  /** To all channels that were not asked for on this connection. */
  async #subscribe(): Promise<void> {
    const feeds = [...this.#feeds.values()].filter((feed) => !feed.requested);
    for (const feed of feeds) feed.requested = true;
    for (const { name, filter } of feeds) {
      if (filter)
        await this.#guard(name, () => this.#request("SetFilter", { name: FILTER, channel: name, ...filter }));
    }
    for (let i = 0; i < feeds.length; i += BATCH) await this.#ask(feeds.slice(i, i + BATCH));
  }

  async #ask(feeds: Feed[]): Promise<void> {
    for (const feed of feeds) feed.asked = this.#nextId;
    if (feeds.length === 1) {
      const [feed] = feeds;
      if (this.#feeds.get(feed!.name) === feed)
        await this.#guard(feed!.name, () => this.#request("Subscribe", { channels: [feed!.request()] }));
      return;
    }
    try {
      await this.#request("Subscribe", { channels: feeds.map((feed) => feed.request()) });
    } catch (error) {
      if ((error as HubbubError).retry) throw error;
      for (const feed of feeds) await this.#ask([feed]); // the hub refused all, perhaps for one name
    }
  }

  async #guard(channel: string, ask: () => Promise<Wire>): Promise<void> {
    try {
      await ask();
    } catch (error) {
      if ((error as HubbubError).retry) throw error;
      this.#refuse([{ channel, error: error as HubbubError }]);
    }
  }

  /** The hub refuses channels. One that has begun is worth another attempt if the hub says so: then all starts over. */
  #refuse(failures: { channel: string; error: Wire }[] = []): void {
    for (const { channel, error: said } of failures) {
      const feed = this.#feeds.get(channel);
      if (!feed) continue;
      const error = said instanceof HubbubError ? said : toError(said);
      const { began } = feed.tracker;
      if (error.retry && began) throw error;
      this.#feeds.delete(channel);
      this.#patterns.delete(feed);
      this.#match();
      error.details.channel = channel;
      this.#warn(`'${channel}' is refused: ${error.message}`);
      if (began) this.emit("accessLost", { channel, error });
      else this.emit("error", error);
      feed.finish(error);
    }
  }

  // -- requests

  /** Wait for a connection. Rejects with `client_closed`. */
  async connected(): Promise<void> {
    while (!this.#up) {
      if (this.#closed) throw this.#closed;
      await new Promise<void>((resolve) => this.#settled.push(resolve));
    }
  }

  /** Ask when there is a connection, and again if it breaks before the answer. */
  async ask(
    event: string,
    payload: Wire,
    { moreMs = 0, once = false, signal }: AskOptions = {},
  ): Promise<Wire> {
    const ms = (this.options.requestMs ?? 10_000) + moreMs;
    const over = AbortSignal.timeout(ms);
    const ends = Date.now() + ms;
    for (;;) {
      if (!this.#up) await until(this.connected(), over, signal);
      try {
        return await until(this.#request(event, payload, Math.max(ends - Date.now(), 1)), undefined, signal);
      } catch (error) {
        if (once || (error as HubbubError).code !== "connection_lost" || this.#closed) throw error;
      }
    }
  }

  token(): Promise<string | undefined> {
    return this.#tokens.current();
  }

  page(query: Wire): Promise<Wire> {
    return this.ask("History", query);
  }

  #request(event: string, payload: Wire, ms = this.options.requestMs ?? 10_000): Promise<Wire> {
    const reqID = this.#nextId++;
    return new Promise((resolve, reject) => {
      if (!this.#link) {
        reject(lost("there is no connection to the hub"));
        return;
      }
      const timer = setTimeout(() => {
        this.#waiting.delete(reqID);
        reject(
          new HubbubError("request_timeout", `the hub did not answer ${event} in ${ms} ms`, { retry: true }),
        );
      }, ms);
      this.#waiting.set(reqID, { resolve, reject, timer });
      if (this.#link.send([[event, { reqID, ...payload }]], this.#info?.maxMessageBytes ?? 0)) return;
      this.#answer(reqID, { error: { code: "too_large", message: `${event} is larger than the hub takes` } });
    });
  }

  /** What nobody answers. False: there is no connection, or it is larger than the hub takes. */
  say(event: string, payload: Wire): boolean {
    return !!this.#link?.send([[event, payload]], this.#info?.maxMessageBytes ?? 0);
  }

  put(item: Wire, answered?: Answered): void {
    if (this.#closed) throw this.#closed;
    this.queue.put(item, answered);
  }

  /** Resolves with the hub's acknowledgement. */
  publish(item: Wire): Promise<Receipt> {
    return new Promise<Wire>((resolve) => this.put(item, resolve)).then(readReceipt);
  }

  // -- what the hub says

  #receive(envelopes: Envelope[]): void {
    this.#receivedAt = Date.now();
    for (const envelope of envelopes) {
      const payload = envelope[1];
      if (envelope[0] === "Publish") {
        const feed = this.#feeds.get(payload.channel);
        if (feed?.deliver(payload)) this.#recover(feed);
      } else {
        try {
          this.#handle(envelope[0], payload);
        } catch (error) {
          this.#failed(error as HubbubError);
        }
      }
    }
  }

  #recover(feed: Feed): void {
    const channels = [feed.tracker.recover()];
    feed.asked = this.#nextId;
    const generation = this.#generation;
    this.#guard(feed.name, () => this.#request("Subscribe", { channels })).catch(
      (error) => generation === this.#generation && this.#failed(error),
    );
  }

  #handle(event: string, payload: Wire): void {
    const { reqID, channel } = payload;
    switch (event) {
      case "Ping":
        this.#link?.send([["Pong", reqID ? { reqID } : {}]], 0);
        return;
      case "SessionInfo": {
        const first = !this.#info;
        this.#info = payload;
        this.#tokens.expires(endOf(payload));
        if (first) void this.#establish(payload);
        else if (this.#up) this.session = { ...this.session!, id: payload.sessionID };
        else this.#introduce();
        return;
      }
      case "SessionRestore":
        if (this.options.restore !== false) this.#restoreKey = payload.restoreKey;
        return;
      case "Disconnect":
        this.#farewell = payload;
        return;
      case "Ack":
        for (const result of payload.published) this.queue.acknowledge(result);
        return;
      case "ChannelReset": {
        const feed = this.#feeds.get(channel);
        if (feed && !feed.tracker.recovering) feed.note(feed.tracker.reset(payload));
        return;
      }
      case "Subscribe":
      case "SessionRestored":
        if (event !== "Subscribe") this.#goOn(payload);
        this.#confirm(payload);
        if (event === "Subscribe" && reqID) this.#refuse(payload.failures);
        break;
      case "Unsubscribe":
        if (!reqID) this.#withdraw(payload);
        break;
      case "Presence":
      case "Join":
      case "Leave":
      case "Occupancy":
        if (!reqID) this.#feeds.get(channel)?.present(event, payload);
        break;
    }
    if (reqID) this.#answer(reqID, payload);
    else for (const f of this.#heard.get(event) ?? []) f(payload, event);
  }

  #answer(reqID: number, payload: Wire): void {
    const waiting = this.#waiting.get(reqID);
    if (!waiting) {
      if (payload.error) this.queue.acknowledge(payload);
      return;
    }
    this.#waiting.delete(reqID);
    clearTimeout(waiting.timer);
    const { error, ...details } = payload;
    if (error) waiting.reject(toError(error, { ...error, ...details }));
    else waiting.resolve(payload);
  }

  #confirm({ reqID, channels = [], patterns = [], failures = [] }: Wire): void {
    for (const each of patterns) this.#feeds.get(each.pattern)?.confirmPattern(each);
    for (const each of channels) {
      let feed = this.#feeds.get(each.channel);
      if (!feed && [...this.#patterns].some((pattern) => pattern.matches!.test(each.channel))) {
        feed = new Feed(this, each.channel, undefined, undefined, true);
        feed.requested = true;
        this.#feeds.set(each.channel, feed);
        this.#match();
      }
      if (feed && !(feed.asked > reqID)) feed.confirm(each); // else it was asked for anew meanwhile
    }
    if (reqID) return;
    for (const { channel, error } of failures) {
      for (const pattern of this.#patterns)
        if (pattern.matches!.test(channel)) pattern.note({ channel, reason: error.message });
    }
  }

  /** Access was taken away, or a channel that matched has gone. */
  #withdraw({ unsubscribedChannels = [], failures = [] }: Wire): void {
    if (failures.length && this.#tokens.due) throw lost("the token ended"); // while nobody was awake to renew it
    for (const name of unsubscribedChannels) {
      if (this.#feeds.get(name)?.byPattern) this.#feeds.delete(name);
    }
    for (const { channel, error } of failures) {
      const feed = this.#feeds.get(channel);
      if (feed) this.#refuse([{ channel, error: { ...error, retry: false } }]);
    }
  }
}

/** A promise, unless a signal comes first. */
export function until<T>(promise: Promise<T>, over?: AbortSignal, signal?: AbortSignal): Promise<T> {
  if (!over && !signal) return promise;
  return new Promise((resolve, reject) => {
    promise.then(resolve, reject);
    over?.addEventListener(
      "abort",
      () => reject(new HubbubError("request_timeout", "there is no connection to the hub", { retry: true })),
      { once: true },
    );
    const aborted = () =>
      reject(new HubbubError("aborted", "the application gave up", { cause: signal?.reason }));
    if (signal?.aborted) aborted();
    else signal?.addEventListener("abort", aborted, { once: true });
  });
}
