/** Live documents: a JSON value that everybody who may can edit, shown here at once. */

import { CALLS } from "./calls.ts";
import { type Client, CORE } from "./client.ts";
import type { CopyStore, SavedCopy } from "./copies.ts";
import { HubbubError } from "./errors.ts";
import { tell } from "./feed.ts";
import type { Outbox } from "./offline.ts";
import type { Operation } from "./patch.ts";
import { type Change, type Effect, Replica } from "./replica.ts";
import type { Json, Unlisten, Wire } from "./types.ts";
import { newId } from "./wire.ts";

const OVERDUE_MS = 1_000;

const calls: typeof CALLS = {
  DocumentGet: ({ channel, since, epoch }) => ["GET", ["channels", channel, "document", "changes"], { after: since, epoch, document: true }],
  DocumentChange: ({ channel, ops, changeID, producer: { id, sequence }, expectedVersion: at, epoch }) =>
    ["PATCH", ["channels", channel, "document"], { producer: id, sequence, changeID, epoch }, ops, at === undefined ? {} : { [at ? "If-Match" : "If-None-Match"]: at ? `"${epoch}.${at}"` : "*" }],
}; // biome-ignore format: a table

export type { Operation } from "./patch.ts";

export interface LiveDocument<T = Json> {
  /** The hub's document has been read. */
  readonly ready: Promise<T>;
  /** With the edits of this client that the hub has not confirmed. Never changed in place; parts that did not change stay
   * the same objects. */
  readonly value: T | undefined;
  /** That of the hub's document. */
  readonly version: number;
  /** Edits that the hub has not confirmed. */
  readonly pending: number;
  /** Nobody knows whether this is the newest: there is no connection, or something is being read. */
  readonly stale: boolean;
  /** Shows at once; resolves with the version that has it on the hub's disk. Rejects with `edit_rejected`, whose `details.ops`
   * are the operations and whose cause says why. A function is called again for a newer document. */
  change(edit: Operation[] | ((value: T) => Operation[]), options?: { expect?: number }): Promise<number>;
  /** `operations`, where they are known, lead from the value before to this one. */
  on(type: "change", f: (value: T, operations?: Operation[]) => void): Unlisten;
  close(): Promise<void>;
}

/** With `cache` the document and its pending edits are on disk: a page shows them without a connection, and edits of a page that
 * was closed are sent by the next. */
export function liveDocument<T = Json>(
  client: Client,
  name: string,
  options: { cache?: Outbox } = {},
): LiveDocument<T> {
  Object.assign(CALLS, calls);
  const core = client[CORE];
  const opening = options.cache?.copyOf(name, (store) => {
    const other = new Copy(core, name, Promise.resolve(store));
    return () => void other.close();
  });
  return new Copy<T>(core, name, opening);
}

interface Settling {
  resolve(version: number): void;
  reject(error: unknown): void;
}

class Copy<T> implements LiveDocument<T> {
  readonly ready: Promise<T>;
  readonly #core: Client[typeof CORE];
  readonly #channel: string;
  readonly #settling = new Map<string, Settling>();
  readonly #listeners = new Set<(value: T, operations?: Operation[]) => void>();
  #replica = replicaOf();
  #store: CopyStore | undefined;
  #opening: Promise<void> | undefined;
  #ended: HubbubError | undefined;
  #unlisten: Unlisten[] = [];
  #shown: Json | undefined;
  #read!: (value: T) => void;
  #failed!: (error: unknown) => void;
  #generation = 0;
  #overdue: ReturnType<typeof setTimeout> | undefined;

  constructor(core: Client[typeof CORE], channel: string, opening?: Promise<CopyStore | undefined>) {
    this.#core = core;
    this.#channel = channel;
    this.ready = new Promise((resolve, reject) => {
      this.#read = resolve;
      this.#failed = reject;
    });
    this.ready.catch(() => {});
    if (opening)
      this.#opening = opening.then((store) => this.#begin(store)).catch((error) => this.#end(error));
    else this.#begin();
  }

