/** The state of a local copy: the hub's document as far as it is known, and changes on top of it. Pure: whatever happens comes
 * in by a method, and what is to be done about it is what `effects` answers next. `spec/document-copies.json` says the same
 * in examples; the rules are those of docs/adr/0028-local-copies.md. */

import { HubbubError } from "./errors.ts";
import { apply, equal, find, listsIn, type Operation, type Path, touches } from "./patch.ts";
import type { Json } from "./types.ts";

const MAX_TRIES = 25;
const MAX_BUFFERED = 1000;

export type Guard = "auto" | "always" | "never";
export type EditFunction = (value: Json) => Operation[];

/** As it is kept on disk. One with a `sequence` was sent: it is sent again as it is, or not at all. */
export interface Change {
  id: string;
  ops: Operation[];
  guard?: Guard;
  function?: boolean;
  /** The lists through whose positions it goes. */
  lists?: Path[];
  /** The version that it was made for, in `epoch`. */
  epoch?: string;
  base?: number;
  producer?: string;
  sequence?: number;
  expected?: number;
  sentEpoch?: string;
}

export interface Update {
  epoch: string;
  version: number;
  changeID: string;
  ops: Operation[];
}

export interface Fetched {
  epoch: string;
  version: number;
  document?: Json;
  updates?: Update[];
  more?: boolean;
}

export type Effect =
  | { effect: "save"; change: Change }
  | { effect: "send"; change: Change }
  | { effect: "fetch"; since?: number; epoch?: string }
  | { effect: "confirmed"; id: string; epoch: string; version: number }
  | { effect: "rejected"; id: string; ops: Operation[]; error: unknown }
  | { effect: "forget"; id: string; producer: string; sequence: number }
  | { effect: "wait"; id: string; seconds: number | null }
  | { effect: "backoff"; id: string; tries: number };

interface Pending {
  saved: Change;
  run: EditFunction | undefined;
  /** A list through whose positions it goes was changed by somebody else since. */
  conflicted: boolean;
  /** To which version it led. */
  answered: { epoch: string; version: number } | undefined;
  tries: number;
}

const sent = (change: Pending) => Boolean(change.saved.sequence);
const inFlight = (change: Pending) => sent(change) && !change.answered;

export class Replica {
  confirmed: Json = {};
  view: Json = {};
  epoch = "";
  version = 0;
  /** The hub's document was seen. */
  known = false;
  #pending: Pending[];
  readonly #newId: () => string;
  readonly #newProducer: () => string;
  #producer: string;
  #sequence: number;
  #connected = false;
  #current = false;
  #fetching = false;
  #backingOff = false;
  #held: Fetched | undefined;
  #buffered = new Map<string, Update>();
  #stale = false;
  #effects: Effect[] = [];

  constructor(
    newId: () => string,
    newProducer: () => string,
    saved: Change[] = [],
    producer = "",
    sequence = 0,
  ) {
    this.#newId = newId;
    this.#newProducer = newProducer;
    this.#pending = saved.map((change) => pendingOf(change));
    this.#producer = producer;
    this.#sequence = sequence;
  }

  /** What was confirmed in an earlier life, perhaps before the saved changes were made. */
  load(epoch: string, version: number, document: Json): void {
    this.confirmed = document;
    this.epoch = epoch;
    this.version = version;
    this.known = true;
    this.#rebuild();
  }

  /** How many changes the hub has not taken, as far as is known. */
  get unconfirmed(): number {
    return this.unsettled().length;
  }

  /** The changes that are to be on disk, as they stand on the confirmed document. */
  unsettled(): Change[] {
    return this.#pending.filter((change) => !change.answered).map(({ saved }) => saved);
  }

  /** Nothing is known to be missing. */
  get current(): boolean {
    return this.#current;
  }

  /** What is to be done since the last call, in this order. */
  effects(): Effect[] {
    return this.#effects.splice(0);
  }

  // -- edits

  /** Shows at once; answers the id of the change. Throws what keeps it from fitting; then nothing has changed. */
  edit(ops: Operation[], guard: Guard = "auto"): string {
    const lists = guard === "never" ? [] : listsIn(this.view, ops);
    this.view = apply(this.view, ops);
    return this.#append(ops, guard, lists);
  }

  /** The operations that a function answers; it is called again for newer documents. Undefined: it answered none. */
  editBy(run: EditFunction, guard: Guard = "auto"): string | undefined {
    const ops = run(this.view);
    if (!ops.length) return undefined;
    this.view = apply(this.view, ops);
    return this.#append(ops, guard, [], run);
  }

