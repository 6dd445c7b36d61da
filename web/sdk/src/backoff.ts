/** How long to wait before connecting again: not at all, then longer and longer. */

import type { HubbubError } from "./errors.ts";

/** Codes of a hub that asks for patience. */
export const LIMITED = /^((rate_)?limited|quota_exceeded|too_many_\w+|slow_consumer|overloaded)$/;

/** The first attempt comes at once, unless the hub said that it is too much for it. Then the wait doubles; a random part
 * keeps many clients from coming together. */
export class Backoff {
  readonly #firstMs: number;
  readonly #longestMs: number;
  #attempts = 0;

  constructor(firstMs = 250, longestMs = 20_000) {
    this.#firstMs = firstMs;
    this.#longestMs = longestMs;
  }

  /** Milliseconds until the next attempt, after a connection ended with `error`. */
  next(error: HubbubError): number {
    if (this.#attempts === 0 && LIMITED.test(error.code)) this.#attempts = 1;
    const attempt = this.#attempts++;
    const least = (error.retryAfter ?? 0) * 1000;
    if (attempt === 0) return least;
    const longest = Math.min(this.#longestMs, this.#firstMs * 2 ** Math.min(attempt - 1, 30));
    return Math.max(least, longest / 2 + (Math.random() * longest) / 2);
  }

  /** All is well: the next loss is a new one. */
  reset(): void {
    this.#attempts = 0;
  }
}
