/** The protobuf encoding of the protocol: smaller frames, bytes as they are. */

import type { Codec, Envelope, Json, Wire } from "./index.ts";
import { Bytes, fromBase64 } from "./internals.ts";
import { ATTRIBUTES, EVENTS, MESSAGES } from "./schema.ts";

interface Field {
  name: string;
  kind: string;
  /** Of a message: which one. */
  message: number;
  number: number;
  optional: boolean;
  repeated: boolean;
}

interface Message {
  fields: Field[];
  byNumber: Field[];
}

interface EventRow {
  name: string;
  number: number;
  asked: Message;
  told: Message;
}

const utf8 = /* @__PURE__ */ new TextEncoder();
const text = /* @__PURE__ */ new TextDecoder("utf-8", { fatal: true });

export function protobuf(): Codec {
  const messages = MESSAGES.split("\n").map(readMessage);
  const byName = new Map<string, EventRow>();
  const byNumber: EventRow[] = [];
  for (const line of EVENTS.split("\n")) {
    const [name, number, asked, told] = line.split(" ") as [string, string, string, string];
    const row = {
      name,
      number: +number,
      asked: messages[+asked]!,
      told: messages[+told]!,
    };
    byName.set(name, row);
    byNumber[row.number] = row;
  }
  return {
    subprotocol: "hubbub.proto.v1",
    encode(envelopes) {
      const out = new Writer(messages);
      for (const [event, payload] of envelopes) {
        const { number, asked } = byName.get(event)!;
        out.block(1, () => {
          out.tag(1, 0);
          out.varint(number);
          out.block(2, () => out.message(asked, payload));
        });
      }
      return out.finish();
    },
    decode(data) {
      const bytes = new Uint8Array(data as ArrayBuffer);
      const reader = new Reader(bytes, messages);
      const found: Envelope[] = [];
      while (reader.at < bytes.length) {
        reader.varint(); // field 1 of a Frame
        const end = reader.varint() + reader.at;
        let row: EventRow | undefined;
        let payload: Wire = {};
        while (reader.at < end) {
          const tag = reader.varint();
          if (tag === 8) row = byNumber[reader.varint()];
          else if (tag === 18 && row) payload = reader.message(row.told, reader.varint() + reader.at);
          else reader.skip(tag & 7);
        }
        if (row) found.push([row.name, payload]);
      }
      return found;
    },
  };
}

function readMessage(line: string): Message {
  const byNumber: Field[] = [];
  let at = 0;
  const fields = (line ? line.split(",") : []).map((each): Field => {
    const [, name, kind, message, optional, many, step] = /^(\w+) ?(?:(\w)|<(\d+)>)?(\??)(\*?)(\d*)$/.exec(
      each,
    )!;
    at += +(step || 1);
    const field = {
      name: name!,
      kind: kind ?? (message ? "m" : "s"),
      message: +message!,
      number: at,
      optional: !!optional,
      repeated: !!many,
    };
    byNumber[at] = field;
    return field;
  });
  return { fields, byNumber };
}

class Writer {
  #bytes = new Uint8Array(256);
  #at = 0;
  readonly #messages: Message[];

