/** Publishes on their way out: a bounded queue that also waits out the time without a connection. */

import { HubbubError } from "./errors.ts";
import type { Link, Options, Receipt, Wire } from "./types.ts";
import { toError } from "./wire.ts";

const FRAME_ITEMS = 500;
const FRAME_BYTES = 64 * 1024;
const BUFFERED_BYTES = 1024 * 1024;

export type Answered = (result: Wire) => void;

interface Queued {
  item: Wire;
  answered: Answered | undefined;
  size: number;
}

/** A publish that was never sent stays for the next connection. One that was sent and not acknowledged when the connection
 * ends may or may not have arrived: its receipt fails with `connection_lost`. */
export class SendQueue {
  #queue: Queued[] = [];
  #bytes = 0;
  readonly #sent = new Map<number, Answered>();
  readonly #limit: { messages: number; bytes: number };
  readonly #nextId: () => number;
  #link: Link | undefined;
  #maxBytes = 0;
  #scheduled = false;
  #emptied: (() => void)[] = [];

  constructor(limit: Options["maxQueued"], nextId: () => number) {
    this.#limit = limit ?? { messages: 10_000, bytes: 8 * 1024 * 1024 };
    this.#nextId = nextId;
  }

  get length(): number {
    return this.#queue.length;
  }

  /** Something was sent and is not acknowledged. */
  get busy(): boolean {
    return this.#sent.size > 0;
  }

  /** Throws `queue_full`. */
  put(item: Wire, answered: Answered | undefined): void {
    const size = this.#link ? 0 : JSON.stringify(item).length;
    if (this.#queue.length >= this.#limit.messages || this.#bytes + size > this.#limit.bytes) {
      const words = `${this.#queue.length} messages wait; publish to '${item.channel}' again later`;
      throw new HubbubError("queue_full", words, { retry: true });
    }
    this.#queue.push({ item, answered, size });
    this.#bytes += size;
    this.#schedule();
  }

  /** There is a connection. */
  start(link: Link, maxBytes: number): void {
    this.#link = link;
    this.#maxBytes = maxBytes;
    this.#schedule();
  }

  /** The connection has ended. */
  stop(error: HubbubError): void {
    this.#link = undefined;
    const sent = [...this.#sent.values()];
    this.#sent.clear();
    for (const answered of sent) answered({ error });
    this.#checkEmpty();
  }

  /** There will be no other. */
  failAll(error: HubbubError): void {
    const queue = this.#queue;
    this.#queue = [];
    for (const { answered } of queue) answered?.({ error });
    this.stop(error);
  }

  /** What became of an item. */
  acknowledge(result: Wire): void {
    const answered = this.#sent.get(result.reqID);
    this.#sent.delete(result.reqID);
    answered?.(result);
    this.#checkEmpty();
  }

  /** All is sent and acknowledged. */
  emptied(): Promise<void> {
    return new Promise((resolve) => {
      this.#emptied.push(resolve);
      this.#checkEmpty();
    });
  }

  #schedule(): void {
    if (this.#scheduled || !this.#link || !this.#queue.length) return;
    this.#scheduled = true;
    queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    while (this.#link && this.#queue.length) {
      if (this.#link.buffered > BUFFERED_BYTES) {
        setTimeout(() => this.#schedule(), 50);
        return;
      }
      let bytes = 0;
      let count = 0;
      for (const { item } of this.#queue) {
        const { text, base64 } = item.payload;
        bytes += (text ?? base64?.bytes ?? base64)?.length ?? 200;
        if (count === FRAME_ITEMS || (count && bytes > FRAME_BYTES)) break;
        count++;
      }
      const items = this.#queue.slice(0, count);
      this.#queue = this.#queue.slice(count);
      for (const { size } of items) this.#bytes -= size;
      this.#transmit(items);
    }
    this.#checkEmpty();
  }

  /** In one frame, or in several where the hub takes none of that size. */
  #transmit(items: Queued[]): void {
    for (const each of items) {
      if (!each.answered || each.item.reqID) continue;
      each.item.reqID = this.#nextId();
      this.#sent.set(each.item.reqID, each.answered);
    }
    const publishes = items.map((each) => each.item);
    if (this.#link?.send([["Publish", { publishes }]], this.#maxBytes) !== false) return;
    if (items.length > 1) {
      const half = items.length >> 1;
      this.#transmit(items.slice(0, half));
      this.#transmit(items.slice(half));
      return;
    }
    const words = `the publish to '${items[0]!.item.channel}' is larger than the hub takes: ${this.#maxBytes} bytes`;
    const error = new HubbubError("too_large", words);
    this.acknowledge({ reqID: items[0]!.item.reqID, error });
  }

  #checkEmpty(): void {
    if (this.#queue.length || this.#sent.size) return;
    for (const resolve of this.#emptied.splice(0)) resolve();
  }
}

/** The receipt of a publish, or its error. */
export function readReceipt(result: Wire): Receipt {
  const { error, msgID, channelSerial, duplicate } = result;
  if (error) throw error instanceof HubbubError ? error : toError(error);
  return { id: msgID ?? "", serial: channelSerial && BigInt(channelSerial), duplicate: duplicate ?? false };
}
