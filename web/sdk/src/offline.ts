/** An outbox in the browser: puts that outlive the page, each stored by the hub exactly once. */

import { type Adopt, Copies, type CopyStore } from "./copies.ts";
import type { Client, Data, HubbubError, Receipt, Wire } from "./index.ts";
import { CORE, publishItem, readReceipt } from "./internals.ts";
import { openStore, type Refusal, type Store, type Stored } from "./outbox_store.ts";

const FRAME = 50;
const FREE_PACE = 1000;
/** Codes that say nothing about the message itself. */
const PASSING = new Set([
  "not_authenticated",
  "invalid_token",
  "hub_not_found",
  "sequence_gap",
  "producer_fenced",
  "connection_lost",
  "internal",
]);

export type { Refusal } from "./outbox_store.ts";

export interface Outbox {
  /** False: the browser keeps nothing, and puts end with the page. */
  readonly durable: boolean;
  /** Puts that the hub has not confirmed. */
  waiting(): Promise<number>;
  /** All are confirmed or refused. */
  drained(): Promise<void>;
  /** What the hub will never take, with its reasons; `forget` removes it from the list. */
  refused(): Promise<Refusal[]>;
  forget(refusal: Refusal): Promise<void>;
  /** Resolves when the put is on disk; `confirmed` when the hub has it, unless the page ends before. */
  put(topic: string, data: Data, event?: string): Promise<{ confirmed: Promise<Receipt> }>;
  close(): Promise<void>;
  /** @internal */
  copyOf(channel: string, adopt: Adopt): Promise<CopyStore | undefined>;
}

/** All tabs with the same hub and `name` share one outbox; one of them sends. */
export async function openOutbox(client: Client, name: string): Promise<Outbox> {
  const { hub } = client[CORE].options;
  const store = await openStore(`hubbub:${hub}:${name}`);
  return new Sender(client, store, `hubbub:${hub}:${name}`);
}

interface Settled {
  place: number;
  receipt?: Receipt;
  error?: { code: string; message: string };
}

class Sender implements Outbox {
  readonly durable: boolean;
  readonly #core: Client[typeof CORE];
  readonly #store: Store;
  readonly #copies: Copies;
  readonly #tabs: BroadcastChannel | undefined;
  readonly #confirming = new Map<number, { resolve(receipt: Receipt): void; reject(error: unknown): void }>();
  readonly #end = new AbortController();
  #stir: (() => void) | undefined;
  #stirred = false;
  #changed: (() => void)[] = [];
  #producer = "";
  #credit = 0;
  #paidAt = 0;

  constructor(client: Client, store: Store, lock: string) {
    this.#core = client[CORE];
    this.#store = store;
    this.#copies = new Copies(this.#core, store, lock);
    this.durable = store.durable;
    this.#tabs = store.durable && globalThis.BroadcastChannel ? new BroadcastChannel(lock) : undefined;
    if (this.#tabs)
      this.#tabs.onmessage = ({ data }: { data: Settled | "put" | "lead" }) => {
        if (data === "put") this.#wake();
        else if (data === "lead") void this.#review();
        else this.#settle(data);
      };
    const { signal } = this.#end;
    const locks = store.durable ? globalThis.navigator?.locks : undefined;
    const sending = locks ? locks.request(lock, { signal }, () => this.#send()) : this.#send();
    Promise.resolve(sending).catch((error) => signal.aborted || this.#core.report(error));
  }

  waiting(): Promise<number> {
    return this.#store.count();
  }

  async drained(): Promise<void> {
    while (await this.#store.count()) await new Promise<void>((resolve) => this.#changed.push(resolve));
  }

  refused(): Promise<Refusal[]> {
    return this.#store.refused();
  }

  forget(refusal: Refusal): Promise<void> {
    return this.#store.forget(refusal.place);
  }

  async put(topic: string, data: Data, event = ""): Promise<{ confirmed: Promise<Receipt> }> {
    publishItem(topic, data); // throws what cannot be sent at all
    const place = await this.#store.add(topic, data, event);
    const confirmed = new Promise<Receipt>((resolve, reject) =>
      this.#confirming.set(place, { resolve, reject }),
    );
    confirmed.catch(() => {}); // `refused()` has it, too
    this.#wake();
    this.#tabs?.postMessage("put");
    return { confirmed };
  }

  async close(): Promise<void> {
    this.#end.abort();
    this.#wake();
    this.#tabs?.close();
    this.#store.close();
    this.#copies.close();
  }

  copyOf(channel: string, adopt: Adopt): Promise<CopyStore | undefined> {
    return this.#copies.open(channel, adopt);
  }

  #wake(): void {
    this.#stirred = true;
    this.#stir?.();
  }

  #settle(settled: Settled): void {
    const waiting = this.#confirming.get(settled.place);
    this.#confirming.delete(settled.place);
    if (settled.receipt) waiting?.resolve(settled.receipt);
    else waiting?.reject(settled.error);
    for (const resolve of this.#changed.splice(0)) resolve();
  }

  #tell(settled: Settled): void {
    this.#settle(settled);
    const { error } = settled;
    this.#tabs?.postMessage(
      error ? { ...settled, error: { code: error.code, message: error.message } } : settled,
    );
  }

