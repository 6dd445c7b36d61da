/** The client as applications see it. */

import { Core } from "./core.ts";
import { HubbubError } from "./errors.ts";
import type {
  Channel,
  Data,
  Events,
  Filter,
  Json,
  Member,
  Message,
  Options,
  Page,
  Proof,
  PublishOptions,
  Receipt,
  Session,
  Signal,
  Since,
  State,
  SubscribeOptions,
  Subscription,
  Unlisten,
  Wire,
} from "./types.ts";
import { Delivered, fromPayload, member, publishItem, readSince, toPayload } from "./wire.ts";

/** For the features of this SDK: the connection behind a client. */
export const CORE: unique symbol = Symbol.for("hubbub.core") as never;

/** Dials, and returns at once. */
export function connect(url: string | URL, options: Options): Client {
  const client = new Client(url, options);
  client.connect();
  return client;
}

export class Client implements AsyncDisposable {
  /** @internal */
  readonly [CORE]: Core;

  constructor(url: string | URL, options: Options) {
    this[CORE] = new Core(url, options);
  }

  get state(): State {
    return this[CORE].state;
  }
  get session(): Session | undefined {
    return this[CORE].session;
  }
  /** What the connection is, or will be, made of: `websocket`, or `sse` where no WebSocket gets through. */
  get transport(): string {
    return this[CORE].transport;
  }
  /** The session, as soon as there is one. Rejects with `client_closed`. */
  get ready(): Promise<Session> {
    return this[CORE].connected().then(() => this[CORE].session!);
  }
  /** Messages that wait to be sent. */
  get queued(): number {
    return this[CORE].queue.length;
  }

  on<K extends keyof Events>(type: K, f: (event: Events[K]) => void, options: Signal = {}): Unlisten {
    const unlisten = this[CORE].on(type, f);
    options.signal?.addEventListener("abort", unlisten, { once: true });
    return unlisten;
  }

  channel<T extends Data = Json>(name: string): Channel<T> {
    return new ChannelOf<T>(this[CORE], name);
  }

  /** Call a method of a service. Never repeated: `connection_lost` leaves open whether it was carried out. */
  async call<R = Json>(
    method: string,
    data: Data = null,
    options: Signal & { timeoutMs?: number } = {},
  ): Promise<R> {
    const { timeoutMs, signal } = options;
    const more = timeoutMs === undefined ? {} : { timeout: timeoutMs / 1000 };
    const answer = await this[CORE].ask(
      "RPC",
      { method, payload: toPayload(data), ...more },
      { once: true, moreMs: timeoutMs ?? 30_000, signal },
    );
    return fromPayload(answer.payload) as R;
  }

  /** Hand an event to a stream; answers its id. */
  async submit(stream: string, data: Data, event = ""): Promise<string> {
    const answer = await this[CORE].ask(
      "StreamEnqueue",
      { stream, event, payload: toPayload(data) },
      { once: true },
    );
    return answer.msgID;
  }

  /** Say who this is, on the same connection. */
  authenticate(proof: Proof): Promise<Session> {
    return this[CORE].authenticate(proof);
  }

  /** Connect again after `disconnect()`. */
  connect(): void {
    this[CORE].start();
  }

  /** Leave until `connect()`. Subscriptions stay and go on from where they are. */
  async disconnect(): Promise<void> {
    this[CORE].stop();
  }

  /** Send what waits, if there is a connection, and leave for good. */
  close(): Promise<void> {
    return this[CORE].close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

class ChannelOf<T extends Data> implements Channel<T> {
  readonly name: string;
  readonly #core: Core;

  constructor(core: Core, name: string) {
    this.#core = core;
    this.name = name;
  }

  subscribe(
    first?: SubscribeOptions | ((message: Message<T>) => unknown),
    second?: SubscribeOptions,
  ): Subscription<T> {
    const call = typeof first === "function" ? first : undefined;
    return this.#core.subscribe<T>(this.name, call, second ?? (typeof first === "object" ? first : {}));
  }

  async publish(data: T, options?: PublishOptions): Promise<Receipt> {
    return this.#core.publish(publishItem(this.name, data, options));
  }

  send(data: T, options?: PublishOptions): void {
    this.#core.put(publishItem(this.name, data, options));
  }

  async history(
    options: { after?: Since; before?: Since; limit?: number; filter?: Filter } = {},
  ): Promise<Page<T>> {
    const { after, before, limit, filter } = options;
    if (after !== undefined && before !== undefined)
      throw new HubbubError("bad_request", "give `after` or `before`, not both");
    const query: Wire = { channel: this.name, limit, filter };
    const since = after ?? before;
    if (since !== undefined) {
      const { serial, epoch, time } = readSince(since);
      const bound = before === undefined ? "after" : "before";
      Object.assign(
        query,
        time === undefined ? { [bound]: String(serial), epoch } : { [`${bound}Time`]: time },
      );
    }
    const page = await this.#core.page(query);
    const messages = (page.messages as Wire[]).map((wire) => new Delivered<T>(wire, page.epoch));
    const end = messages.at(after === undefined ? 0 : -1)?.position;
    const next = page.next === undefined ? end : `${page.next}.${page.epoch}`;
    return { messages, more: page.more ?? false, next, recovered: page.recovered ?? false };
  }

  async presence(): Promise<Member[]> {
    const answer = await this.#core.ask("Presence", { channel: this.name });
    return (answer.presence ?? []).map(member);
  }
}
