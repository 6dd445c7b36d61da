/** The public types of the SDK. Times on the wire are milliseconds; here they are `Date`s. */

import type { HubbubError } from "./errors.ts";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Data = Json | Uint8Array;
export type Unlisten = () => void;
/** A place in a channel: opaque, and fit to be stored. */
export type Position = string;
export type Since = Position | Date | "start";

export interface Signal {
  signal?: AbortSignal;
}

export interface Session {
  id: string;
  hub: string;
  authenticated: boolean;
  userId?: string;
  /** It is the session of the connection before. */
  restored: boolean;
  expiresAt?: Date;
  /** What the token or the auth provider says about the user. */
  extra: Record<string, Json>;
  /** The largest frame that the hub takes. */
  maxMessageBytes?: number;
  maxChannels?: number;
  messagesPerSecond?: number;
}

export type State = "idle" | "connecting" | "connected" | "waiting" | "closed";

export interface Gap {
  channel: string;
  reason: string;
}

export interface Events {
  /** `transport`: what the connection is, or will be, made of: `websocket` or `sse`. */
  state: { state: State; transport: string; error?: HubbubError; retryInMs?: number };
  connected: Session;
  gap: Gap;
  /** A subscription ends because the hub takes away the access that it had. */
  accessLost: { channel: string; error: HubbubError };
  /** What a function of the application threw; a `HubbubError` where the hub refuses a subscription (`details.channel`). */
  error: unknown;
}

export type TokenReason = "start" | "expiring" | "refused";

export interface Proof {
  token?: string | ((why: TokenReason) => string | Promise<string>);
  credentials?: Data | (() => Data | Promise<Data>);
}

export interface Options extends Proof {
  hub: string;
  codec?: Codec;
  /** In the order in which they are tried; where none is given, a WebSocket, then server-sent events. */
  transports?: Transport[];
  /** Where the key to the session is kept: `tab` survives a reload. */
  restore?: "memory" | "tab" | false;
  hidden?: "stay" | { leaveAfterMs: number };
  /** Tells the client about its surroundings, where they are no page. */
  lifecycle?: (life: Lifecycle) => Unlisten;
  backoff?: { firstMs?: number; longestMs?: number; stableMs?: number };
  /** How long an answer may take: the hub's, and that of the functions for tokens and credentials. */
  requestMs?: number;
  /** What waits for a connection. */
  maxQueued?: { messages: number; bytes: number };
}

/** What a client wants to hear of the page or application that it lives in. */
export interface Lifecycle {
  /** The network or the page is back: look at the connection. */
  wake(): void;
  /** The connection may be gone. */
  doubt(): void;
  /** The page is hidden for long (`false`), or goes away (`true`). `returns`: it may come back as it is, as from the back/forward
   * cache; the hub shows its session as present meanwhile, for half a minute. */
  leave(forGood: boolean, returns?: boolean): void;
}

/** One event of the protocol: its name, and its payload as JSON has it. */
export type Envelope = [event: string, payload: Wire];
// biome-ignore lint/suspicious/noExplicitAny: what the wire brings is checked where it is used
export type Wire = any;

/** How envelopes are written on a connection. */
export interface Codec {
  readonly subprotocol: string;
  encode(envelopes: Envelope[]): string | Uint8Array<ArrayBuffer>;
  /** Throws what it cannot read. */
  decode(data: string | ArrayBuffer): Envelope[];
}

/** A connection, as a transport opens it. */
export interface Link {
  /** False: the frame is larger than the hub takes, and nothing was sent. */
  send(envelopes: Envelope[], maxBytes: number): boolean;
  /** Bytes that wait to be sent. */
  readonly buffered: number;
  /** `returns`: the client is likely to restore the session soon. */
  close(returns?: boolean): void;
}

export interface LinkEvents {
  receive(envelopes: Envelope[]): void;
  /** Exactly once, also after `close()`. `code` is that of the WebSocket, 0 where there is none. */
  ended(code: number, reason: string): void;
}

