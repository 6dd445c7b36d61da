/** Calls of the admin API. The browser proves who it is by the cookie of the dashboard, which no script can read. */

export interface Failure {
  code: string;
  message: string;
  retry: boolean;
  retryAfter?: number | null;
}

export class ApiError extends Error {
  readonly status: number;
  readonly failure: Failure;
  constructor(status: number, failure: Failure) {
    super(failure.message);
    this.status = status;
    this.failure = failure;
  }
  get code(): string {
    return this.failure.code;
  }
}

export interface Page<T> {
  items: T[];
  next?: string | null;
  total?: number | null;
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export interface Call {
  query?: Query | undefined;
  body?: unknown;
  ifMatch?: string | undefined;
  absent?: boolean | undefined;
  signal?: AbortSignal | undefined;
  /** For a path outside of the dashboard, which knows no cookie. */
  token?: string;
}

export interface Versioned<T> {
  value: T;
  etag?: string;
}

export const BASE = "/dashboard/api";

let lost: () => void = () => {};

/** What happens when the hub no longer knows who this is. */
export function onSessionLost(action: () => void): void {
  lost = action;
}

/** A path whose parts are names as users gave them. */
export function path(parts: TemplateStringsArray, ...names: string[]): string {
  return parts.reduce((whole, part, at) => whole + encodeURIComponent(names[at - 1] ?? "") + part);
}

function withQuery(address: string, query: Query | undefined): string {
  const pairs = Object.entries(query ?? {}).filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  if (pairs.length === 0) return address;
  return `${address}?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}`;
}

export async function request(method: string, address: string, call: Call = {}): Promise<Response> {
  const headers: Record<string, string> = { "Hubbub-Dashboard": "1" };
  if (call.body !== undefined) headers["Content-Type"] = "application/json";
  if (call.ifMatch) headers["If-Match"] = call.ifMatch;
  if (call.absent) headers["If-None-Match"] = "*";
  if (call.token) headers.Authorization = `Bearer ${call.token}`;
  let response: Response;
  try {
    response = await fetch(withQuery(address, call.query), {
      method,
      headers,
      credentials: "same-origin",
      ...(call.body !== undefined && { body: JSON.stringify(call.body) }),
      ...(call.signal && { signal: call.signal }),
    });
  } catch (error) {
    if (call.signal?.aborted) throw error;
    throw new ApiError(0, { code: "unreachable", message: "the hub cannot be reached", retry: true });
  }
  if (response.ok) return response;
  const failure = await readFailure(response);
  if (response.status === 401 && address.startsWith(BASE)) lost();
  throw new ApiError(response.status, failure);
}

async function readFailure(response: Response): Promise<Failure> {
  try {
    const said = (await response.json()) as { error?: Failure };
    if (said.error) return said.error;
  } catch {
    // Not JSON: a proxy in between answered.
  }
  return {
    code: `http_${response.status}`,
    message: response.statusText || `status ${response.status}`,
    retry: false,
  };
}

export async function call<T>(method: string, where: string, options: Call = {}): Promise<T> {
  const response = await request(method, BASE + where, options);
  return response.status === 204 ? (undefined as T) : ((await response.json()) as T);
}

export const get = <T>(where: string, query?: Query, signal?: AbortSignal): Promise<T> =>
  call<T>("GET", where, { query, signal });

export const post = <T>(where: string, body?: unknown, query?: Query): Promise<T> =>
  call<T>("POST", where, { body, query });

export const put = <T>(where: string, body?: unknown): Promise<T> => call<T>("PUT", where, { body });

export const remove = (where: string, query?: Query): Promise<void> => call<void>("DELETE", where, { query });

/** With the version that `If-Match` takes. */
export async function getVersioned<T>(where: string): Promise<Versioned<T>> {
  const response = await request("GET", BASE + where);
  const etag = response.headers.get("ETag");
  return { value: (await response.json()) as T, ...(etag && { etag }) };
}

/** Without a version it must not exist yet. */
export async function putVersioned<T>(where: string, body: unknown, etag?: string): Promise<Versioned<T>> {
  const response = await request("PUT", BASE + where, {
    body,
    ...(etag ? { ifMatch: etag } : { absent: true }),
  });
  const now = response.headers.get("ETag");
  return { value: (await response.json()) as T, ...(now && { etag: now }) };
}
