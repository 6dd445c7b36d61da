/** A channel as this client follows it, and the subscriptions that share it. */

import { HubbubError } from "./errors.ts";
import { Tracker } from "./tracker.ts";
import type {
  Filter,
  Gap,
  Member,
  Message,
  Position,
  Since,
  SubscribeOptions,
  Subscription,
  Unlisten,
  Wire,
} from "./types.ts";
import { Delivered, member, position, readSince } from "./wire.ts";

const BUFFER = 1000;

/** The client, as its feeds and subscriptions see it. */
export interface FeedOwner {
  /** Nobody follows the feed any more. */
  release(feed: Feed): void;
  page(query: Wire): Promise<Wire>;
  noteGap(gap: Gap): void;
  readonly report: (error: unknown) => void;
}

/** One subscription on the wire. A feed of a pattern hands on what the feeds of matching channels get. */
export class Feed {
  readonly name: string;
  readonly tracker: Tracker;
  readonly filter: Filter | undefined;
  /** Of a pattern: which names match. */
  readonly matches: RegExp | undefined;
  /** The pattern because of which the channel is followed, where it was not asked for by its name. */
  readonly byPattern: boolean;
  // biome-ignore lint/suspicious/noExplicitAny: the application says what its channels carry
  readonly subscriptions = new Set<Reader<any>>();
  /** Patterns that match the channel. */
  patterns: Feed[] = [];
  readonly members = new Map<string, Member>();
  occupancy: number | undefined;
  presence: SubscribeOptions["presence"];
  /** It was asked for on this connection. */
  requested = false;
  /** The newest request for it. */
  asked = 0;
  linger: ReturnType<typeof setTimeout> | undefined;
  /** Of a pattern: when its newest message was published (ms). */
  newest: number | undefined;
  readonly #owner: FeedOwner;
  #gap: Gap | undefined;

  constructor(owner: FeedOwner, name: string, since?: Since, filter?: Filter, byPattern = false) {
    this.#owner = owner;
    this.name = name;
    this.filter = filter;
    this.byPattern = byPattern;
    this.tracker = new Tracker(name, since === undefined ? {} : readSince(since));
    this.matches = isPattern(name) ? toRegExp(name) : undefined;
    this.newest = this.matches && this.tracker.time;
  }

  /** The item of `Subscribe`. */
  request(): Wire {
    if (this.matches) return { channel: this.name, ...(this.newest && { timestamp: this.newest }) };
    const request = this.tracker.request();
    if (this.presence) request.presence = this.presence;
    return this.byPattern ? { ...request, byPattern: true } : request;
  }

  /** The item of `Subscribe` with which the hub says again what it says to a new subscription. */
  join(): Wire {
    return { channel: this.name, ...(this.presence && { presence: this.presence }) };
  }

  /** Answers whether the messages from here on must be asked for again. */
  deliver(wire: Wire): boolean {
    const verdict = this.tracker.judge(wire);
    if (verdict === "drop") {
      if (wire.retained) for (const each of this.subscriptions) each.retained(wire, this.tracker.epoch);
      return false;
    }
    if (verdict === "recover") return true;
    if (verdict === "lost") this.note(this.tracker.skip(wire));
    const message = new Delivered<unknown>(wire, this.tracker.epoch);
    if (this.#gap) {
      message.gap = this.#gap;
      this.#gap = undefined;
    }
    for (const each of this.subscriptions) each.deliver(message);
    for (const pattern of this.patterns) {
      pattern.newest = wire.ts;
      for (const each of pattern.subscriptions) each.deliver(message);
    }
    return false;
  }

  confirm(confirmed: Wire): void {
    this.note(this.tracker.confirm(confirmed));
    this.confirmAll();
  }

  confirmAll(): void {
    for (const each of this.subscriptions) each.confirm(this.position!);
  }

  confirmPattern(confirmed: Wire): void {
    this.newest ??= Date.now();
    this.tracker.began = true;
    if (!confirmed.recovered) this.note({ channel: this.name, reason: "channels may have come and gone" });
    for (const each of this.subscriptions) each.confirm("");
  }

  get position(): Position | undefined {
    return position(this.tracker.epoch, this.tracker.serial);
  }

  note(gap: Gap | undefined): void {
    if (!gap) return;
    this.#gap = gap;
    this.#owner.noteGap(gap);
    this.tell("gap");
  }

  present(event: string, payload: Wire): void {
    if (event === "Occupancy") {
      this.occupancy = payload.count ?? 0;
      this.tell("occupancy");
      return;
    }
    if (event === "Presence") this.members.clear();
    for (const each of payload.presence ?? []) {
      if (event === "Leave") this.members.delete(each.sessionID);
      else this.members.set(each.sessionID, member(each));
    }
    this.tell("presence");
  }

