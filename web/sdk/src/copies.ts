/** Documents that outlive the page: pending changes, and the hub's document as it was known last.
 *
 * Each tab that has a document open has a copy of its own, under a lock that ends with the tab. It takes the first that is free,
 * so that a page finds what the page before it left. What is in copies without a tab is sent by the tab that connects next. */

import { type Client, HubbubError, type Json } from "./index.ts";
import type { CORE } from "./internals.ts";
import type { Store } from "./outbox_store.ts";
import type { Change, Effect, Replica } from "./replica.ts";
import { IndexedTables, type Tables } from "./tables.ts";

/** Between two times that the hub's document is written. */
const SAVE_MS = 2_000;

type Core = Client[typeof CORE];

/** What an earlier life left. */
export interface SavedCopy {
  readonly producer?: string;
  readonly sequence?: number;
  readonly epoch?: string;
  readonly version?: number;
  readonly document?: Json;
  readonly changes: Change[];
}

/** A copy on disk, as the document in memory uses it. */
export interface CopyStore {
  readonly saved: SavedCopy;
  /** Keeps what an effect is about; resolves when that, and all before it, is on disk. `heard`: the application learns of a
   * rejection. Rejects with `copy_mismatch`, or with the browser's error. */
  keep(effect: Effect, heard: boolean): Promise<unknown>;
  /** Something may have changed. */
  note(replica: Replica): void;
  close(): Promise<void>;
}

/** Follow the document in order to send what is in a copy; answers how to stop. */
export type Adopt = (copy: CopyStore) => () => void;

interface Head {
  key: string;
  user?: string;
  producer?: string;
  sequence?: number;
}

interface Known {
  key: string;
  channel: string;
  epoch: string;
  version: number;
  document: Json;
}

interface Row {
  place?: number;
  copy: string;
  channel: string;
  change: Change;
}

/** The copies of one outbox. */
export class Copies {
  readonly #core: Core;
  readonly #store: Store;
  readonly #name: string;
  #opening: Promise<Tables> | undefined;

  constructor(core: Core, store: Store, name: string) {
    this.#core = core;
    this.#store = store;
    this.#name = `${name}:copies`;
  }

  /** Undefined where the browser keeps nothing, or cannot tell which tabs live. */
  async open(channel: string, adopt: Adopt): Promise<CopyStore | undefined> {
    if (!this.#store.durable || !globalThis.navigator?.locks) return undefined;
    this.#opening ??= IndexedTables.open(this.#name, create);
    const tables = await this.#opening;
    let key = "";
    let release: (() => void) | undefined;
    for (let number = 0; !release; number++) {
      key = `${number}:${channel}`;
      release = await this.#hold(key, { ifAvailable: true });
    }
    const known = new Set([key]);
    const end = new AbortController();
    const adoptOthers = async () => {
      const rows = await tables.run(false, (t) => t.all<Row>("changes"));
      for (const { copy } of rows.filter((row) => row.channel === channel && !known.has(row.copy))) {
        known.add(copy);
        this.#adopt(tables, channel, copy, adopt, end.signal)
          .catch((error) => end.signal.aborted || this.#core.report(error))
          .finally(() => known.delete(copy));
      }
    };
    const unlisten = this.#core.on("connected", adoptOthers);
    if (this.#core.state === "connected") void adoptOthers();
    return this.#read(tables, channel, key, () => {
      unlisten();
      end.abort();
      release();
    });
  }

  close(): void {
    this.#opening?.then((tables) => tables.close()).catch(() => {});
  }

  /** Send what is in a copy, as soon as the tab that has it is gone. */
  async #adopt(
    tables: Tables,
    channel: string,
    key: string,
    adopt: Adopt,
    signal: AbortSignal,
  ): Promise<void> {
    const release = await this.#hold(key, { signal });
    const copy = await this.#read(tables, channel, key, release!);
    const leave = adopt(copy);
    signal.addEventListener("abort", leave);
    await copy.empty;
    leave();
  }

  /** Answers how to let go of the lock; undefined where it is not available. */
  #hold(key: string, options: LockOptions): Promise<(() => void) | undefined> {
    return new Promise((resolve, reject) => {
      const work = (lock: Lock | null) => lock && new Promise<void>(resolve);
      navigator.locks
        .request(`${this.#name}:${key}`, options, (lock) => work(lock) ?? resolve(undefined))
        .catch(reject);
    });
  }

  async #read(tables: Tables, channel: string, key: string, release: () => void): Promise<Copy> {
    const [head, rows, known] = await tables.run(false, (t) =>
      Promise.all([
        t.get<Head>("copies", key),
        t.all<Row>("changes", [key, 0], [key, Infinity]),
        t.all<Known>("documents"),
      ]),
    );
    const found = known.filter((each) => each.channel === channel);
    // What another tab has read is good for a copy without changes.
    const document = found.find((each) => each.key === key) ?? (rows.length ? undefined : found[0]);
    return new Copy(this.#core, this.#store, tables, channel, head ?? { key }, document, rows, release);
  }
}

