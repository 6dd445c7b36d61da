/** The tables of an outbox, in IndexedDB or, where the browser has none for this page, in memory.
 *
 * The hub takes the puts of a producer only in the order of their sequence, without a gap, and does not count one that it
 * refuses: its sequence goes to the one behind it. So a message has a `number` that never changes, and its topic says how
 * many numbers were given back: the sequence is the difference. */

import type { Data } from "./index.ts";
import { newId } from "./internals.ts";
import { IndexedTables, MemoryTables, type Tables, type Transaction } from "./tables.ts";

export interface Stored {
  place: number;
  topic: string;
  data: Data;
  event: string;
  sequence: number;
}

export interface Refusal {
  place: number | string;
  /** Of an edit: the channel of its document. */
  topic: string;
  /** Of an edit: its operations. */
  data: Data;
  event: string;
  /** An edit of a document that a page before this one made. */
  edit?: boolean;
  error: { code: string; message: string };
}

interface Row {
  place: number;
  topic: string;
  number: number;
  data: Data;
  event: string;
}

interface Producer {
  name: "producer";
  id: string;
}

interface TopicRow {
  name: string;
  last: number;
  givenBack: number;
}

export interface Store {
  readonly durable: boolean;
  /** Of the producer, which is born and dies with the database. */
  identity(): Promise<string>;
  add(topic: string, data: Data, event: string): Promise<number>;
  count(): Promise<number>;
  /** Those with messages that wait. */
  topics(): Promise<string[]>;
  next(topic: string, limit: number): Promise<Stored[]>;
  /** Which of these places do not wait any more. */
  gone(places: number[]): Promise<number[]>;
  remove(places: number[]): Promise<void>;
  /** Go on behind the last sequence that the hub has; answers the places that it has. Throws `outbox_mismatch`. */
  reconcile(topic: string, last: number): Promise<number[]>;
  refuse(place: number, error: Refusal["error"]): Promise<void>;
  refuseEdit(refusal: Refusal): Promise<void>;
  refused(): Promise<Refusal[]>;
  forget(place: Refusal["place"]): Promise<void>;
  close(): void;
}

export async function openStore(name: string): Promise<Store> {
  try {
    return new TableStore(await IndexedTables.open(name, create));
  } catch {
    return new TableStore(new MemoryTables());
  }
}

function create(database: IDBDatabase): void {
  database
    .createObjectStore("messages", { keyPath: "place", autoIncrement: true })
    .createIndex("order", ["topic", "number"]);
  database.createObjectStore("topics", { keyPath: "name" });
  database.createObjectStore("refused", { keyPath: "place" });
  database.createObjectStore("identity", { keyPath: "name" }).put(newProducer());
}

function newProducer(): Producer {
  return { name: "producer", id: `js-${newId()}` };
}

class TableStore implements Store {
  readonly #tables: Tables;
  readonly #producer = newProducer();

  constructor(tables: Tables) {
    this.#tables = tables;
  }

  get durable(): boolean {
    return this.#tables.durable;
  }

  identity(): Promise<string> {
    return this.#tables.run(
      false,
      async (t) => ((await t.get<Producer>("identity", "producer")) ?? this.#producer).id,
    );
  }

  add(topic: string, data: Data, event: string): Promise<number> {
    return this.#tables.run(true, async (t) => {
      const row = await topicRow(t, topic);
      row.last++;
      await t.put("topics", row);
      return t.put("messages", { topic, number: row.last, data, event });
    });
  }

  count(): Promise<number> {
    return this.#tables.run(false, (t) => t.count("messages"));
  }

  topics(): Promise<string[]> {
    return this.#tables.run(false, async (t) => {
      const rows = await t.all<TopicRow>("topics");
      const waiting = await Promise.all(
        rows.map(({ name }) => t.all("messages", [name, 0], [name, Infinity], 1)),
      );
      return rows.filter((_, i) => waiting[i]!.length).map(({ name }) => name);
    });
  }

  next(topic: string, limit: number): Promise<Stored[]> {
    return this.#tables.run(false, async (t) => {
      const { givenBack } = await topicRow(t, topic);
      const rows = await t.all<Row>("messages", [topic, 0], [topic, Infinity], limit);
      return rows.map(({ place, data, event, number }) => ({
        place,
        topic,
        data,
        event,
        sequence: number - givenBack,
      }));
    });
  }

  gone(places: number[]): Promise<number[]> {
    return this.#tables.run(false, async (t) => {
      const rows = await Promise.all(places.map((place) => t.get("messages", place)));
      return places.filter((_, i) => !rows[i]);
    });
  }

  async remove(places: number[]): Promise<void> {
    if (places.length)
      await this.#tables.run(true, (t) => Promise.all(places.map((place) => t.delete("messages", place))));
  }

  reconcile(topic: string, last: number): Promise<number[]> {
    return this.#tables.run(true, async (t) => {
      const row = await topicRow(t, topic);
      if (last > row.last - row.givenBack) throw mismatch(topic);
      const stored = await t.all<Row>("messages", [topic, 0], [topic, last + row.givenBack]);
      await Promise.all(stored.map(({ place }) => t.delete("messages", place)));
      const [first] = await t.all<Row>("messages", [topic, 0], [topic, Infinity], 1);
      if (first) await t.put("topics", { ...row, givenBack: first.number - last - 1 });
      return stored.map(({ place }) => place);
    });
  }

  async refuse(place: number, error: Refusal["error"]): Promise<void> {
    await this.#tables.run(true, async (t) => {
      const row = await t.get<Row>("messages", place);
      if (!row) return;
      const { topic, data, event } = row;
      const counts = await topicRow(t, topic);
      await t.delete("messages", place);
      await t.put("topics", { ...counts, givenBack: counts.givenBack + 1 });
      await t.put("refused", { place, topic, data, event, error });
    });
  }

  async refuseEdit(refusal: Refusal): Promise<void> {
    await this.#tables.run(true, (t) => t.put("refused", refusal));
  }

  refused(): Promise<Refusal[]> {
    return this.#tables.run(false, (t) => t.all<Refusal>("refused"));
  }

  async forget(place: Refusal["place"]): Promise<void> {
    await this.#tables.run(true, (t) => t.delete("refused", place));
  }

  close(): void {
    this.#tables.close();
  }
}

async function topicRow(t: Transaction, name: string): Promise<TopicRow> {
  return (await t.get<TopicRow>("topics", name)) ?? { name, last: 0, givenBack: 0 };
}

function mismatch(topic: string): Error {
  const words = `the hub has puts to '${topic}' that this outbox never made: its database is an old copy`;
  return Object.assign(new Error(words), { code: "outbox_mismatch", retry: false });
}