  #append(ops: Operation[], guard: Guard, lists: Path[], run?: EditFunction): string {
    const saved: Change = { id: this.#newId(), ops };
    if (guard !== "auto") saved.guard = guard;
    if (run) saved.function = true;
    if (lists.length) saved.lists = lists;
    if (this.epoch) saved.epoch = this.epoch;
    if (this.version) saved.base = this.version;
    const change = pendingOf(saved, run);
    this.#pending.push(change);
    this.#pump();
    if (!sent(change)) this.#effects.push({ effect: "save", change: change.saved });
    return saved.id;
  }

  // -- the connection

  connected(): void {
    this.#connected = true;
    this.resend();
    this.catchUp();
  }

  lost(): void {
    this.#connected = this.#current = this.#fetching = this.#backingOff = false;
    this.#held = undefined;
    this.#buffered.clear();
  }

  /** Send the change in flight again, as it was; after a `backoff`, the next change. */
  resend(): void {
    const change = this.#flying();
    if (this.#connected && change) this.#effects.push({ effect: "send", change: change.saved });
    this.#backingOff = false;
    this.#pump();
  }

  /** Something may be missing. */
  catchUp(): void {
    this.#current = false;
    this.#fetch();
  }

  /** A `fetch` brought nothing: call `catchUp` later. */
  fetchFailed(): void {
    this.#fetching = false;
  }

  // -- from the hub

  /** The hub's document stands at a version. */
  informed(epoch: string, version: number): void {
    if (version === 0 && this.#unwritten()) {
      this.#stand(epoch, 0);
      this.known = this.#current = this.#stale = true;
    } else if (epoch === this.epoch && version <= this.version) this.#current = true;
    else this.catchUp();
    this.#finish();
  }

  updated(update: Update): void {
    this.#takeUpdate(update);
    this.#finish();
  }

  /** What a `fetch` brought. */
  fetched(found: Fetched): void {
    this.#fetching = false;
    if (found.document !== undefined && this.#flying()) {
      this.#held = found;
      return;
    }
    this.#take(found);
    this.#finish();
  }

  /** The hub has taken a change, now or earlier; that led to a version. */
  answered(id: string, epoch: string, version: number): void {
    const change = this.#flying();
    if (change?.saved.id !== id) return; // its update was here first
    change.answered = { epoch, version };
    this.#sequence = change.saved.sequence!;
    this.#effects.push({ effect: "confirmed", id, epoch, version });
    this.#forget(change);
    if (version && epoch !== this.epoch) this.catchUp();
    this.#finish();
  }

  refused(id: string, error: HubbubError): void {
    const change = this.#flying();
    if (change?.saved.id !== id) return;
    if (error.retry) {
      this.#effects.push({ effect: "wait", id, seconds: error.retryAfter ?? null });
      return;
    }
    const { sequence: _, producer: __, ...saved } = change.saved;
    change.saved = saved;
    this.#stale = true; // judged again: updates that came meanwhile may speak against it
    if (error.code === "version_mismatch") this.#mismatched(change, error);
    else if (error.code === "sequence_gap" || error.code === "sequence_reused")
      this.#producer = ""; // the hub, or the file, is older than the other
    else this.#reject(change, error);
    this.#finish();
  }

  #mismatched(change: Pending, error: HubbubError): void {
    change.tries++;
    const lostFunction = change.saved.function && !change.run;
    if (lostFunction || (change.run && change.tries >= MAX_TRIES)) this.#reject(change, error);
    else if (change.tries > 1) {
      this.#backingOff = true;
      this.#effects.push({ effect: "backoff", id: change.saved.id, tries: change.tries });
    }
    const { epoch, version } = error.details;
    if (epoch !== this.epoch || typeof version !== "number" || version > this.version) this.catchUp();
  }

  // -- the hub's document

