/** The SDK's client with nothing hidden: every frame that passes its transport is in a log. */

import {
  type Client,
  connect,
  type Data,
  type LiveDocument,
  liveDocument,
  type Message,
  type Notification,
  type Notifications,
  notifications,
  type Options,
  type Proof,
  type State,
  type Subscription,
  type Transport,
  webSocket,
} from "@hubbub/client";
import { CORE } from "@hubbub/client/internals";
import { signal } from "@preact/signals";
import { shownFrame } from "./frames";

export interface LogEntry {
  id: number;
  at: number;
  way: "in" | "out" | "note";
  event: string;
  /** Of a note. */
  text: string;
  /** Of a frame. */
  data: unknown;
}

export interface ChannelView {
  name: string;
  subscription: Subscription<Data>;
  kind: "messages" | "notifications" | "document";
  /** The newest first, with those that were stored before the subscription. */
  messages: Message<Data>[];
  document?: LiveDocument;
  notices?: { of: Notifications; page: Notification[] };
}

type Body = Record<string, unknown>;

/** A command that somebody sent to this client, and that waits for its answer. */
export interface Asked {
  reqid: string;
  cmd: string;
  sender: string;
  params?: Data;
}

const MOST_ENTRIES = 500;
const MOST_MESSAGES = 200;
const FIRST_MESSAGES = 50;
const MOST_ASKED = 20;
const ANSWER_MS = 30_000;
const CUT_MS = 3000;
const HEARTBEATS = new Set(["Ping", "Pong"]);
/** Events whose payload says who the session is. */
const INTRODUCTIONS = new Set(["SessionInfo", "Auth", "SessionRestored"]);

export class Inspected {
  readonly state = signal<State>("idle");
  readonly session = signal<Body | null>(null);
  readonly log = signal<readonly LogEntry[]>([]);
  readonly channels = signal<ReadonlyMap<string, ChannelView>>(new Map());
  /** Filters of this session by name, with the channel of each; empty: all channels. */
  readonly filters = signal<ReadonlyMap<string, string>>(new Map());
  /** Commands of others that nobody has answered here, the newest first. */
  readonly asked = signal<readonly Asked[]>([]);
  private client: Client | undefined;
  private away = false;
  private breakLink = (): void => {};
  private entries: LogEntry[] = [];
  private views = new Map<string, ChannelView>();
  private lastEntry = 0;
  private drawing = 0;

  connect(hub: string, proof: Proof): Promise<unknown> {
    this.leave();
    const options: Options = { ...proof, hub, transports: [this.tapped(webSocket())], requestMs: 15_000 };
    const client = connect(location.origin, options);
    this.client = client;
    client.on("state", ({ state, error, retryInMs }) => {
      if (client !== this.client) return;
      this.state.value = state === "closed" ? "idle" : state;
      if (error)
        this.note("Lost", `${error.message} (${error.code})${retryInMs ? `; again in ${retryInMs} ms` : ""}`);
    });
    client.on("gap", ({ channel, reason }) => this.note("Gap", `${channel}: ${reason}`));
    client.on("accessLost", ({ channel, error }) => {
      this.note("Access lost", `${channel}: ${error.message}`);
      this.forget(channel);
    });
    client.on("error", (error) => this.note("Error", String(error)));
    client[CORE].listen("HCommand", ({ command }) => {
      this.asked.value = [command, ...this.asked.value].slice(0, MOST_ASKED);
    });
    this.state.value = client.state;
    return client.ready;
  }

  /** For good: the session ends. */
  leave(): void {
    void this.client?.close();
    this.client = undefined;
    this.away = false;
    this.state.value = "idle";
    this.session.value = null;
    this.filters.value = new Map();
    this.asked.value = [];
    this.views = new Map();
    this.drawSoon();
  }

  /** As if the network were gone for a while: the connection breaks without a word, and dialling fails. */
  cut(): void {
    this.note("Cut", `the network is away for ${CUT_MS / 1000} s`);
    this.away = true;
    this.breakLink();
    setTimeout(() => {
      this.away = false;
    }, CUT_MS);
  }

  async subscribe(name: string): Promise<void> {
    const client = this.connected();
    if (this.views.has(name)) return;
    const kind = name.startsWith("doc:")
      ? "document"
      : name.startsWith("notification:")
        ? "notifications"
        : "messages";
    const view: ChannelView = { name, kind, messages: [], subscription: this.follow(client, name) };
    this.views.set(name, view);
    try {
      await view.subscription.ready;
    } catch (error) {
      this.forget(name);
      throw error;
    }
    if (kind === "document") this.open(view, liveDocument(client, name));
    else if (kind === "notifications") await this.notify(view, notifications(client, name));
    else if (!name.includes("*")) await this.remember(client, view);
    this.draw(); // now: who asked shows the channel next
  }

  publish(channel: string, data: Data, options: object): Promise<unknown> {
    return this.connected().channel<Data>(channel).publish(data, options);
  }

  call(method: string, data: Data): Promise<unknown> {
    return this.connected().call(method, data);
  }

  submit(stream: string, data: Data): Promise<unknown> {
    return this.connected().submit(stream, data);
  }

  authenticate(proof: Proof): Promise<unknown> {
    return this.connected().authenticate(proof);
  }

  /** An event of the protocol that the SDK has no function for. */
  ask(event: string, payload: Body): Promise<Body> {
    return this.connected()[CORE].ask(event, payload, { once: true });
  }