  /** Another tab sends now: the one before may not have told all that it knew. */
  async #review(): Promise<void> {
    const gone = await this.#store.gone([...this.#confirming.keys()]);
    const refused = gone.length ? await this.#store.refused() : [];
    for (const place of gone) {
      const error = refused.find((each) => each.place === place)?.error;
      this.#settle(error ? { place, error } : { place, receipt: { id: "", duplicate: true } });
    }
    for (const resolve of this.#changed.splice(0)) resolve();
  }

  /** While this tab is the one that sends. */
  async #send(): Promise<void> {
    let pause = 0;
    this.#tabs?.postMessage("lead");
    await this.#review();
    while (!this.#end.signal.aborted) {
      this.#stirred = false;
      const topics = await this.#store.topics();
      try {
        for (const topic of topics) await this.#drain(topic);
        pause = 0;
      } catch (error) {
        if (this.#end.signal.aborted || this.#core.state === "closed") return;
        const { code, retryAfter } = error as HubbubError;
        if (code === "outbox_mismatch" || code === "producer_fenced") throw error;
        pause = Math.max((retryAfter ?? 0) * 1000, Math.min(pause * 2 || 50, 5_000));
      }
      if (pause) await new Promise((resolve) => setTimeout(resolve, pause));
      else if (!this.#stirred)
        await new Promise<void>((resolve) => {
          this.#stir = resolve;
          if (this.#stirred || this.#end.signal.aborted) resolve();
        });
    }
  }

  /** Opening the producer fences off what an older page may still have under way, so what is known of a put stays true. */
  async #open(topic: string): Promise<string | undefined> {
    await this.#core.connected();
    this.#producer = await this.#store.identity();
    let opened: Wire;
    try {
      opened = await this.#core.ask("ProducerOpen", { topic, producer: this.#producer });
    } catch (error) {
      if (!refuses(error as HubbubError)) throw error;
      return undefined; // the put will tell what is wrong
    }
    const done = await this.#store.reconcile(topic, Number(opened.sequence));
    for (const place of done) this.#tell({ place, receipt: { id: "", duplicate: true } });
    return opened.fence;
  }

  async #drain(topic: string): Promise<void> {
    let fence = await this.#open(topic);
    for (;;) {
      const batch = await this.#store.next(topic, fence === undefined ? 1 : FRAME);
      if (!batch.length || this.#end.signal.aborted) return;
      await this.#pace(batch.length);
      const results = await Promise.all(batch.map((each) => this.#put(each, fence)));
      const failed = results.findIndex((result) => result.error);
      const stored = failed < 0 ? batch : batch.slice(0, failed);
      await this.#store.remove(stored.map(({ place }) => place));
      for (const [i, { place }] of stored.entries()) this.#tell({ place, receipt: readReceipt(results[i]) });
      if (failed < 0) continue;
      const { error } = results[failed];
      if (!refuses(error)) throw error;
      const { place, sequence } = batch[failed]!;
      fence = await this.#open(topic); // nothing of older connections can be stored any more
      if ((await this.#store.next(topic, 1))[0]?.sequence !== sequence) continue; // it was stored after all
      await this.#store.refuse(place, { code: error.code, message: error.message });
      this.#tell({ place, error });
    }
  }

  #put({ topic, data, event, sequence }: Stored, fence: string | undefined): Promise<Wire> {
    const item = publishItem(topic, data, { event });
    item.producer = { id: this.#producer, sequence: String(sequence), fence };
    return new Promise((resolve) => {
      try {
        this.#core.put(item, resolve);
      } catch (error) {
        resolve({ error });
      }
    });
  }

  /** Below what the hub lets a session send, so that the application's own messages pass. */
  async #pace(count: number): Promise<void> {
    const perSecond = (this.#core.session?.messagesPerSecond ?? FREE_PACE) * 0.8;
    const now = Date.now();
    this.#credit = Math.min(this.#credit + ((now - this.#paidAt) / 1000) * perSecond, FRAME);
    this.#paidAt = now;
    this.#credit -= count;
    if (this.#credit < 0)
      await new Promise((resolve) => setTimeout(resolve, (-this.#credit / perSecond) * 1000));
  }
}

/** The hub will never take the message. */
function refuses({ retry, code }: HubbubError): boolean {
  return !retry && !PASSING.has(code);
}