  #fetch(): void {
    if (!this.#connected || this.#fetching || this.#held) return;
    this.#fetching = true;
    const whole = !this.known || (this.version === 0 && !this.#unwritten());
    const fetch: Effect = { effect: "fetch" };
    if (!whole) fetch.since = this.version;
    if (this.version) fetch.epoch = this.epoch;
    this.#effects.push(fetch);
  }

  #take(found: Fetched): void {
    if (found.document !== undefined) this.#takeDocument(found);
    for (const update of found.updates ?? []) this.#takeUpdate(update);
    const waiting = [...this.#buffered.values()].sort((a, b) =>
      a.epoch === b.epoch ? a.version - b.version : a.epoch < b.epoch ? -1 : 1,
    );
    for (const update of waiting) if (!this.#follow(update)) break;
    for (const [key, { epoch, version }] of this.#buffered)
      if (epoch === this.epoch && version <= this.version) this.#buffered.delete(key);
    this.#current = !this.#buffered.size && !found.more;
    if (this.#current) return;
    this.#buffered.clear();
    this.#fetch();
  }

  #takeUpdate(update: Update): void {
    if (update.epoch === this.epoch && update.version <= this.version) return;
    if (this.#follow(update)) return;
    if (this.#buffered.size < MAX_BUFFERED) this.#buffered.set(`${update.version}.${update.epoch}`, update);
    this.catchUp();
  }

  /** Whether the update is the next one. */
  #follow(update: Update): boolean {
    const begins = this.known && this.#unwritten();
    if (update.version !== this.version + 1 || !(begins || update.epoch === this.epoch)) return false;
    const own = this.#pending.find((change) => change.saved.id === update.changeID);
    if (!own) for (const change of this.#pending) disturb(change, update.version, update.ops);
    try {
      this.confirmed = apply(this.confirmed, update.ops);
    } catch {
      this.known = false; // it is not the hub's document: read all of it again
      return false;
    }
    this.#stand(update.epoch, update.version);
    if (own) this.#settle(own);
    this.#stale = true;
    return true;
  }

  /** Nothing here comes from a written document: no epoch is lost when another one begins. */
  #unwritten(): boolean {
    const madeForOne = this.#pending.some((change) => change.saved.base);
    return this.version === 0 && !madeForOne && this.#writtenIn() === undefined;
  }

  /** The epoch in which the hub took the first pending change, whose update is not here yet: the later ones were made for a
   * document of that epoch. */
  #writtenIn(): string | undefined {
    const answered = this.#pending[0]?.answered;
    return answered?.version ? answered.epoch : undefined;
  }

  #takeDocument(found: Fetched): void {
    if (this.known && found.epoch === this.epoch && found.version <= this.version) return;
    const before = this.confirmed;
    this.confirmed = found.document!;
    const writtenIn = this.#writtenIn();
    for (const change of [...this.#pending]) {
      const { base, epoch, lists = [] } = change.saved;
      if (change.answered) continue;
      const madeFor = writtenIn ?? (base ? epoch : found.epoch);
      if (madeFor !== found.epoch) this.#reject(change, anew(found));
      else if (change.saved.function || this.#behind(change) || !same(before, this.confirmed, lists))
        disturb(change, found.version, undefined);
    }
    this.known = this.#stale = true;
    this.#stand(found.epoch, found.version);
  }

  #stand(epoch: string, version: number): void {
    this.epoch = epoch;
    this.version = version;
    for (const change of this.#pending) {
      const saved = change.saved;
      const other = epoch !== (saved.epoch ?? "");
      if (other && saved.function && !change.run) change.conflicted = true;
      if (version > (saved.base ?? 0) || other) {
        change.saved = { ...saved, epoch, base: version };
        if (!version) delete change.saved.base;
        if (!epoch) delete change.saved.epoch;
      }
    }
  }

  // -- pending changes

  #flying(): Pending | undefined {
    const [head] = this.#pending;
    return head && inFlight(head) ? head : undefined;
  }

  #remove(change: Pending): void {
    this.#pending = this.#pending.filter((each) => each !== change);
  }

