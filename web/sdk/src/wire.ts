/** Payloads, messages and positions, between the application and the wire. */

import { HubbubError } from "./errors.ts";
import type {
  Codec,
  Envelope,
  Gap,
  Member,
  Message,
  Position,
  PublishOptions,
  Since,
  Wire,
} from "./types.ts";

/** Bytes inside of an envelope: base64 in JSON, themselves in protobuf. */
export class Bytes {
  readonly bytes: Uint8Array;
  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
  toJSON(): string {
    let text = "";
    for (let i = 0; i < this.bytes.length; i += 0x8000) {
      text += String.fromCharCode(...this.bytes.subarray(i, i + 0x8000));
    }
    return btoa(text);
  }
}

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

/** That nobody else has. `crypto.randomUUID` is missing on pages without TLS. */
export function newId(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join("-");
}

/** `{json}`, `{text}` or `{base64}`. */
export function toPayload(data: unknown, contentType?: string): Wire {
  if (data instanceof Uint8Array) return { base64: new Bytes(data) };
  if (data instanceof ArrayBuffer) return { base64: new Bytes(new Uint8Array(data)) };
  if (typeof data === "string" && !contentType?.includes("json")) return { text: data };
  if (data === undefined || typeof data === "function" || typeof data === "symbol") {
    throw new HubbubError("invalid_payload", `data must be JSON, a text or bytes, not ${typeof data}`);
  }
  return { json: data };
}

export function fromPayload(payload: Wire): unknown {
  if (payload == null) return new Uint8Array();
  if (payload.json !== undefined) return payload.json;
  if (payload.text !== undefined) return payload.text;
  const { base64 } = payload;
  if (typeof base64 === "string") {
    payload.base64 = fromBase64(base64);
    return payload.base64;
  }
  return base64 ?? new Uint8Array();
}

export const jsonCodec: Codec = {
  subprotocol: "hubbub.json.v1",
  encode: (envelopes) => envelopes.map(([event, payload]) => JSON.stringify({ event, payload })).join("\n"),
  decode(data) {
    const found: Envelope[] = [];
    for (const line of (data as string).split("\n")) {
      const { event, payload } = JSON.parse(line);
      found.push([event, payload ?? {}]);
    }
    return found;
  },
};

// biome-ignore format: one line
const ATTRIBUTES = ["subtype", "author", "sender", "receiver", "refersTo", "priority", "ttl", "language", "location", "headers", "deliveryPolicy"] as const;
const FLAGS = ["store", "retain", "push", "transient", "pushOptions"] as const;

/** An item of `Publish`, without its `reqID`. Throws `invalid_payload`. */
export function publishItem(channel: string, data: unknown, options: PublishOptions = {}): Wire {
  const { event = "", contentType, conversation, relevantUntil, securityToken } = options;
  const item: Wire = { channel, event, payload: toPayload(data, contentType) };
  if (contentType) item.contentType = contentType;
  if (conversation !== undefined) item.conversationID = conversation;
  if (relevantUntil !== undefined) item.relevantUntil = +relevantUntil;
  if (securityToken !== undefined) item.securityToken = securityToken;
  for (const name of ATTRIBUTES) if (options[name] !== undefined) item[name] = options[name];
  for (const name of FLAGS) if (options[name]) item.extra = { ...item.extra, [name]: options[name] };
  return item;
}

export function toError(error: Wire, details?: Record<string, unknown>): HubbubError {
  const { code, message, retry, retryAfter } = error;
  return new HubbubError(code, message, { retry, retryAfter, details });
}

export function position(epoch: string | undefined, serial: number | undefined): Position | undefined {
  return serial === undefined ? undefined : `${serial}.${epoch ?? ""}`;
}

/** What `since` means on the wire: a serial with its epoch, or a time. */
export function readSince(since: Since): { serial?: number; epoch?: string; time?: number } {
  if (since instanceof Date) return { time: +since };
  if (since === "start") return { serial: 0 };
  const match = /^(\d+)\.(.*)$/.exec(since);
  if (!match)
    throw new HubbubError("bad_request", `${JSON.stringify(since)} is no position; use one of a message`);
  return match[2] ? { serial: Number(match[1]), epoch: match[2] } : { serial: Number(match[1]) };
}

/** Fields that the wire has by the same names. */
export interface Delivered<T> extends Pick<Message<T>, (typeof ATTRIBUTES)[number]> {}
/** A message: what the wire brought, read when it is asked for. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: the static block defines those of the interface
export class Delivered<T> implements Message<T> {
  static {
    for (const name of ATTRIBUTES)
      Object.defineProperty(Delivered.prototype, name, {
        get() {
          return this.wire[name];
        },
      });
  }
  /** @internal */
  readonly wire: Wire;
  /** @internal */
  readonly epoch: string | undefined;
  gap: Gap | undefined;

  constructor(wire: Wire, epoch?: string) {
    this.wire = wire;
    this.epoch = epoch;
    this.gap = undefined;
  }

  get id(): string {
    return this.wire.msgID;
  }
  get channel(): string {
    return this.wire.channel;
  }
  get event(): string {
    return this.wire.event ?? "";
  }
  get data(): T {
    return fromPayload(this.wire.payload) as T;
  }
  get contentType(): string {
    const { contentType, payload } = this.wire;
    if (contentType) return contentType;
    if (payload?.json !== undefined) return "application/json";
    return payload?.text !== undefined ? "text/plain" : "application/octet-stream";
  }
  get at(): Date {
    return new Date(this.wire.ts);
  }
  get serial(): bigint | undefined {
    const { channelSerial } = this.wire;
    return channelSerial && BigInt(channelSerial);
  }
  get position(): Position | undefined {
    const { channelSerial } = this.wire;
    return channelSerial && `${channelSerial}.${this.epoch ?? ""}`;
  }
  get publisher(): string | undefined {
    return this.wire.publisher;
  }
  get retained(): boolean {
    return this.wire.retained ?? false;
  }
  get conversation(): string | undefined {
    return this.wire.conversationID;
  }
  get relevantUntil(): Date | undefined {
    return date(this.wire.relevantUntil);
  }

  toJSON(): Record<string, unknown> {
    const { serial, gap, data } = this;
    const { msgID, channel, event, payload: _, ts, channelSerial: __, ...rest } = this.wire;
    return { id: msgID, channel, event, data, at: this.at, serial: serial && String(serial), gap, ...rest };
  }
}

export function date(ms: number | undefined): Date | undefined {
  return ms === undefined ? undefined : new Date(ms);
}

/** Of a session; on the wire in seconds. */
export function endOf({ expiresAt }: Wire): Date | undefined {
  return date(expiresAt && expiresAt * 1000);
}

export function member(wire: Wire): Member {
  return {
    sessionId: wire.sessionID,
    userId: wire.userID,
    extra: wire.extra ?? {},
    data: wire.data,
    since: new Date(wire.ts),
  };
}