  #begin(store?: CopyStore): void {
    this.#opening = undefined;
    this.#store = store;
    if (this.#ended) throw this.#ended;
    this.#replica = replicaOf(store?.saved);
    const core = this.#core;
    const channel = this.#channel;
    const subscription = core.subscribe(channel, () => {}, {});
    this.#unlisten = [
      core.listenTo(channel, "DocumentUpdated", (update) => {
        const { view, confirmed, version } = this.#replica;
        const plain = view === confirmed && update.version === version + 1;
        this.#do(() => this.#replica.updated(update), plain ? update.ops : undefined);
      }),
      core.listenTo(channel, "DocumentInfo", ({ epoch = "", version = 0 }) =>
        this.#do(() => this.#replica.informed(epoch, version)),
      ),
      core.on("connected", () => this.#connect()),
      core.on("state", ({ state }) => {
        if (state === "closed") void this.#end(new HubbubError("client_closed", "the client is closed"));
        else if (state !== "connected") this.#lose();
      }),
      () => void subscription.unsubscribe(),
    ];
    subscription.ready.then(
      () => core.state === "connected" && !this.#generation && this.#connect(),
      (error) => this.#failed(error),
    );
    this.#do(() => {});
  }

  get value(): T | undefined {
    return this.#replica.known ? (this.#replica.view as T) : undefined;
  }
  get version(): number {
    return this.#replica.version;
  }
  get pending(): number {
    return this.#replica.unconfirmed;
  }
  get stale(): boolean {
    return !this.#replica.current;
  }