class Copy implements CopyStore {
  readonly saved: SavedCopy;
  /** Nothing is left to send. */
  readonly empty: Promise<void>;
  readonly #core: Core;
  readonly #channel: string;
  readonly #store: Store;
  readonly #tables: Tables;
  readonly #release: () => void;
  readonly #places = new Map<string, number>();
  #head: Head;
  #emptied!: () => void;
  #last: Promise<unknown> = Promise.resolve();
  #replica: Replica | undefined;
  /** Something may have changed since it was saved. */
  #noted = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    core: Core,
    store: Store,
    tables: Tables,
    channel: string,
    head: Head,
    known: Known | undefined,
    rows: Row[],
    release: () => void,
  ) {
    this.#core = core;
    this.#channel = channel;
    this.#store = store;
    this.#tables = tables;
    this.#head = head;
    this.#release = release;
    this.saved = { ...head, ...known, changes: rows.map(({ change }) => change) };
    for (const { place, change } of rows) this.#places.set(change.id, place!);
    this.empty = new Promise((resolve) => {
      this.#emptied = resolve;
    });
  }

  keep(effect: Effect, heard: boolean): Promise<unknown> {
    this.#last = this.#last.then(() => this.#write(effect, heard));
    return this.#last;
  }

  note(replica: Replica): void {
    if (!replica.unsettled().length) this.#last.then(this.#emptied, () => {});
    this.#replica = replica;
    this.#noted = true;
    if (this.#timer || !replica.known) return;
    void this.#save().catch(() => {}); // who keeps the next change hears of it
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#noted) this.note(replica);
    }, SAVE_MS);
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#save().catch(() => {}); // it was told when it happened
    this.#release();
  }

  async #write(effect: Effect, heard: boolean): Promise<void> {
    switch (effect.effect) {
      case "save":
        await this.#put([effect.change]);
        break;
      case "forget": {
        const { id, producer, sequence } = effect;
        const place = this.#places.get(id);
        this.#places.delete(id);
        await this.#put([], { ...this.#head, producer, sequence }, undefined, place);
        break;
      }
      case "rejected": {
        const { id, ops, error } = effect;
        const { code, message } = error as HubbubError;
        if (heard) break;
        const data = ops as unknown as Json;
        const refusal = { place: id, topic: this.#channel, data, event: "", edit: true };
        await this.#store.refuseEdit({ ...refusal, error: { code, message } });
        break;
      }
      case "fetch":
      case "send":
        await this.#usedBy(this.#core.session?.userId ?? "");
    }
  }

  /** Changes that are new or have changed, beside what else is new, and the place of a change that is done. */
  async #put(changes: Change[], head = this.#head, known?: Known, done?: number): Promise<void> {
    const { key: copy } = head;
    await this.#tables.run(true, async (t) => {
      if (head !== this.#head) await t.put("copies", head);
      if (known) await t.put("documents", known);
      if (done !== undefined) await t.delete("changes", done);
      for (const change of changes) {
        const place = this.#places.get(change.id);
        const row: Row = { copy, channel: this.#channel, change, ...(place && { place }) };
        this.#places.set(change.id, await t.put("changes", row));
      }
    });
    this.#head = head;
  }

  /** The hub's document, and the pending changes as they stand on it. */
  async #save(): Promise<void> {
    this.#noted = false;
    const replica = this.#replica;
    if (replica?.known) {
      const { epoch, version, confirmed: document } = replica;
      const known = { key: this.#head.key, channel: this.#channel, epoch, version, document };
      const changes = replica.unsettled();
      this.#last = this.#last.then(() => {
        // A change without a place is done, or is saved as it is then.
        const saved = changes.filter(({ id }) => this.#places.has(id));
        return this.#put(saved, this.#head, known);
      });
    }
    await this.#last;
  }

  async #usedBy(user: string): Promise<void> {
    const { user: known } = this.#head;
    if (known === undefined) await this.#put([], { ...this.#head, user });
    else if (known !== user) {
      const name = (each: string) => each || "an anonymous client";
      const words = `the copy of '${this.#channel}' is that of ${name(known)}, not of ${name(user)}; use an outbox for each user`;
      throw new HubbubError("copy_mismatch", words);
    }
  }
}

function create(database: IDBDatabase): void {
  database.createObjectStore("copies", { keyPath: "key" });
  database.createObjectStore("documents", { keyPath: "key" });
  database
    .createObjectStore("changes", { keyPath: "place", autoIncrement: true })
    .createIndex("order", ["copy", "place"]);
}
