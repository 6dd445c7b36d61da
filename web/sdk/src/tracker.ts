/** The position of a client in a channel: which message is next, repeated or missing. The rules of the Python SDK. */

import type { Gap, Wire } from "./types.ts";

const REMEMBERED_IDS = 1024;

/** `lost`: something before it is missing and could not be recovered; hand it over all the same. */
export type Verdict = "take" | "drop" | "recover" | "lost";

/** Lets every message through once and in order. Messages with a serial are told apart by epoch and serial; those without,
 * and retained ones, by their ids. Serials are numbers here: no channel has 2^53 messages. */
export class Tracker {
  readonly channel: string;
  serial: number | undefined;
  epoch: string | undefined;
  /** Begin after this time (ms); until the first message with a serial. */
  time: number | undefined;
  /** The hub has yet to confirm the position: all that comes before is to come again. */
  recovering = true;
  began = false;
  #anySerial = false;
  #continues = false;
  #tried: number | undefined;
  #ids: Set<string> | undefined;

  constructor(channel: string, since: { serial?: number; epoch?: string; time?: number } = {}) {
    this.channel = channel;
    this.serial = since.serial;
    this.epoch = since.epoch;
    this.time = since.time;
  }

  /** An item of `Subscribe` that continues without a gap. */
  request(): Wire {
    const { channel, serial, epoch, time } = this;
    if (time !== undefined) return { channel, timestamp: time };
    return serial === undefined ? { channel } : { channel, serial: String(serial), ...(epoch && { epoch }) };
  }

  /** Undefined where it cannot be told by a serial. */
  position(): Wire | undefined {
    const { channel, serial, epoch, time } = this;
    return serial === undefined || time !== undefined
      ? undefined
      : { channel, serial: String(serial), epoch: epoch ?? "" };
  }

  /** The hub goes on from the position. Answers the gap if it cannot. */
  confirm(confirmed: Wire): Gap | undefined {
    let gap: Gap | undefined;
    const sameEpoch = this.epoch === undefined || this.epoch === confirmed.epoch;
    if (!confirmed.recovered) {
      gap = this.#gap(
        sameEpoch ? "the hub no longer has them" : "the channel began anew and its history is gone",
      );
      this.#anySerial = true;
    } else if (this.time !== undefined) this.#anySerial = true;
    if (this.serial === undefined || !(sameEpoch || confirmed.recovered))
      this.serial = Number(confirmed.serial);
    this.epoch = confirmed.epoch;
    this.recovering = false;
    this.#continues = this.began && sameEpoch;
    this.began = true;
    return gap;
  }

  /** The hub says that positions before this one mean nothing any more. */
  reset(reset: Wire): Gap | undefined {
    const { epoch } = reset;
    const serial = Number(reset.serial);
    const same = epoch === this.epoch;
    if (same && serial === this.serial) return undefined;
    const gap = reset.recovered
      ? undefined
      : this.#gap(same ? "the hub could not close the gap" : "the channel began anew");
    this.epoch = epoch;
    this.serial = serial;
    this.time = undefined;
    this.#anySerial = false;
    return gap;
  }

  judge(wire: Wire): Verdict {
    const text = wire.channelSerial;
    const serial = text === undefined ? 0 : Number(text);
    if (serial === 0 || wire.retained) return this.#judgeById(wire, serial);
    if (this.recovering) return "drop";
    const last = this.serial;
    if (last === undefined || serial === last + 1 || this.#anySerial)
      return this.#advance(serial, wire.msgID);
    if (serial <= last) return "drop";
    if (wire.previousSerial !== undefined && Number(wire.previousSerial) <= last)
      return this.#advance(serial, wire.msgID);
    return this.#tried === last ? "lost" : "recover";
  }

  /** Go on with a message although something before it is missing. */
  skip(wire: Wire): Gap {
    const gap = this.#gap("the hub did not send them");
    this.#advance(Number(wire.channelSerial), wire.msgID);
    return gap;
  }

  /** Begin to fetch what is missing: the item of `Subscribe`. */
  recover(): Wire {
    this.recovering = true;
    this.#tried = this.serial;
    return this.request();
  }

  #judgeById(wire: Wire, serial: number): Verdict {
    if (this.#ids?.has(wire.msgID)) return "drop";
    const had = this.serial !== undefined && serial > 0 && serial <= this.serial;
    if (wire.retained && had && this.#continues) return "drop";
    this.#ids ??= new Set();
    if (this.#ids.size >= REMEMBERED_IDS) this.#ids.delete(this.#ids.values().next().value!);
    this.#ids.add(wire.msgID);
    return "take";
  }

  #advance(serial: number, id: string): Verdict {
    this.serial = serial;
    this.#anySerial = false;
    this.time = undefined;
    return this.#ids?.has(id) ? "drop" : "take"; // it came before, as the retained one
  }

  #gap(reason: string): Gap {
    return { channel: this.channel, reason };
  }
}