export interface Transport {
  readonly name: string;
  open(
    base: URL,
    hub: string,
    codec: Codec,
    /** Empty: `Auth` with credentials follows. */
    token: () => Promise<string | undefined>,
    events: LinkEvents,
  ): Link;
}

/** The rarer fields of a message's envelope. */
export interface Attributes {
  subtype?: string;
  author?: string;
  sender?: string;
  receiver?: string;
  conversation?: string;
  /** The id of the message that this one answers. */
  refersTo?: string;
  /** 0 (lowest) to 5. */
  priority?: number;
  relevantUntil?: Date;
  /** Milliseconds. */
  ttl?: number;
  language?: string;
  location?: { [key: string]: Json };
  headers?: { [key: string]: Json };
  deliveryPolicy?: string;
}

export interface PublishOptions extends Attributes {
  event?: string;
  contentType?: string;
  store?: boolean;
  retain?: boolean;
  push?: boolean;
  transient?: boolean;
  pushOptions?: { [key: string]: Json };
  securityToken?: string;
}

export interface Receipt {
  id: string;
  serial?: bigint;
  /** The hub had this put already. */
  duplicate: boolean;
}

export interface Message<T = Json> extends Attributes {
  readonly id: string;
  readonly channel: string;
  readonly event: string;
  readonly data: T;
  readonly contentType: string;
  readonly at: Date;
  readonly serial?: bigint;
  readonly position?: Position;
  readonly publisher?: string;
  /** Sent because it was retained, not because it is new. */
  readonly retained: boolean;
  /** Messages are missing right before this one. */
  readonly gap?: Gap;
  toJSON(): Record<string, unknown>;
}

export interface Page<T> {
  messages: Message<T>[];
  /** There is another page in the same direction: `next` is its bound. */
  more: boolean;
  next?: Position;
  /** False: something that was asked for is no longer there. */
  recovered: boolean;
}

export interface Member {
  sessionId: string;
  userId?: string;
  extra: Record<string, Json>;
  /** What the member gave to `subscribe({ presence })`. */
  data?: { [key: string]: Json };
  since: Date;
}

/** What a subscription wants of its channel: docs/protocol.md, Filters. */
export interface Filter {
  template?: { [key: string]: Json };
  /** Metres around `template.location`. */
  radius?: number;
  relevant?: boolean;
  condition?: { [operator: string]: Json };
}

export interface SubscribeOptions extends Signal {
  since?: Since;
  filter?: Filter;
  /** What presence shows of this client in the channel; that of the first subscription counts. */
  presence?: { [key: string]: Json };
  /** `throw`: iterating throws `messages_lost` once, then goes on. */
  onGap?: "mark" | "throw";
  /** Messages that wait to be iterated over; beyond that they are fetched from history later. */
  buffer?: number;
}

export interface Subscription<T> extends AsyncIterable<Message<T>>, AsyncDisposable {
  /** The hub confirmed. */
  readonly ready: Promise<Position>;
  /** Of the last message that was handed over. */
  readonly position: Position | undefined;
  readonly members: ReadonlyMap<string, Member>;
  readonly occupancy: number | undefined;
  on(type: "presence" | "occupancy" | "gap", f: () => void): Unlisten;
  unsubscribe(): Promise<void>;
}

export interface Channel<T extends Data = Json> {
  readonly name: string;
  subscribe(options?: SubscribeOptions): Subscription<T>;
  subscribe(f: (message: Message<T>) => unknown, options?: SubscribeOptions): Subscription<T>;
  /** Waits for the hub's acknowledgement. */
  publish(data: T, options?: PublishOptions): Promise<Receipt>;
  /** Without an acknowledgement. */
  send(data: T, options?: PublishOptions): void;
  history(options?: { after?: Since; before?: Since; limit?: number; filter?: Filter }): Promise<Page<T>>;
  presence(): Promise<Member[]>;
}
