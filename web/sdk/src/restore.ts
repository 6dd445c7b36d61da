/** The key to the session, kept for the page that comes after a reload of this tab. */

import type { Feed } from "./feed.ts";
import type { Options, Position } from "./types.ts";

export interface Saved {
  key?: string;
  positions?: Record<string, Position>;
}

/** Undefined where the browser's settings refuse the storage, and where it has no room: then the next page authenticates. */
function attempt<T>(work: (storage: Storage) => T): T | undefined {
  try {
    return work(globalThis.sessionStorage);
  } catch {
    return undefined;
  }
}

function nameOf(options: Options): string {
  return `hubbub:restore:${options.hub}`;
}

/** Taken out, so that a duplicated tab cannot have it, too. */
export function takeRestore(options: Options): Saved {
  if (options.restore !== "tab") return {};
  const name = nameOf(options);
  const taken = attempt((storage) => {
    const text = storage.getItem(name);
    storage.removeItem(name);
    return JSON.parse(text ?? "{}") as Saved;
  });
  return taken ?? {};
}

export function keepRestore(options: Options, key: string | undefined, feeds: Iterable<Feed>): void {
  if (options.restore !== "tab" || key === undefined) return;
  const positions: Record<string, Position> = {};
  for (const feed of feeds) if (feed.position && !feed.matches) positions[feed.name] = feed.position;
  attempt((storage) => storage.setItem(nameOf(options), JSON.stringify({ key, positions } satisfies Saved)));
}