  tell(type: "presence" | "occupancy" | "gap"): void {
    for (const feed of [this, ...this.patterns]) for (const each of feed.subscriptions) each.tell(type);
  }

  finish(error?: HubbubError): void {
    clearTimeout(this.linger);
    for (const each of this.subscriptions) each.finish(error);
    this.subscriptions.clear();
  }
}

/** One more that listens to `type`. */
export function addTo<F>(all: Map<string, Set<F>>, type: string, f: F): Unlisten {
  const listeners = all.get(type) ?? new Set();
  all.set(type, listeners.add(f));
  return () => void listeners.delete(f);
}

/** Call functions of the application: what one of them throws is told, and harms no other. */
export function tell<A extends unknown[]>(
  functions: Iterable<(...args: A) => void> | undefined,
  report: (error: unknown) => void,
  ...args: A
): void {
  for (const f of functions ?? []) {
    try {
      f(...args);
    } catch (error) {
      report(error);
    }
  }
}

export function isPattern(name: string): boolean {
  return /[*#]/.test(name);
}

/** `*` matches anything, `#` one segment between colons. */
function toRegExp(pattern: string): RegExp {
  const parts = pattern.split(/([*#])/).map((part) => {
    if (part === "*") return "[^]*";
    return part === "#" ? "[^:]+" : part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&");
  });
  return new RegExp(`^${parts.join("")}$`);
}

interface Behind {
  serial?: number;
  epoch?: string;
  time?: number;
}

/** A subscription of the application: calls a function, or is iterated over. */
export class Reader<T> implements Subscription<T> {
  readonly ready: Promise<Position>;
  #position: Position | undefined;
  /** Handed over last, of those with a place in the channel. */
  #last: Delivered<T> | undefined;
  readonly #feed: Feed;
  readonly #owner: FeedOwner;
  readonly #call: ((message: Message<T>) => unknown) | undefined;
  readonly #limit: number;
  readonly #throws: boolean;
  readonly #listeners = new Map<string, Set<() => void>>();
  #queue: Delivered<T>[] = [];
  #head = 0;
  #gap: Gap | undefined;
  #thrown: Gap | undefined;
  /** Where this subscription is, while it reads history instead of the live feed. */
  #behind: Behind | undefined;
  #catching = false;
  #ended = false;
  #error: unknown;
  #wake: (() => void) | undefined;
  /** It joined a feed that others have begun: ids of messages that came before the retained one, which may be among them. */
  joined: Set<string> | undefined;
  #told = false;
  #confirmed!: (position: Position) => void;
  #refused!: (error: unknown) => void;

  constructor(
    feed: Feed,
    owner: FeedOwner,
    call: ((message: Message<T>) => unknown) | undefined,
    options: SubscribeOptions,
    joins: boolean,
  ) {
    this.#feed = feed;
    this.#owner = owner;
    this.#call = call;
    this.#limit = options.buffer ?? BUFFER;
    this.#throws = options.onGap === "throw";
    this.ready = new Promise((resolve, reject) => {
      this.#confirmed = resolve;
      this.#refused = reject;
    });
    this.ready.catch(() => {}); // who only iterates learns it there
    feed.subscriptions.add(this);
    if (joins && feed.tracker.began) {
      this.confirm(feed.position ?? "");
      this.#told = false;
      if (!feed.matches && options.since === undefined) this.joined = new Set();
    }
    if (joins && options.since !== undefined) {
      this.#behind = readSince(options.since);
      void this.#catchUp();
    }
    options.signal?.addEventListener("abort", () => void this.unsubscribe(), { once: true });
    if (options.signal?.aborted) void this.unsubscribe();
  }

  get position(): Position | undefined {
    return this.#last?.position ?? this.#position;
  }
  get members(): ReadonlyMap<string, Member> {
    return this.#feed.members;
  }
  get occupancy(): number | undefined {
    return this.#feed.occupancy;
  }

  on(type: "presence" | "occupancy" | "gap", f: () => void): Unlisten {
    return addTo(this.#listeners, type, f);
  }

  async unsubscribe(): Promise<void> {
    if (this.#ended) return;
    this.#feed.subscriptions.delete(this);
    this.finish();
    if (!this.#feed.subscriptions.size) this.#owner.release(this.#feed);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.unsubscribe();
  }

  [Symbol.asyncIterator](): AsyncIterator<Message<T>, undefined> {
    return {
      next: async () => {
        for (;;) {
          const message = this.#queue[this.#head];
          if (message) return this.#shift(message);
          if (this.#ended) {
            if (this.#error) throw this.#error;
            return { done: true, value: undefined };
          }
          if (this.#behind) void this.#catchUp();
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
      },
      return: async () => {
        await this.unsubscribe();
        return { done: true, value: undefined };
      },
    };
  }

  #shift(message: Delivered<T>): IteratorResult<Message<T>, undefined> {
    if (this.#throws && message.gap && message.gap !== this.#thrown) {
      this.#thrown = message.gap; // once; the message comes next
      throw new HubbubError(
        "messages_lost",
        `messages of '${message.channel}' were lost: ${message.gap.reason}`,
      );
    }
    this.#head++;
    if (this.#head > 256 && this.#head * 2 > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#head);
      this.#head = 0;
    }
    this.#handed(message);
    return { done: false, value: message };
  }

  // -- for the feed

  confirm(position: Position): void {
    this.#position ??= position || undefined;
    this.#told = true;
    this.#confirmed(position);
  }

  /** Others have had it. */
  retained(wire: Wire, epoch: string | undefined): void {
    if (!this.joined) return;
    if (!this.joined.has(wire.msgID)) this.#hand(new Delivered<T>(wire, epoch));
    this.joined = undefined;
  }

  deliver(message: Delivered<T>): void {
    // The retained message follows the confirmation: where another one does, there is none.
    if (this.joined) this.joined = this.#told ? undefined : this.joined.add(message.id);
    if (this.#behind) {
      if (!message.wire.channelSerial) this.#lose("the application was slower than the channel");
    } else if (this.#call) this.#hand(message);
    else if (this.#queue.length - this.#head < this.#limit) this.#hand(message);
    else if (this.#feed.matches || !message.wire.channelSerial)
      this.#lose("the application was slower than the channel");
    else this.#behind = { serial: Number(message.wire.channelSerial) - 1, epoch: message.epoch };
  }

  tell(type: string): void {
    tell(this.#listeners.get(type), this.#owner.report);
  }

  finish(error?: HubbubError): void {
    this.#ended = true;
    this.#error = error;
    this.#refused(
      error ?? new HubbubError("client_closed", "the subscription was closed before the hub confirmed it"),
    );
    this.#wake?.();
  }

  #hand(message: Delivered<T>): void {
    if (this.#gap) {
      message = new Delivered<T>(message.wire, message.epoch);
      message.gap = this.#gap;
      this.#gap = undefined;
    }
    if (!this.#call) {
      this.#queue.push(message);
      this.#wake?.();
      return;
    }
    this.#handed(message);
    try {
      const result = this.#call(message) as PromiseLike<unknown> | undefined;
      if (typeof result === "object") this.#watch(result);
    } catch (error) {
      this.#owner.report(error);
    }
  }

  /** The position is made of the message only when someone asks for it. */
  #handed(message: Delivered<T>): void {
    if (message.wire.channelSerial) this.#last = message;
  }

  #lose(reason: string): void {
    const gap = { channel: this.#feed.name, reason };
    if (this.#gap?.reason === reason) return;
    this.#gap = gap;
    this.#owner.noteGap(gap);
    this.tell("gap");
  }

  /** Read history until the live feed is reached. */
  async #catchUp(): Promise<void> {
    if (this.#catching) return;
    this.#catching = true;
    try {
      while (this.#behind && !this.#ended && (this.#call || this.#queue.length - this.#head < this.#limit)) {
        const { serial, epoch, time } = this.#behind;
        const after =
          time === undefined ? { after: String(serial ?? 0), ...(epoch && { epoch }) } : { afterTime: time };
        const page = await this.#owner.page({
          channel: this.#feed.name,
          ...after,
          ...(this.#feed.filter && { filter: this.#feed.filter }),
        });
        if (!page.recovered) this.#lose("the hub no longer has them");
        for (const wire of page.messages) this.#hand(new Delivered<T>(wire, page.epoch));
        const last = page.next ?? page.messages.at(-1)?.channelSerial;
        const reached = Number(page.more && last ? last : page.head);
        const live = this.#feed.tracker.serial ?? 0;
        this.#behind =
          page.more || (page.messages.length && live > reached)
            ? { serial: reached, epoch: page.epoch }
            : undefined;
      }
    } catch (error) {
      if (!this.#ended) {
        this.#behind = undefined;
        this.#lose(`history could not be read: ${(error as Error).message}`);
      }
    } finally {
      this.#catching = false;
    }
  }

  #watch(result: PromiseLike<unknown>): void {
    result?.then?.(undefined, (error: unknown) => this.#owner.report(error));
  }
}
