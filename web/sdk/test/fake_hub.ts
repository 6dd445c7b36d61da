/** A hub of the unit tests: sockets that say what a test tells them to, and remember what they were told. */

import { vi } from "vitest";
import type { Wire } from "../src/index.ts";
import { connect, type Options, webSocket } from "../src/index.ts";

export const INFO = {
  hubID: "h",
  sessionID: "s1",
  hubAllowAnonymous: true,
  pingInterval: 25,
  maxMessageBytes: 1000,
};

/** What the hub answers over HTTP, and what it was asked. Undefined: nobody is there. */
export const overHttp: { asked: string[]; error: Wire } = { asked: [], error: undefined };

export class FakeSocket {
  static all: FakeSocket[] = [];
  readonly url: string;
  readyState = 0;
  bufferedAmount = 0;
  binaryType = "";
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  onerror: (() => void) | null = null;
  /** Events that the client sent and no test has looked at. */
  sent: [string, Wire][] = [];
  /** Answers by event; others are left unanswered. */
  answers: Record<string, (payload: Wire) => Wire> = {
    Subscribe: ({ reqID, channels }) => [
      "Subscribe",
      { reqID, channels: channels.map(confirmed), failures: [] },
    ],
    Unsubscribe: ({ reqID, channels }) => ["Unsubscribe", { reqID, unsubscribedChannels: channels }],
    Ping: ({ reqID }) => ["Pong", { reqID }],
    Auth: ({ reqID }) => ["Auth", { reqID, success: true, userID: "ann" }],
  };
  closed = false;
  closeCode: number | undefined;

  constructor(url: string) {
    this.url = url;
    FakeSocket.all.push(this);
  }

  static get last(): FakeSocket {
    return FakeSocket.all.at(-1)!;
  }

  /** From the hub. */
  say(event: string, payload: Wire = {}): void {
    this.onmessage?.({ data: JSON.stringify({ event, payload }) });
  }

  greet(more: Wire = {}): void {
    this.readyState = 1;
    this.say("SessionInfo", { ...INFO, ...more });
  }

  end(code = 1006, reason = ""): void {
    this.readyState = 3;
    this.onclose?.({ code, reason });
  }

  // -- for the client

  send(data: string): void {
    for (const line of data.split("\n")) {
      const { event, payload } = JSON.parse(line);
      this.sent.push([event, payload]);
      const answer = this.answers[event]?.(payload);
      if (answer) queueMicrotask(() => this.say(answer[0], answer[1]));
    }
  }

  close(code?: number): void {
    this.closed = true;
    this.closeCode = code;
  }

  events(name: string): Wire[] {
    return this.sent.filter(([event]) => event === name).map(([, payload]) => payload);
  }
}

export function confirmed({ channel, serial, epoch }: Wire): Wire {
  return { channel, serial: serial ?? "0", epoch: epoch ?? "e1", recovered: true };
}

export function message(channel: string, serial: number, more: Wire = {}): Wire {
  return {
    channel,
    event: "",
    payload: { json: serial },
    msgID: `${channel}-${serial}`,
    ts: serial,
    channelSerial: String(serial),
    ...more,
  };
}

/** A client on fake sockets, of which the first has been greeted. */
export async function connected(options: Partial<Options> = {}) {
  FakeSocket.all = [];
  overHttp.asked = [];
  overHttp.error = undefined;
  vi.stubGlobal("fetch", async (url: URL) => {
    overHttp.asked.push(url.href);
    if (!overHttp.error) throw new TypeError("fetch failed");
    return Response.json({ error: overHttp.error }, { status: 426 });
  });
  const client = connect("http://hub.test", {
    hub: "h",
    transports: [webSocket(FakeSocket as never)],
    ...options,
  });
  await settle();
  FakeSocket.last?.greet();
  await settle();
  return client;
}

/** All that waits for nothing but its turn has happened. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 30; i++) await Promise.resolve();
}
