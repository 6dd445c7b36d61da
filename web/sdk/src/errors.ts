/** Errors of the hub and of this client: one class, told apart by a stable `code` (docs/errors.md). */

export interface ErrorDetails {
  /** Trying again may help. */
  retry?: boolean;
  /** Seconds until it may. */
  retryAfter?: number;
  cause?: unknown;
  /** What else the hub said, such as `opIndex` and `reason` of a refused document change. */
  details?: Record<string, unknown> | undefined;
}

/** Codes that only a client can meet; all others come from the hub. */
export type ClientCode =
  | "unreachable"
  | "connection_lost"
  | "request_timeout"
  | "queue_full"
  | "outbox_full"
  | "outbox_mismatch"
  | "copy_mismatch"
  | "client_closed"
  | "messages_lost"
  | "too_large"
  | "edit_rejected"
  | "aborted"
  | "invalid_payload"
  | "not_supported";

export class HubbubError extends Error {
  override readonly name: string = "HubbubError";
  readonly code: string;
  readonly retry: boolean;
  readonly retryAfter: number | undefined;
  readonly details: Record<string, unknown>;

  constructor(code: ClientCode | (string & {}), message: string, more: ErrorDetails = {}) {
    super(message, more);
    this.code = code;
    this.retry = more.retry ?? false;
    this.retryAfter = more.retryAfter || undefined;
    this.details = more.details ?? {};
  }
}

/** Trying again helps. */
export function lost(message: string, cause?: unknown): HubbubError {
  return new HubbubError("connection_lost", message, { retry: true, cause });
}