  /** The hub's document has it. */
  #settle(change: Pending): void {
    this.#remove(change);
    if (change.answered) return;
    if (sent(change)) this.#sequence = change.saved.sequence!;
    else this.#producer = ""; // it had been sent with a sequence that is used up
    this.#effects.push({
      effect: "confirmed",
      id: change.saved.id,
      epoch: this.epoch,
      version: this.version,
    });
    this.#forget(change);
  }

  /** What goes through lists that it changed goes with it: positions there mean others. */
  #reject(change: Pending, error: unknown): void {
    if (inFlight(change)) this.#producer = ""; // whether its sequence is used up is not known
    this.#remove(change);
    this.#stale = true;
    this.#effects.push({ effect: "rejected", id: change.saved.id, ops: change.saved.ops, error });
    this.#forget(change);
    this.#undermine(change);
  }

  /** A change is not in the document: later ones may have been made for what it did. */
  #undermine(gone: Pending): void {
    for (const later of this.#pending) {
      const madeForIt = later.saved.function || touches(gone.saved.ops, later.saved.lists ?? []);
      if (!later.run && madeForIt) later.conflicted = true;
    }
  }

  #forget(change: Pending): void {
    this.#effects.push({
      effect: "forget",
      id: change.saved.id,
      producer: this.#producer,
      sequence: this.#sequence,
    });
  }

  /** Whatever came in: settle what is reached, show the result, send the next. */
  #finish(): void {
    const held = this.#held;
    if (held && !this.#flying()) {
      this.#held = undefined;
      this.#take(held);
    }
    const [head] = this.#pending;
    if (head?.answered && this.#reached(head.answered)) {
      this.#remove(head);
      this.#stale = true;
      if (head.answered.version && head.answered.epoch !== this.epoch) this.#undermine(head);
    }
    if (this.#stale) this.#rebuild();
    this.#pump();
  }

  /** Whether the document has what led to a version. What the hub took in another epoch is gone. */
  #reached({ epoch, version }: { epoch: string; version: number }): boolean {
    if (epoch !== this.epoch) return version === 0 || (this.#current && !this.#fetching);
    return version <= this.version;
  }

  #rebuild(): void {
    this.view = this.confirmed;
    for (const change of [...this.#pending]) this.#show(change);
    this.#stale = false;
  }

  /** Apply a pending change to the view; one that was not sent and does not fit any more is rejected. */
  #show(change: Pending): void {
    if (!this.#pending.includes(change)) return;
    try {
      if (change.conflicted && !sent(change)) throw conflict();
      if (change.run && !sent(change)) this.#run(change, change.run);
      const { id, ops } = change.saved;
      if (!ops.length && !sent(change)) {
        this.#effects.push({ effect: "confirmed", id, epoch: this.epoch, version: this.version });
        this.#remove(change);
        this.#forget(change);
        return;
      }
      this.view = apply(this.view, ops);
    } catch (error) {
      if (!sent(change) && !this.#behind(change)) this.#reject(change, error);
    }
  }

  /** The file has what the function answers last: it cannot run in another life. */
  #run(change: Pending, run: EditFunction): void {
    const ops = run(this.view);
    if (JSON.stringify(ops) === JSON.stringify(change.saved.ops)) return;
    change.saved = { ...change.saved, ops };
    this.#effects.push({ effect: "save", change: change.saved });
  }

  /** Whether the change was made for a newer document than the one that is here. */
  #behind({ saved: { base, epoch } }: Pending): boolean {
    return Boolean(base) && (epoch !== this.epoch || base! > this.version);
  }

  #pump(): void {
    const [change] = this.#pending;
    if (!this.#connected || !this.#current || this.#fetching || this.#backingOff || !change) return;
    if (sent(change) || this.#behind(change)) return;
    if (!this.#producer) {
      this.#producer = this.#newProducer();
      this.#sequence = 0;
    }
    const { expected: _, sentEpoch: __, ...saved } = change.saved;
    const { guard = "auto", function: by, lists } = saved;
    change.saved = { ...saved, producer: this.#producer, sequence: this.#sequence + 1 };
    if (guard === "always" || (guard === "auto" && (by || lists?.length)))
      change.saved.expected = this.version;
    if (this.version) change.saved.sentEpoch = this.epoch;
    this.#effects.push({ effect: "save", change: change.saved }, { effect: "send", change: change.saved });
  }
}

function pendingOf(saved: Change, run?: EditFunction): Pending {
  return { saved, run, conflicted: false, answered: undefined, tries: 0 };
}

/** Somebody else made the document this version with these operations (undefined: not known). */
function disturb(change: Pending, version: number, operations: Operation[] | undefined): void {
  const { base = 0, function: by, lists = [] } = change.saved;
  if (version <= base || change.run) return;
  if (by || (lists.length && (!operations || touches(operations, lists)))) change.conflicted = true;
}

/** Whether both documents have the same lists there. */
function same(one: Json, other: Json, paths: Path[]): boolean {
  try {
    return paths.every((path) => equal(find(one, path), find(other, path)));
  } catch {
    return false;
  }
}

function conflict(): HubbubError {
  const words =
    "somebody else changed a list that the change goes through; look at the document and make the change again";
  return new HubbubError("version_mismatch", words);
}

function anew({ epoch, version }: Fetched): HubbubError {
  const words = "the document began anew since: it was deleted, or restored from an older backup";
  return new HubbubError("version_mismatch", words, { details: { epoch, version } });
}
