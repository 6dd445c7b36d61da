/** Topics: messages that are kept until a durable subscription has acknowledged them. */

import { CALLS } from "./calls.ts";
import { type Client, CORE } from "./client.ts";
import type { Core } from "./core.ts";
import type { HubbubError } from "./errors.ts";
import type { Data, Json, Message, Receipt, Signal, Wire } from "./types.ts";
import { Delivered, newId, publishItem } from "./wire.ts";

const WAIT_MS = 30_000;
const PAGE = 100;

export interface TopicOptions {
  /** Several consumers share the subscription. */
  shared?: boolean;
  leaseSeconds?: number;
  maxUnacknowledged?: number;
  maxDeliveries?: number;
  deadLetters?: string;
  /** Of a new subscription: what it begins with. */
  start?: "new" | "first" | bigint;
}

/** Where a durable subscription stands. */
export interface Standing {
  topic: string;
  name: string;
  epoch: string;
  /** Everything up to this serial is done. */
  floor: bigint;
  head: bigint;
  lag: number;
  new: boolean;
}

/** A message that a durable subscription handed out. */
export interface Article<T> extends Message<T> {
  readonly serial: bigint;
  /** How often it was handed out, as far as is known. */
  readonly deliveries: number;
  readonly redelivered: boolean;
}

class DeliveredArticle<T> extends Delivered<T> {
  override get serial(): bigint {
    return BigInt(this.wire.channelSerial);
  }
  get deliveries(): number {
    return this.wire.deliveries ?? 1;
  }
  get redelivered(): boolean {
    return this.wire.redelivered ?? false;
  }
}

export interface Topic<T extends Data> {
  /** Stored once, also when the connection is lost before the answer: then it is sent again under the same number. */
  put(data: T, event?: string): Promise<Receipt>;
  /** Make a durable subscription, or find the one that is there. */
  subscribe(name?: string, options?: TopicOptions): Promise<Standing>;
  unsubscribe(name?: string): Promise<void>;
  get(
    name?: string,
    options?: { limit?: number; waitMs?: number; ackUpTo?: bigint; consumer?: string },
  ): Promise<Article<T>[]>;
  /** Answers up to which serial everything is done. */
  ack(upTo: bigint | bigint[], name?: string): Promise<bigint>;
  /** Message after message; asking for the next one acknowledges those before it. */
  read(name?: string, options?: Signal & { consumer?: string }): AsyncIterable<Article<T>>;
}

const subscription = (topic: string, name: string, ...more: string[]) => [
  "topics",
  topic,
  "subscriptions",
  name,
  ...more,
];
const calls: typeof CALLS = {
  TopicSubscribe: ({ topic, name, options, start }) => ["PUT", subscription(topic, name), { start }, options],
  TopicUnsubscribe: ({ topic, name }) => ["DELETE", subscription(topic, name)],
  TopicGet: ({ topic, name, ...query }) => ["POST", subscription(topic, name, "get"), query],
  TopicAck: ({ topic, name, ...body }) => ["POST", subscription(topic, name, "ack"), {}, body],
}; // biome-ignore format: a table

export function topic<T extends Data = Json>(client: Client, name: string): Topic<T> {
  const core = client[CORE];
  Object.assign(CALLS, calls);
  const producer = producerOf(core, name);
  const ask = (event: string, payload: Wire, moreMs = 0, signal?: AbortSignal) =>
    core.ask(event, { topic: name, ...payload }, { moreMs, signal });

  const get = async (
    subscription: string,
    wait: number,
    payload: Wire,
    signal?: AbortSignal,
  ): Promise<Article<T>[]> => {
    const answer = await ask("TopicGet", { name: subscription, wait, ...payload }, wait * 1000, signal);
    return (answer.messages ?? []).map((wire: Wire) => new DeliveredArticle<T>(wire));
  };

  return {
    put: (data, event = "") => producer.put(publishItem(name, data, { event })),
    async subscribe(subscription = "default", { start, ...options } = {}) {
      const { epoch, floor, head, ...state } = await ask("TopicSubscribe", {
        name: subscription,
        ...(start !== undefined && { start: String(start) }),
        ...(Object.keys(options).length && { options }),
      });
      return {
        topic: name,
        name: subscription,
        epoch,
        floor: BigInt(floor),
        head: BigInt(head),
        lag: state.lag ?? 0,
        new: state.new ?? false,
      };
    },
    async unsubscribe(subscription = "default") {
      await ask("TopicUnsubscribe", { name: subscription });
    },
    get: (subscription = "default", { limit = 1, waitMs = 0, ackUpTo, consumer } = {}) =>
      get(subscription, waitMs / 1000, {
        limit,
        consumer,
        ...(ackUpTo !== undefined && { ackUpTo: String(ackUpTo) }),
      }),
    async ack(upTo, subscription = "default") {
      const which = Array.isArray(upTo) ? { serials: upTo.map(String) } : { upTo: String(upTo) };
      const answer = await ask("TopicAck", { name: subscription, ...which });
      return BigInt(answer.floor);
    },
    async *read(subscription = "default", { signal, consumer } = {}) {
      let done: bigint | undefined;
      try {
        while (!signal?.aborted) {
          const more = { limit: PAGE, consumer, ...(done !== undefined && { ackUpTo: String(done) }) };
          const articles = await get(subscription, WAIT_MS / 1000, more, signal);
          if (articles.length) done = undefined;
          for (const article of articles) {
            if (signal?.aborted) return;
            yield article;
            done = article.serial;
          }
        }
      } catch (error) {
        if (!signal?.aborted) throw error;
      } finally {
        if (done !== undefined)
          await ask("TopicAck", { name: subscription, upTo: String(done), consumer }).catch(() => {});
      }
    },
  };
}

/** Puts of this client to one topic: numbered, one after the other, each repeated until the hub has said what became of it. */
class Producer {
  readonly #core: Core;
  readonly #topic: string;
  readonly #id = `js-${newId()}`;
  #sequence = 0n;
  #fence: string | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(core: Core, topic: string) {
    this.#core = core;
    this.#topic = topic;
  }

  put(item: Wire): Promise<Receipt> {
    const result = this.#last.then(() => this.#put(item));
    this.#last = result.catch(() => {});
    return result;
  }

  async #put(item: Wire): Promise<Receipt> {
    if (this.#fence === undefined) {
      const opened = await this.#core.ask("ProducerOpen", { topic: this.#topic, producer: this.#id });
      this.#fence = opened.fence as string;
      this.#sequence = BigInt(opened.sequence);
    }
    const sequence = this.#sequence + 1n;
    const numbered = { ...item, producer: { id: this.#id, sequence: String(sequence), fence: this.#fence } };
    for (;;) {
      await this.#core.connected();
      try {
        const receipt = await this.#core.publish({ ...numbered });
        this.#sequence = sequence;
        return receipt;
      } catch (error) {
        // In doubt: the same number, so that it counts once.
        if ((error as HubbubError).code === "connection_lost") continue;
        this.#fence = undefined; // the hub says whether the number was used up
        throw error;
      }
    }
  }
}

const producers = new WeakMap<Core, Map<string, Producer>>();

function producerOf(core: Core, topicName: string): Producer {
  const known = producers.get(core) ?? new Map<string, Producer>();
  producers.set(core, known);
  const producer = known.get(topicName) ?? new Producer(core, topicName);
  known.set(topicName, producer);
  return producer;
}
