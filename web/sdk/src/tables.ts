/** Rows by table: in IndexedDB or, where the browser keeps nothing for this page, in memory. */

/** Changed in transactions that are on disk when they end. */
export interface Tables {
  readonly durable: boolean;
  run<T>(write: boolean, work: (t: Transaction) => Promise<T>): Promise<T>;
  close(): void;
}

export interface Transaction {
  get<T>(table: string, key: IDBValidKey): Promise<T | undefined>;
  /** With bounds, by the table's index `order`. */
  all<T>(table: string, from?: [string, number], to?: [string, number], limit?: number): Promise<T[]>;
  put(table: string, row: unknown): Promise<number>;
  delete(table: string, key: IDBValidKey): Promise<unknown>;
  count(table: string): Promise<number>;
}

export class IndexedTables implements Tables {
  readonly durable = true;
  readonly #connect: () => Promise<IDBDatabase>;
  #database: IDBDatabase;

  private constructor(connect: () => Promise<IDBDatabase>, database: IDBDatabase) {
    this.#connect = connect;
    this.#database = database;
  }

  /** `create` makes the tables of a database that is new. */
  static async open(name: string, create: (database: IDBDatabase) => void): Promise<IndexedTables> {
    const connect = async () => {
      const request = indexedDB.open(name, 1);
      request.onupgradeneeded = () => create(request.result);
      const database = await done(request);
      database.onversionchange = () => database.close();
      return database;
    };
    return new IndexedTables(connect, await connect());
  }

  async run<T>(write: boolean, work: (t: Transaction) => Promise<T>): Promise<T> {
    try {
      return await this.#run(write, work);
    } catch (error) {
      // Safari severs databases of pages in the background: open it again, once.
      if (!["InvalidStateError", "UnknownError"].includes((error as Error)?.name)) throw error;
      this.#database = await this.#connect();
      return this.#run(write, work);
    }
  }

  async #run<T>(write: boolean, work: (t: Transaction) => Promise<T>): Promise<T> {
    const names = [...this.#database.objectStoreNames];
    const transaction = this.#database.transaction(names, write ? "readwrite" : "readonly", {
      durability: "strict",
    });
    const ended = new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
    ended.catch(() => {});
    const table = (name: string) => transaction.objectStore(name);
    try {
      const result = await work({
        get: (name, key) => done(table(name).get(key)),
        all: (name, from, to, limit) =>
          done(
            from
              ? table(name).index("order").getAll(IDBKeyRange.bound(from, to), limit)
              : table(name).getAll(),
          ),
        put: (name, row) => done(table(name).put(row)) as Promise<number>,
        delete: (name, key) => done(table(name).delete(key)),
        count: (name) => done(table(name).count()),
      });
      await ended;
      return result;
    } catch (error) {
      try {
        transaction.abort();
      } catch {
        // it has ended already
      }
      throw error;
    }
  }

  close(): void {
    this.#database.close();
  }
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

interface Row {
  topic: string;
  number: number;
  name?: string;
  place?: number;
}

export class MemoryTables implements Tables {
  readonly durable = false;
  readonly #tables: Record<string, Map<IDBValidKey, Row>> = {};
  #place = 0;
  #last: Promise<unknown> = Promise.resolve();

  /** One transaction after the other. */
  run<T>(_write: boolean, work: (t: Transaction) => Promise<T>): Promise<T> {
    const result = this.#last.then(() => this.#run(work));
    this.#last = result.catch(() => {});
    return result;
  }

  #run<T>(work: (t: Transaction) => Promise<T>): Promise<T> {
    const table = (name: string) => (this.#tables[name] ??= new Map());
    return work({
      get: async (name, key) => table(name).get(key) as never,
      all: async (name, from, to, limit) => {
        const rows = [...table(name).values()];
        const wanted = from
          ? rows.filter(({ topic, number }) => topic === from[0] && number >= from[1] && number <= to![1])
          : rows;
        return wanted.slice(0, limit) as never[];
      },
      put: async (name, row) => {
        const { name: named, place = named ? 0 : ++this.#place } = row as Row;
        table(name).set(named ?? place, { ...(row as Row), ...(!named && { place }) });
        return place;
      },
      delete: async (name, key) => table(name).delete(key),
      count: async (name) => table(name).size,
    });
  }

  close(): void {}
}
