/** What browsers say about the page and the network. Nothing in runtimes that say nothing. */

import type { Lifecycle, Options, Unlisten } from "./types.ts";

export function watchPage(hidden: Options["hidden"], life: Lifecycle): Unlisten {
  const page = globalThis.document as Document | undefined;
  if (typeof globalThis.addEventListener !== "function") return () => {};
  let timer: ReturnType<typeof setTimeout> | undefined;
  const visibility = () => {
    clearTimeout(timer);
    if (page?.visibilityState !== "hidden") life.wake();
    else if (typeof hidden === "object") timer = setTimeout(() => life.leave(false), hidden.leaveAfterMs);
  };
  const heard: [EventTarget | undefined, string, (event: Event) => void][] = [
    [globalThis, "online", life.wake],
    [globalThis, "pageshow", life.wake],
    [globalThis, "offline", life.doubt],
    [globalThis, "pagehide", (event) => life.leave(true, (event as PageTransitionEvent).persisted)],
    [page, "visibilitychange", visibility],
  ];
  for (const [target, type, f] of heard) target?.addEventListener(type, f);
  return () => {
    clearTimeout(timer);
    for (const [target, type, f] of heard) target?.removeEventListener(type, f);
  };
}
