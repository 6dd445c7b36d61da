/** Who the client says it is: tokens that are renewed before they end, one call at a time. */

import { HubbubError } from "./errors.ts";
import type { Proof, TokenReason, Wire } from "./types.ts";
import { toPayload } from "./wire.ts";

const WRONG_CLOCK_MS = 60_000;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export class TokenKeeper {
  #proof: Proof;
  readonly #renew: () => Promise<unknown>;
  readonly #longestMs: number;
  #token: string | undefined;
  #why: TokenReason = "start";
  #asking: Promise<string> | undefined;
  #endsAt: number | undefined;
  #renewAt: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(proof: Proof, renew: () => Promise<unknown>, longestMs = 10_000) {
    this.#proof = proof;
    this.#renew = renew;
    this.#longestMs = longestMs;
  }

  get given(): boolean {
    return this.#proof.token !== undefined || this.#proof.credentials !== undefined;
  }

  /** Asking again may bring another one. */
  get renewable(): boolean {
    return typeof (this.#proof.token ?? this.#proof.credentials) === "function";
  }

  /** It is time for another one. */
  get due(): boolean {
    return this.renewable && Date.now() >= (this.#renewAt ?? Infinity);
  }

  replace(proof: Proof): void {
    this.#proof = proof;
    this.#token = undefined;
    this.#why = "start";
  }

  refuse(): void {
    this.#token = undefined;
    this.#why = "refused";
  }

  /** Have a token that is good for a while; where none is `needed`, only instead of one that is not. Rejects with what the
   * application's function threw. */
  async prepare(needed: boolean): Promise<void> {
    if (this.due) {
      this.#token = undefined;
      this.#why = "expiring";
      needed = true;
    }
    if (needed) await this.current();
  }

  async current(): Promise<string | undefined> {
    const { token } = this.#proof;
    if (typeof token !== "function") return token;
    if (this.#token !== undefined) return this.#token;
    this.#asking ??= this.#await(token(this.#why), "token").finally(() => {
      this.#asking = undefined;
    });
    this.#token = await this.#asking;
    this.#renewAt = undefined; // until the hub says how long it lasts
    this.#why = "start";
    return this.#token;
  }

  /** The payload of `Auth`. */
  async proof(): Promise<Wire> {
    const token = await this.current();
    if (token !== undefined) return { token };
    const { credentials } = this.#proof;
    return {
      credentials: toPayload(
        typeof credentials === "function" ? await this.#await(credentials(), "credentials") : credentials,
      ),
    };
  }

  /** What a function of the application answers. Rejects with `request_timeout`. */
  #await<T>(answer: T | PromiseLike<T>, name: string): Promise<T> {
    return new Promise((resolve, reject) => {
      const words = `\`${name}\` did not answer in ${this.#longestMs} ms`;
      const late = () => reject(new HubbubError("request_timeout", words, { retry: true }));
      const timer = setTimeout(late, this.#longestMs);
      Promise.resolve(answer)
        .then(resolve, reject)
        .finally(() => clearTimeout(timer));
    });
  }

  /** When what was given ends: at four fifths of that time another one is asked for. */
  expires(at: Date | undefined): void {
    clearTimeout(this.#timer);
    this.#endsAt = at?.getTime();
    const left = (at?.getTime() ?? 0) - Date.now();
    // The hub has just taken it: where it seems to have ended, this clock is wrong.
    this.#renewAt = at && Date.now() + (left > 0 ? left * 0.8 : WRONG_CLOCK_MS);
    this.#schedule();
  }

  /** There is no connection to renew anything on. */
  rest(): void {
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    if (this.#renewAt === undefined || !this.renewable) return;
    const ms = Math.max(this.#renewAt - Date.now(), 0);
    this.#timer = setTimeout(
      () => (ms > LONGEST_TIMER_MS ? this.#schedule() : void this.#expire()),
      Math.min(ms, LONGEST_TIMER_MS),
    );
  }

  async #expire(): Promise<void> {
    this.#token = undefined;
    this.#why = "expiring";
    try {
      await this.#renew();
    } catch {
      const left = (this.#endsAt ?? 0) - Date.now();
      if (left > 0) this.#timer = setTimeout(() => void this.#expire(), Math.max(left / 2, 1_000));
    }
  }
}