  /** Others have time to answer by hand. */
  command(command: Body): Promise<Body> {
    const patient = { ...command, timeout: ANSWER_MS };
    return this.connected()[CORE].ask("HCommand", { command: patient }, { once: true, moreMs: ANSWER_MS });
  }

  /** The result of a command of somebody else. After 5 seconds, or the sender's timeout, the hub drops it. */
  async answer({ cmd, reqid }: Asked, status: number, result: unknown): Promise<void> {
    this.asked.value = this.asked.value.filter((each) => each.reqid !== reqid);
    this.connected()[CORE].say("HResult", { result: { cmd, reqid, status, result } });
  }

  async setFilter(name: string, channel: string, condition: unknown): Promise<Body> {
    const answer = await this.ask("SetFilter", { name, condition, ...(channel && { channel }) });
    this.filters.value = new Map(this.filters.value).set(name, channel);
    return answer;
  }

  async unsetFilter(name: string): Promise<void> {
    const channel = this.filters.value.get(name);
    await this.ask("UnsetFilter", { name, ...(channel && { channel }) });
    const left = new Map(this.filters.value);
    left.delete(name);
    this.filters.value = left;
  }

  clear(): void {
    this.entries = [];
    this.drawSoon();
  }

  private connected(): Client {
    if (!this.client) throw new Error("not connected");
    return this.client;
  }

  private follow(client: Client, name: string): Subscription<Data> {
    const subscription = client.channel<Data>(name).subscribe((message) => {
      const view = this.views.get(name);
      if (!view) return;
      view.messages.unshift(message);
      view.messages.length = Math.min(view.messages.length, MOST_MESSAGES);
      this.drawSoon();
    });
    for (const type of ["presence", "occupancy"] as const) subscription.on(type, () => this.drawSoon());
    return subscription;
  }

  /** What was published before the subscription, where the channel keeps it. */
  private async remember(client: Client, view: ChannelView): Promise<void> {
    try {
      const page = await client.channel<Data>(view.name).history({ limit: FIRST_MESSAGES });
      const known = new Set(view.messages.map((message) => message.id));
      const older = page.messages.filter((message) => !known.has(message.id)).reverse();
      view.messages.push(...older.slice(0, MOST_MESSAGES - view.messages.length));
    } catch (error) {
      this.note("History", `${view.name}: ${(error as Error).message}`);
    }
  }

  private open(view: ChannelView, document: LiveDocument): void {
    view.document = document;
    document.on("change", () => this.drawSoon());
    document.ready.catch((error) => this.note("Error", `${view.name}: ${error.message}`));
  }

  private async notify(view: ChannelView, of: Notifications): Promise<void> {
    view.notices = { of, page: [] };
    const read = async (): Promise<void> => {
      view.notices = { of, page: await of.page({ limit: 50 }) };
      this.drawSoon();
    };
    const readAgain = () =>
      void read().catch((error) => this.note("Error", `${view.name}: ${error.message}`));
    of.on("new", readAgain);
    of.on("read", readAgain);
    of.on("unread", () => this.drawSoon());
    await read();
  }

  /** Ends the subscription. */
  forget(name: string): void {
    const view = this.views.get(name);
    this.views.delete(name);
    void view?.subscription.unsubscribe();
    void view?.document?.close();
    void view?.notices?.of.close();
    this.drawSoon();
  }

  /** A transport that writes down what passes, and that can be cut. */
  private tapped(transport: Transport): Transport {
    return {
      name: transport.name,
      open: (base, hub, codec, token, events) => {
        if (this.away) {
          setTimeout(() => events.ended(1006, "the network is cut"));
          return { send: () => true, buffered: 0, close: () => {} };
        }
        this.note("Connecting", `${base.origin}, hub ${hub}, ${codec.subprotocol}`);
        let opened = false;
        const link = transport.open(base, hub, codec, token, {
          receive: (envelopes) => {
            if (!opened) this.note("Connection open", transport.name);
            opened = true;
            for (const [event, payload] of envelopes) this.received(event, payload);
            events.receive(envelopes);
          },
          ended: (code, reason) => {
            this.note("Connection closed", `${code} ${reason}`);
            events.ended(code, reason);
          },
        });
        this.breakLink = () => link.close();
        return {
          send: (envelopes, maxBytes) => {
            for (const [event, payload] of envelopes) this.write("out", event, payload);
            return link.send(envelopes, maxBytes);
          },
          get buffered() {
            return link.buffered;
          },
          close: () => link.close(),
        };
      },
    };
  }

  private received(event: string, payload: Body): void {
    this.write("in", event, payload);
    if (!INTRODUCTIONS.has(event) || payload.error !== undefined) return;
    const { token: _, reqID: __, ...said } = payload;
    this.session.value = { ...this.session.value, ...said };
  }

  private write(way: LogEntry["way"], event: string, payload: Body): void {
    if (HEARTBEATS.has(event)) return;
    this.add(way, event, "", shownFrame(payload));
  }

  private note(event: string, text: string): void {
    this.add("note", event, text, null);
  }

  private add(way: LogEntry["way"], event: string, text: string, data: unknown): void {
    this.lastEntry += 1;
    this.entries.unshift({ id: this.lastEntry, at: Date.now(), way, event, text, data });
    this.entries.length = Math.min(this.entries.length, MOST_ENTRIES);
    this.drawSoon();
  }

  /** Once in a frame: a busy channel has more messages than anybody can read. */
  private drawSoon(): void {
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = 0;
      this.draw();
    });
  }

  private draw(): void {
    this.log.value = [...this.entries];
    this.channels.value = new Map([...this.views].map(([name, view]) => [name, { ...view }]));
  }
}
