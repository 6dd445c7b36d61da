/** Requests of the socket as HTTP has them, for transports that only listen. */

import type { Wire } from "./types.ts";
import { toError } from "./wire.ts";

export type Call = [
  method: string,
  path: string[],
  query?: Wire,
  body?: Wire,
  headers?: Record<string, string>,
];

/** By event; the answer has the shape of the socket's. Features whose requests are not those of channels add their own. */
// biome-ignore format: a table
export const CALLS: Record<string, (payload: Wire) => Call> = {
  Publish: (body) => ["POST", ["messages"], {}, body],
  History: ({ channel, filter, ...query }) => ["GET", ["channels", channel, "messages"], { ...query, filter: filter && JSON.stringify(filter) }],
  Presence: ({ channel }) => ["GET", ["channels", channel, "presence"]],
  RPC: ({ method, payload, timeout }) => ["POST", ["rpc", method], { timeout }, payload],
  StreamEnqueue: ({ stream, event, payload }) => ["POST", ["streams", stream, "events"], { event }, payload],
  ProducerOpen: ({ topic, producer }) => ["POST", ["topics", topic, "producers", producer]],
};

/** Throws the hub's error, or what has no `retry` where no hub answered. */
export async function http(
  base: URL,
  hub: string,
  token: string | undefined,
  [method, path, query, body, more]: Call,
  signal?: AbortSignal,
): Promise<Response> {
  const url = new URL(["v1/hubs", ...[hub, ...path].map(encodeURIComponent)].join("/"), base);
  for (const name in query)
    for (const each of [query[name]].flat()) if (each !== undefined) url.searchParams.append(name, each);
  const headers: Record<string, string> = { ...more };
  if (token) headers.Authorization = `Bearer ${token}`;
  const [content, type] = written(body);
  if (type) headers["Content-Type"] = type;
  const response = await fetch(url, { method, headers, body: content, signal: signal ?? null });
  if (response.ok) return response;
  const { error } = await response.json();
  throw toError(error, error);
}

/** A payload is the body itself; anything else is JSON. */
function written(body: Wire): [content: BodyInit | null, type?: string] {
  if (!body) return [null];
  if (body.text !== undefined) return [body.text, "text/plain"];
  if (body.base64) return [body.base64.bytes, "application/octet-stream"];
  const type = Array.isArray(body) ? "application/json-patch+json" : "application/json";
  return [JSON.stringify("json" in body ? body.json : body), type];
}
