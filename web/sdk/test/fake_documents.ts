/** A document of a hub for unit tests: versions, producers and updates. */

import type { Wire } from "../src/index.ts";
import { apply } from "../src/patch.ts";
import { FakeSocket } from "./fake_hub.ts";

export class FakeDocument {
  readonly channel: string;
  value: Wire = {};
  version = 0;
  /** Operations by version. */
  readonly changes: Wire[] = [];
  readonly #done = new Map<string, number>();
  /** Called before the answer to a change goes out. True: the connection ends instead. */
  cut: () => boolean = () => false;
  refuse: (ops: Wire) => boolean = () => false;

  constructor(channel: string) {
    this.channel = channel;
  }

  serve(socket: FakeSocket): void {
    socket.answers.DocumentGet = ({ reqID, since }) => {
      const at = { reqID, channel: this.channel, epoch: "e", version: this.version };
      return [
        "DocumentGet",
        since === undefined ? { ...at, document: this.value } : { ...at, updates: this.changes.slice(since) },
      ];
    };
    socket.answers.DocumentChange = ({ reqID, ...change }) => {
      const answer = this.#change(change);
      if (!this.cut()) return ["DocumentChange", { reqID, ...answer }];
      queueMicrotask(() => socket.end());
      return undefined;
    };
  }

  /** By somebody else, or by a change of a client. */
  edit(ops: Wire, changeID = `other-${this.version}`): void {
    this.value = apply(this.value, ops);
    this.version++;
    const update = { channel: this.channel, epoch: "e", version: this.version, changeID, ops };
    this.changes.push(update);
    for (const socket of FakeSocket.all)
      if (socket.readyState === 1) queueMicrotask(() => socket.say("DocumentUpdated", update));
  }

  #change({ ops, changeID, producer, expectedVersion }: Wire): Wire {
    const key = `${producer.id} ${producer.sequence}`;
    const done = this.#done.get(key);
    if (done !== undefined) return { success: true, epoch: "e", version: done, duplicate: true };
    if (expectedVersion !== undefined && expectedVersion !== this.version)
      return refusal("version_mismatch", { epoch: "e", version: this.version });
    if (this.refuse(ops)) return refusal("not_permitted");
    this.edit(ops, changeID);
    this.#done.set(key, this.version);
    return { success: true, epoch: "e", version: this.version };
  }
}

function refusal(code: string, more: Wire = {}): Wire {
  return { success: false, ...more, error: { code, message: code, retry: false } };
}
