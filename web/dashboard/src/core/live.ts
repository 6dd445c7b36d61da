/** The socket of the dashboard. One connection carries all channels; a channel is subscribed while somebody shows it. */

import { type Signal, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

export type LinkState = "idle" | "connecting" | "live" | "waiting";
type Tick = (data: unknown) => void;

interface Envelope {
  event: string;
  payload?: {
    channel?: string;
    payload?: { json?: unknown };
    reqID?: number;
    failures?: { channel: string }[];
  };
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 20_000;
const LINGER_MS = 250;

export class Live {
  readonly state = signal<LinkState>("idle");
  /** Channels that the hub refused, because it does not have them or because of the level. */
  readonly refused = signal<ReadonlySet<string>>(new Set());
  /** The connection ended, or the hub refused it: who looks on may be nobody any more. */
  onLost: () => void = () => {};
  private readonly address: string;
  private socket: WebSocket | null = null;
  private readonly listeners = new Map<string, Set<Tick>>();
  private readonly last = new Map<string, unknown>();
  private failures = 0;
  private timer = 0;

  constructor(address: string) {
    this.address = address;
  }

  start(): void {
    if (this.socket || this.state.value === "connecting") return;
    clearTimeout(this.timer);
    this.state.value = "connecting";
    const socket = new WebSocket(this.address, "hubbub.json.v1");
    this.socket = socket;
    socket.onmessage = ({ data }) => this.receive(String(data));
    socket.onclose = () => this.closed(socket);
  }

  stop(): void {
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.state.value = "idle";
    this.last.clear();
  }

  listen(channel: string, tick: Tick): () => void {
    let ticks = this.listeners.get(channel);
    if (!ticks) {
      ticks = new Set();
      this.listeners.set(channel, ticks);
      this.send("Subscribe", { channels: [{ channel }] });
    }
    ticks.add(tick);
    if (this.last.has(channel)) tick(this.last.get(channel));
    return () => {
      ticks.delete(tick);
      if (ticks.size === 0) setTimeout(() => this.forget(channel), LINGER_MS);
    };
  }

  private forget(channel: string): void {
    const ticks = this.listeners.get(channel);
    if (!ticks || ticks.size > 0) return;
    this.listeners.delete(channel);
    this.last.delete(channel);
    this.send("Unsubscribe", { channels: [channel] });
  }

  private send(event: string, payload: unknown): void {
    if (this.state.value === "live") this.socket?.send(JSON.stringify({ event, payload }));
  }

  private receive(text: string): void {
    for (const line of text.split("\n")) {
      const { event, payload } = JSON.parse(line) as Envelope;
      if (event === "SessionInfo") this.opened();
      else if (event === "Ping") this.send("Pong", { reqID: payload?.reqID });
      else if (event === "Subscribe" && payload?.failures?.length) {
        this.refused.value = new Set([
          ...this.refused.value,
          ...payload.failures.map((each) => each.channel),
        ]);
      } else if (event === "Publish" && payload?.channel)
        this.deliver(payload.channel, payload.payload?.json);
    }
  }

  private opened(): void {
    this.failures = 0;
    this.refused.value = new Set();
    this.state.value = "live";
    const channels = [...this.listeners.keys()].map((channel) => ({ channel }));
    if (channels.length > 0) this.send("Subscribe", { channels });
  }

  private deliver(channel: string, data: unknown): void {
    if (!this.listeners.has(channel)) return;
    this.last.set(channel, data);
    for (const tick of this.listeners.get(channel) ?? []) tick(data);
  }

  private closed(socket: WebSocket): void {
    if (socket !== this.socket) return;
    this.socket = null;
    this.state.value = "waiting";
    this.onLost();
    const ceiling = Math.min(FIRST_PAUSE_MS * 2 ** this.failures, LONGEST_PAUSE_MS);
    this.failures += 1;
    this.timer = window.setTimeout(() => this.start(), ceiling * (0.5 + Math.random() / 2));
  }
}

export const live = new Live(`${location.origin.replace(/^http/, "ws")}/dashboard/socket`);

window.addEventListener("online", () => {
  if (live.state.value === "waiting") live.start();
});

/** Calls `tick` with what the channel says, while the component is shown. */
export function useTick<T>(channel: string | null, tick: (data: T) => void): void {
  useEffect(
    () => (channel === null ? undefined : live.listen(channel, (data) => tick(data as T))),
    [channel],
  );
}

/** The newest value of a channel. */
export function useLatest<T>(channel: string | null): Signal<T | undefined> {
  const box = useBox<T>(channel);
  useTick<T>(channel, (data) => {
    box.value = data;
  });
  return box;
}

const boxes = new Map<string, Signal<unknown>>();

function useBox<T>(channel: string | null): Signal<T | undefined> {
  const name = channel ?? "";
  let box = boxes.get(name);
  if (!box) {
    box = signal<unknown>(undefined);
    boxes.set(name, box);
  }
  return box as Signal<T | undefined>;
}
