/** Topics of a hub for unit tests: the rules of producers, and of what is stored. */

import type { Wire } from "../src/index.ts";
import { FakeSocket } from "./fake_hub.ts";

export class FakeTopics {
  readonly stored: Wire[] = [];
  readonly #producers = new Map<string, { fence: number; last: number }>();
  /** Called before an answer to a frame of puts goes out. True: the connection ends instead. */
  cut: () => boolean = () => false;

  refuse: (data: unknown) => boolean = () => false;
  /** What is stored although the answer says that the store was away. */
  doubt: (data: unknown) => boolean = () => false;
  /** So many puts more than there were are said to be stored. */
  lie = 0;

  serve(socket: FakeSocket): void {
    socket.answers.ProducerOpen = ({ reqID, topic, producer }) => {
      const known = this.#producers.get(topic + producer) ?? { fence: 0, last: 0 };
      known.fence++;
      this.#producers.set(topic + producer, known);
      return [
        "ProducerOpened",
        { reqID, topic, producer, fence: String(known.fence), sequence: String(known.last + this.lie) },
      ];
    };
    socket.answers.Publish = ({ publishes }) => {
      const published = publishes.map((item: Wire) => ({ reqID: item.reqID, ...this.#put(item) }));
      if (!this.cut()) return ["Ack", { published }];
      queueMicrotask(() => socket.end());
      return undefined;
    };
  }

  #put({ channel, payload, producer }: Wire): Wire {
    const known = this.#producers.get(channel + producer.id)!;
    const sequence = Number(producer.sequence);
    if (Number(producer.fence) !== known.fence) return refusal("producer_fenced");
    if (sequence <= known.last) return { success: true, duplicate: true };
    if (sequence !== known.last + 1) return refusal("sequence_gap");
    const data = payload.json ?? payload.text;
    if (this.refuse(data)) return refusal("bad_request");
    known.last = sequence;
    this.stored.push(data);
    if (this.doubt(data)) return refusal("store_unavailable");
    return { success: true, msgID: `m${this.stored.length}`, channelSerial: String(this.stored.length) };
  }
}

function refusal(code: string): Wire {
  return { success: false, error: { code, message: code, retry: false } };
}

/** Every socket that the client opens is greeted and served, until the answer is `stop`ped. */
export function serveAll(topics: { serve(socket: FakeSocket): void }): { stop(): void } {
  const timer = setInterval(() => {
    const { last } = FakeSocket;
    if (last?.readyState !== 0) return;
    topics.serve(last);
    last.greet();
  }, 1);
  return { stop: () => clearInterval(timer) };
}
