/** Server-sent events, loaded where they are needed. What is one file anyway has them in it: see build.mjs. */

import type { Transport } from "./types.ts";

export async function loadStreams(): Promise<Transport> {
  return (await import("./sse.ts")).serverSentEvents();
}