  change(
    edit: Operation[] | ((value: T) => Operation[]),
    { expect }: { expect?: number } = {},
  ): Promise<number> {
    if (this.#ended) return Promise.reject(this.#ended);
    if (this.#opening) return this.#opening.then(() => this.change(edit, { expect }));
    const replica = this.#replica;
    if (expect !== undefined && expect !== replica.version) {
      const words = `the document has version ${replica.version}, not ${expect}`;
      return Promise.reject(
        new HubbubError("version_mismatch", words, { details: { version: replica.version } }),
      );
    }
    const guard = expect === undefined ? "auto" : "always";
    return new Promise((resolve, reject) => {
      let id: string | undefined;
      try {
        id =
          typeof edit === "function"
            ? replica.editBy(edit as (value: Json) => Operation[], guard)
            : replica.edit(edit, guard);
      } catch (error) {
        reject(error); // nothing has changed
        return;
      }
      if (id === undefined) resolve(replica.version);
      else this.#settling.set(id, { resolve, reject });
      this.#do(() => {}, replica.unsettled().at(-1)?.ops);
    });
  }

  on(_type: "change", f: (value: T, operations?: Operation[]) => void): Unlisten {
    this.#listeners.add(f);
    return () => void this.#listeners.delete(f);
  }

  async close(): Promise<void> {
    const words = "the document was closed before the hub confirmed it";
    await this.#end(new HubbubError("client_closed", words));
  }

  #end(error: HubbubError): Promise<void> | undefined {
    this.#ended = error;
    for (const unlisten of this.#unlisten.splice(0)) unlisten();
    this.#lose();
    this.#failed(error);
    for (const { reject } of this.#settling.values()) reject(error);
    this.#settling.clear();
    return this.#store?.close();
  }

  #connect(): void {
    this.#generation++;
    this.#do(() => this.#replica.connected());
  }

  #lose(): void {
    this.#generation++;
    clearTimeout(this.#overdue);
    this.#replica.lost();
  }

  /** Whatever happened: carry out what follows from it, and show the result, with the operations that lead to it. */
  #do(happen: () => void, operations?: Operation[]): void {
    happen();
    for (const effect of this.#replica.effects()) this.#perform(effect);
    this.#store?.note(this.#replica);
    const { view, known } = this.#replica;
    if (!known || view === this.#shown) return;
    this.#shown = view;
    this.#read(view as T);
    tell(this.#listeners, this.#core.report, view as T, operations);
  }

  #perform(effect: Effect): void {
    const kept = this.#store?.keep(effect, "id" in effect && this.#settling.has(effect.id));
    kept?.catch((error) => {
      if (!this.#ended) void this.#end(error);
    });
    switch (effect.effect) {
      case "send":
        void this.#send(effect.change, kept);
        break;
      case "fetch":
        void this.#fetch(effect.since, effect.epoch, kept);
        break;
      case "wait":
        this.#later((effect.seconds ?? 1) * 1000, () => this.#replica.resend());
        break;
      case "backoff": // as long as a change takes, doubled with each conflict
        this.#later(Math.random() * 5 * 2 ** Math.min(effect.tries, 9), () => this.#replica.resend());
        break;
      case "confirmed":
        this.#settling.get(effect.id)?.resolve(effect.version);
        this.#settling.delete(effect.id);
        break;
      case "rejected": {
        const { id, ops, error } = effect;
        const words = `an edit of '${this.#channel}' was rejected: ${(error as Error)?.message}`;
        this.#settling
          .get(id)
          ?.reject(new HubbubError("edit_rejected", words, { cause: error, details: { ops } }));
        this.#settling.delete(id);
      }
    }
  }

  async #send(
    { id, ops, expected, sentEpoch, producer, sequence }: Change,
    kept?: Promise<unknown>,
  ): Promise<void> {
    const generation = this.#generation;
    const payload: Wire = {
      channel: this.#channel,
      ops,
      changeID: id,
      producer: { id: producer, sequence: String(sequence) },
    };
    if (expected !== undefined) payload.expectedVersion = expected;
    if (sentEpoch !== undefined) payload.epoch = sentEpoch;
    try {
      await kept;
      const { epoch = "", version = 0 } = await this.#core.ask("DocumentChange", payload, { once: true });
      if (generation !== this.#generation) return;
      this.#do(() => this.#replica.answered(id, epoch, version));
      this.#overdue = this.#later(OVERDUE_MS, () => {
        if (epoch === this.#replica.epoch && version > this.#replica.version) this.#replica.catchUp();
      });
    } catch (error) {
      const { code } = error as HubbubError;
      if (generation !== this.#generation || code === "connection_lost") return; // the next connection sends it again
      if (code === "request_timeout") this.#do(() => this.#replica.resend());
      else this.#do(() => this.#replica.refused(id, error as HubbubError));
    }
  }

  async #fetch(since?: number, epoch?: string, kept?: Promise<unknown>): Promise<void> {
    const generation = this.#generation;
    try {
      await kept;
      const found = await this.#core.ask(
        "DocumentGet",
        { channel: this.#channel, since, epoch },
        { once: true },
      );
      const { epoch: of = "", version = 0, document, changes, more } = found;
      const updates = found.updates ?? changes?.map((each: Wire) => ({ epoch: of, ...each }));
      if (generation === this.#generation)
        this.#do(() => this.#replica.fetched({ epoch: of, version, document, updates, more }));
    } catch (error) {
      const { code, retry, retryAfter } = error as HubbubError;
      if (generation !== this.#generation || code === "connection_lost") return;
      if (!retry) this.#failed(error);
      else
        this.#later((retryAfter ?? 1) * 1000, () => {
          this.#replica.fetchFailed();
          this.#replica.catchUp();
        });
    }
  }

  #later(ms: number, f: () => void): ReturnType<typeof setTimeout> {
    const generation = this.#generation;
    return setTimeout(() => generation === this.#generation && this.#do(f), ms);
  }
}

function replicaOf({
  changes,
  producer,
  sequence,
  epoch,
  version,
  document,
}: Partial<SavedCopy> = {}): Replica {
  const replica = new Replica(newId, () => `js-${newId()}`, changes, producer, sequence);
  if (document !== undefined) replica.load(epoch!, version!, document);
  return replica;
}
