/** One connection for all tabs of a browser: in a SharedWorker, or in one of the tabs where there is none. */

import { type Codec, jsonCodec, type Link, type LinkEvents, type Transport, webSocket } from "./index.ts";
import { newId } from "./internals.ts";
import { type FromTab, Host, type Post, type Tab, type ToTab } from "./share_host.ts";

const LINGER_MS = 1_000;

export interface SharedOptions {
  /** The script of the worker, at the page's own origin: `/sdk/hubbub-worker.js` of a hub, or `@hubbub/client/worker`. */
  worker?: string | URL;
}

interface Addressed {
  to: string;
  from?: string;
  said?: FromTab;
  told?: ToTab;
}

/** A transport for `connect`. Tabs share a connection when hub, address and the claims of their tokens are the same. Where the
 * browser has no Web Locks, a WebSocket for each tab. */
export function shared({ worker }: SharedOptions = {}): Transport {
  const locks = globalThis.navigator?.locks;
  if (!locks || !globalThis.BroadcastChannel) return webSocket();
  return {
    name: "shared",
    open: (base, hub, _codec, token, events) => new SharedLink(base, hub, token, events, worker),
  };
}

class SharedLink implements Link {
  readonly buffered = 0;
  readonly #events: LinkEvents;
  readonly #end = new AbortController();
  #say: ((message: FromTab) => void) | undefined;
  #over = false;

  constructor(
    base: URL,
    hub: string,
    token: () => Promise<string | undefined>,
    events: LinkEvents,
    worker: string | URL | undefined,
  ) {
    this.#events = events;
    this.#open(base, hub, token, worker).catch((error) => this.#finish(String(error)));
  }

  send(envelopes: Parameters<Codec["encode"]>[0], maxBytes: number): boolean {
    const frame = jsonCodec.encode(envelopes) as string;
    if (maxBytes && new TextEncoder().encode(frame).length > maxBytes) return false;
    this.#say?.({ frame });
    return true;
  }

  close(): void {
    this.#finish("the client left");
  }

  #finish(reason: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#end.abort();
    this.#events.ended(0, reason);
  }

  async #open(base: URL, hub: string, token: () => Promise<string | undefined>, worker?: string | URL): Promise<void> {
    const proof = await token();
    const key = `hubbub:${base.href}:${hub}:${claims(proof)}`;
    const id = newId();
    const lock = `${key}:${id}`;
    const { signal } = this.#end;
    await held(lock, signal);
    if (this.#over) return;
    const hear = (told: ToTab) => {
      if (this.#over) return;
      if ("ended" in told) this.#finish(told.ended);
      else this.#events.receive(told.envelopes);
    };
    if (worker && globalThis.SharedWorker) {
      const { port } = new SharedWorker(scriptUrl(worker) as string, { name: key, type: "module" });
      port.onmessage = ({ data }) => hear(data);
      this.#say = (message) => port.postMessage(message);
      signal.addEventListener("abort", () => port.close());
    } else {
      const tabs = new BroadcastChannel(key);
      tabs.onmessage = ({ data }: { data: Addressed }) => {
        if (data.told && (data.to === id || data.to === "*")) hear(data.told);
      };
      this.#say = (said) => tabs.postMessage({ to: "host", from: id, said } satisfies Addressed);
      signal.addEventListener("abort", () => tabs.close());
      host(key, signal);
    }
    this.#say({ hello: { url: base.href, hub, ...(proof ? { token: proof } : {}) }, lock });
  } // biome-ignore format: dense
}

/** Held until the page or the link ends: so others know that this one lives. */
function held(name: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const work = () => {
      resolve();
      return new Promise<void>((done) => signal.addEventListener("abort", () => done()));
    };
    navigator.locks.request(name, { signal }, work).catch(reject);
  });
}

/** By key: what this page does for all tabs, or waits to do. */
const hosting = new Map<string, { links: number; end: AbortController }>();

function host(key: string, link: AbortSignal): void {
  const there = hosting.get(key) ?? { links: 0, end: new AbortController() };
  there.links++;
  if (!hosting.has(key)) {
    hosting.set(key, there);
    const { signal } = there.end;
    navigator.locks.request(key, { signal }, () => serve(key, signal)).catch(() => {});
  }
  link.addEventListener("abort", () => {
    setTimeout(() => {
      if (--there.links) return; // the client has dialled again
      hosting.delete(key);
      there.end.abort();
    }, LINGER_MS);
  });
}

/** This tab has the connection. Whoever had it before is gone: all tabs say hello again. */
function serve(key: string, signal: AbortSignal): Promise<void> {
  const tabs = new BroadcastChannel(key);
  const known = new Map<string, Tab>();
  const served = new Host();
  tabs.onmessage = ({ data: { to, from, said } }: { data: Addressed }) => {
    if (to !== "host" || !from || !said) return;
    const post: Post = (told) => tabs.postMessage({ to: from, told } satisfies Addressed);
    known.set(from, served.receive(post, said, known.get(from)));
  };
  tabs.postMessage({ to: "*", told: { ended: "the connection moved to another tab" } } satisfies Addressed);
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => {
      served.close();
      tabs.close();
      resolve();
    });
  });
}

/** Whom the token is for and what it allows, without what differs between two tokens for the same: its id, and times. */
function claims(token: string | undefined): string {
  try {
    const said = JSON.parse(atob(token!.split(".")[1]!.replace(/-/g, "+").replace(/_/g, "/")));
    return JSON.stringify(Object.entries(said).filter(([name, value]) => name !== "jti" && typeof value !== "number"));
  } catch {
    return token ?? "";
  }
} // biome-ignore format: dense

/** Pages with Trusted Types allow the policy `hubbub`. */
function scriptUrl(worker: string | URL): unknown {
  const types = (globalThis as { trustedTypes?: { createPolicy(name: string, rules: object): { createScriptURL(url: string): unknown } } }).trustedTypes;
  const url = String(worker);
  if (!types) return url;
  policy ??= types.createPolicy("hubbub", { createScriptURL: (given: string) => given });
  return policy.createScriptURL(url);
} // biome-ignore format: dense
let policy: { createScriptURL(url: string): unknown } | undefined;
