/** The side of a shared connection that has it: one client, for all tabs of a browser. To a tab it speaks like a hub. */

import type { Client, Data, Envelope, Filter, HubbubError, Member, Subscription, Wire } from "./index.ts";
import { connect, jsonCodec } from "./index.ts";
import { CORE, fromPayload } from "./internals.ts";

/** From a tab. `lock` is held as long as the tab lives. */
export type FromTab =
  | { hello: { url: string; hub: string; token?: string }; lock: string }
  | { frame: string };
/** To a tab. */
export type ToTab = { envelopes: Envelope[] } | { ended: string };
export type Post = (message: ToTab) => void;

// biome-ignore format: one line
const FORWARDED = ["Presence", "Join", "Leave", "Occupancy", "DocumentUpdated", "DocumentInfo", "NotificationNew", "NotificationRead", "NotificationInfo", "HCommand"];

export class Host {
  #client: Client | undefined;
  readonly #tabs = new Set<Tab>();

  /** What the tab behind `post` says. A second `hello` is a new life of it. */
  receive(post: Post, message: FromTab, tab?: Tab): Tab {
    if ("frame" in message) {
      for (const [event, payload] of jsonCodec.decode(message.frame)) tab?.handle(event, payload);
      return tab!;
    }
    if (tab) this.#leave(tab);
    const { url, hub, token } = message.hello;
    this.#client ??= this.#connect(url, hub, token);
    const client = this.#client;
    const opened = new Tab(client, post);
    this.#tabs.add(opened);
    if (client.state === "connected") opened.greet();
    const gone = globalThis.navigator?.locks?.request(message.lock, () => this.#leave(opened));
    gone?.catch(() => {});
    return opened;
  }

  close(): void {
    for (const tab of this.#tabs) this.#leave(tab);
    void this.#client?.close();
    this.#client = undefined;
  }

  #leave(tab: Tab): void {
    tab.close();
    this.#tabs.delete(tab);
  }

  #connect(url: string, hub: string, token: string | undefined): Client {
    const client = connect(url, { hub, ...(token !== undefined && { token }) });
    client.on("state", ({ state, error }) => {
      if (state === "connecting") return;
      for (const tab of this.#tabs) {
        if (state === "connected") tab.greet();
        else this.#end(tab, state === "closed" ? error : undefined);
      }
      if (state === "closed" && this.#client === client) this.#client = undefined;
    });
    client.on("accessLost", ({ channel, error }) => {
      for (const tab of this.#tabs)
        if (tab.has(channel)) tab.tell("Unsubscribe", { failures: [{ channel, error: plain(error) }] });
    });
    client.on("error", () => {}); // functions of tabs run in tabs
    for (const event of FORWARDED)
      client[CORE].listen(event, (payload) => {
        for (const tab of this.#tabs) if (tab.has(payload.channel)) tab.tell(event, payload);
      });
    return client;
  }

  /** The tab asks again, with a newer token where the old one was refused. */
  #end(tab: Tab, error: HubbubError | undefined): void {
    if (error) tab.tell("Disconnect", { code: error.code, reason: error.message, reconnect: error.retry });
    if (tab.greeted) tab.post({ ended: "the shared connection was lost" });
    if (tab.greeted || error) this.#leave(tab);
  }
}

export class Tab {
  readonly post: Post;
  readonly #client: Client;
  readonly #core: Client[typeof CORE];
  readonly #subscriptions = new Map<string, Subscription<Data>>();
  readonly #filters = new Map<string, Filter>();
  greeted = false;

  constructor(client: Client, post: Post) {
    this.#client = client;
    this.#core = client[CORE];
    this.post = post;
  }

  /** Commands have no channel: they are for every tab. */
  has(channel: string | undefined): boolean {
    return !channel || this.#subscriptions.has(channel);
  }

  tell(event: string, payload: Wire): void {
    this.post({ envelopes: [[event, payload]] });
  }

  greet(): void {
    const { id, hub, authenticated, userId, expiresAt, ...limits } = this.#client.session!;
    this.greeted = true;
    this.tell("SessionInfo", {
      hubID: hub, sessionID: id, authenticated, userID: userId, pingInterval: 25,
      expiresAt: expiresAt && +expiresAt / 1000, maxMessageBytes: limits.maxMessageBytes,
      maxChannels: limits.maxChannels, messagesPerSecond: limits.messagesPerSecond,
    }); // biome-ignore format: dense
  }

  close(): void {
    for (const subscription of this.#subscriptions.values()) void subscription.unsubscribe();
    this.#subscriptions.clear();
  }

  handle(event: string, payload: Wire): void {
    const { reqID, ...asked } = payload;
    if (event === "Ping") this.tell("Pong", {});
    else if (event === "Publish") for (const item of payload.publishes) this.#put(item);
    else if (event === "HResult") this.#core.say(event, payload);
    else if (reqID)
      this.#answer(event, asked).then(
        ({ begin, ...answer }) => {
          this.tell(event, { ...answer, reqID });
          begin?.(); // what came before the confirmation
        },
        (error) => this.tell("Error", { reqID, error: plain(error) }),
      );
  }

  async #answer(event: string, asked: Wire): Promise<Wire> {
    const { channel, channels, name: _, ...rest } = asked;
    switch (event) {
      case "Subscribe":
        return this.#subscribeAll(channels);
      case "Unsubscribe":
        for (const each of channels) {
          void this.#subscriptions.get(each)?.unsubscribe();
          this.#subscriptions.delete(each);
        }
        return { unsubscribedChannels: channels };
      case "SetFilter":
        this.#filters.set(channel, rest);
        return {};
      case "UnsetFilter":
        this.#filters.delete(channel);
        return {};
      case "SessionRestore":
        throw { code: "restore_failed", message: "the connection is shared" };
      case "Auth": {
        const { userId, expiresAt, extra } = await this.#client.authenticate(
          rest.token ? { token: rest.token } : { credentials: fromPayload(rest.credentials) as Data },
        );
        return { success: true, userID: userId, extra, expiresAt: expiresAt && +expiresAt / 1000 };
      }
      default:
        return this.#core.ask(event, asked, {
          once: true,
          moreMs: (asked.timeout ?? asked.wait ?? 0) * 1000,
        });
    }
  }

  #put({ reqID, ...item }: Wire): void {
    const answered = reqID && ((result: Wire) => {
      const { error, ...more } = result;
      this.tell("Ack", { published: [{ ...more, reqID, ...(error && { error: plain(error) }) }] });
    }); // biome-ignore format: dense
    try {
      this.#core.put(item, answered);
    } catch (error) {
      answered?.({ error });
    }
  }

  /** Answered together; what a channel brings before its confirmation waits for that. */
  async #subscribeAll(requests: Wire[]): Promise<Wire> {
    const found = await Promise.all(requests.map((each) => this.#subscribe(each)));
    const of = (kind: string) => found.flatMap((each) => each[kind] ?? []);
    const begin = () => {
      for (const each of found) each.begin?.();
    };
    return { channels: of("channels"), patterns: of("patterns"), failures: of("failures"), begin };
  }

  async #subscribe({ channel, serial, epoch, timestamp, byPattern, presence }: Wire): Promise<Wire> {
    if (byPattern) return {}; // told when its pattern brings a message
    void this.#subscriptions.get(channel)?.unsubscribe();
    let waiting: Wire[] | undefined = [];
    const pattern = /[*#]/.test(channel);
    const known = new Set<string>();
    const hand = (message: Wire) => {
      const { wire, gap } = message;
      const before = { channel: wire.channel, epoch: message.epoch, serial: String(Number(wire.channelSerial ?? 1) - 1) };
      if (pattern && !known.has(wire.channel)) {
        known.add(wire.channel);
        this.tell("Subscribe", { channels: [{ ...before, recovered: true }] });
      }
      if (gap && wire.channelSerial) this.tell("ChannelReset", before);
      this.tell("Publish", wire);
    }; // biome-ignore format: dense
    const filter = this.#filters.get(channel);
    const subscription = this.#core.subscribe<Data>(
      channel,
      (message) => (waiting ? waiting.push(message) : hand(message)),
      {
        ...(timestamp ? { since: new Date(timestamp) } : serial && { since: `${serial}.${epoch ?? ""}` }),
        ...(filter && { filter }),
        presence,
      },
    );
    this.#subscriptions.set(channel, subscription);
    let at: string;
    try {
      at = await subscription.ready;
    } catch (error) {
      this.#subscriptions.delete(channel);
      return { failures: [{ channel, error: plain(error as HubbubError) }] };
    }
    const begin = () => {
      const held = waiting ?? [];
      waiting = undefined;
      for (const message of held) hand(message);
      this.#tellState(channel, subscription);
    };
    if (pattern) return { patterns: [{ pattern: channel, recovered: true }], begin };
    const dot = at.indexOf(".");
    const now = { channel, serial: at.slice(0, dot), epoch: at.slice(dot + 1) };
    return { channels: [{ ...now, recovered: !epoch || epoch === now.epoch }], begin };
  }

  /** What the hub tells who comes first, for who comes later. */
  #tellState(channel: string, { members, occupancy }: Subscription<Data>): void {
    if (occupancy !== undefined) this.tell("Occupancy", { channel, count: occupancy });
    if (members.size) {
      const wire = ({ sessionId, userId, extra, data, since }: Member) => ({ sessionID: sessionId, userID: userId, extra, data, ts: +since });
      this.tell("Presence", { channel, presence: [...members.values()].map(wire) });
    }
  } // biome-ignore format: dense
}

/** Errors do not survive the way between tabs. */
function plain({ code, message, retry, retryAfter }: HubbubError): Wire {
  return { code: code ?? "internal", message, retry: retry ?? false, retryAfter };
}