  constructor(messages: Message[]) {
    this.#messages = messages;
  }

  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#at);
  }

  message({ fields }: Message, wire: Wire): void {
    for (const field of fields) {
      if (field.kind === "A") {
        const attributes = this.#messages[ATTRIBUTES]!;
        if (attributes.fields.some(({ name }) => wire[name] !== undefined))
          this.block(field.number, () => this.message(attributes, wire));
        continue;
      }
      const value = field.name === "contentType" ? contentType(wire) : wire[field.name];
      if (value === undefined || value === null) continue;
      if (field.repeated) for (const each of value) this.#field(field, each);
      else if (
        field.optional ||
        field.kind === "m" ||
        field.kind === "v" ||
        (value !== 0 && value !== "" && value !== false)
      )
        this.#field(field, value);
    }
  }

  #field({ kind, number, message }: Field, value: Wire): void {
    switch (kind) {
      case "s":
        this.bytes(number, utf8.encode(value));
        break;
      case "b":
      case "i":
        this.tag(number, 0);
        this.varint(+value);
        break;
      case "d":
        this.double(number, value);
        break;
      case "j":
        this.bytes(number, utf8.encode(JSON.stringify(value)));
        break;
      case "p": {
        const bytes = payloadBytes(value);
        if (bytes.length) this.bytes(number, bytes);
        break;
      }
      case "v":
        this.block(number, () => this.#value(value));
        break;
      default:
        this.block(number, () => this.message(this.#messages[message]!, value));
    }
  }

  /** A value of a document. */
  #value(value: Json): void {
    if (value === null) this.tag(2, 0, 1);
    else if (typeof value === "boolean") this.tag(3, 0, +value);
    else if (typeof value === "string") this.bytes(6, utf8.encode(value));
    else if (typeof value === "number") {
      if (Number.isSafeInteger(value)) this.tag(4, 0, value);
      else this.double(5, value);
    } else if (Array.isArray(value)) {
      this.tag(1, 0, 1);
      for (const item of value) this.block(8, () => this.#value(item));
    } else if (typeof value.$bytes === "string" && Object.keys(value).length === 1)
      this.bytes(7, fromBase64(value.$bytes));
    else {
      this.tag(1, 0, 2);
      const names = Object.keys(value);
      for (const name of names) this.block(8, () => this.#value(value[name]!));
      const [only] = names;
      const escaped = names.length === 1 && /^\$+bytes$/.test(only!); // written with one `$` more in JSON
      for (const name of names) this.bytes(9, utf8.encode(escaped ? name.slice(1) : name));
    }
  }

  tag(number: number, type: number, value?: number): void {
    this.varint(number * 8 + type);
    if (value !== undefined) this.varint(value);
  }

  varint(value: number): void {
    this.#room(10);
    if (value < 0) {
      let big = BigInt.asUintN(64, BigInt(value));
      for (; big > 127n; big >>= 7n) this.#bytes[this.#at++] = Number(big & 127n) | 128;
      this.#bytes[this.#at++] = Number(big);
      return;
    }
    for (; value > 127; value = Math.floor(value / 128)) this.#bytes[this.#at++] = (value % 128) | 128;
    this.#bytes[this.#at++] = value;
  }

  double(number: number, value: number): void {
    this.tag(number, 1);
    this.#room(8);
    new DataView(this.#bytes.buffer).setFloat64(this.#at, value, true);
    this.#at += 8;
  }

  bytes(number: number, value: Uint8Array): void {
    this.tag(number, 2, value.length);
    this.#room(value.length);
    this.#bytes.set(value, this.#at);
    this.#at += value.length;
  }

  /** A message inside, whose length is known when it is written. An empty one is left out. */
  block(number: number, write: () => void): void {
    const before = this.#at;
    this.tag(number, 2);
    const start = this.#at;
    write();
    const content = this.#bytes.slice(start, this.#at);
    this.#at = before;
    if (content.length) this.bytes(number, content);
  }

  #room(size: number): void {
    if (this.#at + size <= this.#bytes.length) return;
    const larger = new Uint8Array(this.#bytes.length * 2 + size);
    larger.set(this.#bytes);
    this.#bytes = larger;
  }
}

function payloadBytes(payload: Wire): Uint8Array {
  if (payload.json !== undefined) return utf8.encode(JSON.stringify(payload.json));
  if (payload.text !== undefined) return utf8.encode(payload.text);
  const { base64 } = payload;
  if (base64 instanceof Bytes) return base64.bytes;
  return typeof base64 === "string" ? fromBase64(base64) : base64;
}

function contentType({ contentType: given, payload }: Wire): string | undefined {
  if (given || !payload) return given;
  if (payload.json !== undefined) return "application/json";
  return payload.text !== undefined ? "text/plain" : undefined;
}

class Reader {
  at = 0;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #messages: Message[];

  constructor(bytes: Uint8Array, messages: Message[]) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.#messages = messages;
  }

  message({ fields, byNumber }: Message, end: number, into: Wire = {}): Wire {
    for (const { name, repeated } of fields) if (repeated) into[name] ??= [];
    while (this.at < end) {
      const tag = this.varint();
      const field = byNumber[tag >>> 3];
      if (!field) {
        this.skip(tag & 7);
        continue;
      }
      const { name, kind } = field;
      if (kind === "A") this.message(this.#messages[ATTRIBUTES]!, this.varint() + this.at, into);
      else if (field.repeated) into[name].push(this.#value(field));
      else into[name] = this.#value(field);
    }
    if (into.payload instanceof Uint8Array) into.payload = toForm(into);
    return into;
  }

  #value({ kind, message }: Field): Wire {
    switch (kind) {
      case "s":
        return this.#text();
      case "b":
        return this.varint() !== 0;
      case "i":
        return this.varint();
      case "d":
        return this.#double();
      case "j":
        return JSON.parse(this.#text());
      case "p":
        return this.#slice();
      case "v":
        return this.#document(this.varint() + this.at);
      default:
        return this.message(this.#messages[message]!, this.varint() + this.at);
    }
  }

  #document(end: number): Json {
    let kind = 0;
    let scalar: Json = null;
    const items: Json[] = [];
    const keys: string[] = [];
    while (this.at < end) {
      const tag = this.varint();
      if (tag === 8) kind = this.varint();
      else if (tag === 24) scalar = this.varint() !== 0;
      else if (tag === 32) scalar = this.varint();
      else if (tag === 41) scalar = this.#double();
      else if (tag === 50) scalar = this.#text();
      else if (tag === 58) scalar = { $bytes: new Bytes(this.#slice()).toJSON() };
      else if (tag === 66) items.push(this.#document(this.varint() + this.at));
      else if (tag === 74) keys.push(this.#text());
      else this.skip(tag & 7);
    }
    if (kind === 0) return scalar;
    if (kind === 1) return items;
    const escaped = keys.length === 1 && /^\$+bytes$/.test(keys[0]!);
    return Object.fromEntries(keys.map((name, i) => [escaped ? `$${name}` : name, items[i]!]));
  }

  varint(): number {
    const start = this.at;
    let value = 0;
    for (let scale = 1; scale < 2 ** 49; scale *= 128) {
      const byte = this.#byte();
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
    this.at = start; // large, or negative
    let large = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.#byte();
      large += BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, large));
    }
  }

  #byte(): number {
    return this.#view.getUint8(this.at++); // throws where the frame is cut
  }

  #slice(): Uint8Array {
    const length = this.varint();
    const start = this.at;
    this.at += length;
    if (this.at > this.#bytes.length) throw new RangeError("the frame is cut");
    return this.#bytes.subarray(start, this.at);
  }

  #double(): number {
    this.at += 8;
    return this.#view.getFloat64(this.at - 8, true);
  }

  #text(): string {
    return text.decode(this.#slice());
  }

  skip(type: number): void {
    if (type === 0) this.varint();
    else if (type === 2) this.#slice();
    else this.at += type === 1 ? 8 : 4;
  }
}

/** `{json}`, `{text}` or `{base64}`, as the content type says. */
function toForm(wire: Wire): Wire {
  const type: string = wire.contentType ?? "";
  if (/^application\/([^;]*\+)?json\b/.test(type)) {
    if (type === "application/json") delete wire.contentType;
    return { json: JSON.parse(text.decode(wire.payload)) };
  }
  if (type.startsWith("text/")) {
    if (type === "text/plain") delete wire.contentType;
    return { text: text.decode(wire.payload) };
  }
  return { base64: wire.payload };
}
