/** Frames as the inspector's log shows them. */

import { fromBase64 } from "./format";

type Body = Record<string, unknown>;

const SECRETS = new Set(["token", "credentials", "restoreKey"]);
const MOST_DEPTH = 4;

/** A frame as it is shown: payloads that are not text are bytes; tokens, passwords and restore keys are hidden. */
export function shownFrame(frame: Body): Body {
  return Object.fromEntries(
    Object.entries(frame).map(([name, each]) => [
      name,
      SECRETS.has(name) ? "(hidden)" : withBytes(name, each, 1),
    ]),
  );
}

function withBytes(name: string, value: unknown, depth: number): unknown {
  if (depth > MOST_DEPTH || value === null || typeof value !== "object") return value;
  if (name === "payload") return readPayload(value as Body);
  if (Array.isArray(value)) return value.map((each) => withBytes("", each, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key, withBytes(key, each, depth + 1)]),
  );
}

/** Other members than `base64` are what somebody published, and stay as they are. */
function readPayload(payload: Body): Body {
  const { base64 } = payload;
  if (base64 !== null && typeof base64 === "object" && "bytes" in base64) return { base64: base64.bytes };
  if (typeof base64 !== "string") return payload;
  try {
    return { base64: fromBase64(base64) };
  } catch {
    return payload;
  }
}
