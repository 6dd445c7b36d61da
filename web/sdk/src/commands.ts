/** Structured commands, conversations and filters of the session: docs/commands.md. A bot in five lines:
 *
 *     const bot = connect(url, { hub: "demo", token });
 *     onCommand(bot, "dim", ({ params }) => ({ brightness: params.to }));
 */

import {
  type Client,
  type Filter,
  HubbubError,
  type Json,
  type Message,
  type Page,
  type Signal,
  type Unlisten,
} from "./index.ts";
import { CALLS, CORE, Delivered, newId } from "./internals.ts";
import type { Wire } from "./types.ts";

/** How a command ends. */
export const Status = {
  ok: 0,
  technical: 1,
  notConnected: 3,
  notAuthorized: 5,
  missing: 6,
  invalid: 7,
  notAvailable: 9,
  timeout: 10,
} as const;
export type Status = (typeof Status)[keyof typeof Status];

/** A command ended with another status than 0. A handler throws it to end one so. */
export class CommandRefused extends HubbubError {
  override readonly name = "CommandRefused";
  readonly status: Status;

  constructor(status: Status, message: string) {
    super("command_refused", message);
    this.status = status;
  }
}

export interface CommandOptions extends Signal {
  /** The address of who carries it out: `bob@demo`, or one session of bob, `bob@demo/<session>`. Without one, the hub. */
  entity?: string;
  /** For whom a service or an administrator asks. */
  requester?: string;
  /** The hub keeps the command and its result. */
  store?: boolean;
  timeoutMs?: number;
}

/** A command that somebody sent to this client. */
export interface Command {
  cmd: string;
  // biome-ignore lint/suspicious/noExplicitAny: what the sender says; a handler checks what it uses
  params: any;
  /** The sender's full address, proven by the hub. */
  sender: string;
  entity: string;
  reqid: string;
  sent: Date;
}

/** Returns the result, a JSON value, or a promise of it; undefined: there is nothing to say. What it throws is the status 1 with its
 * text, or that of `CommandRefused`. */
export type CommandHandler = (command: Command) => unknown;

/** A conversation that has stored messages. */
export interface Thread<T = Json> {
  conversation: string;
  /** The oldest message that is still there. */
  first: Message<T>;
  messages: number;
  lastSerial: bigint;
  updatedAt: Date;
  /** What the newest message with the event `hConvState` says. */
  status?: string;
}

/** A stored message that was found; `score` is greater for better hits, from 0 to 1. */
export interface SearchHit<T = Json> {
  message: Message<T>;
  score: number;
}

export interface SearchOptions extends Signal {
  /** Only in this channel, or in those of a pattern. */
  channel?: string;
  since?: Date;
  until?: Date;
  filter?: Filter;
  /** The best first, or the newest first. */
  order?: "rank" | "time";
  limit?: number;
  /** `cursor` of the page before; everything else stays the same. */
  cursor?: string;
}

export interface NamedFilter extends Filter {
  name: string;
  channel?: string;
}

type Core = Client[typeof CORE];

/** Of each client: what it answers, and the filters that a new session is given again. */
interface State {
  handlers: Map<string, CommandHandler>;
  filters: Map<string, NamedFilter>;
}

const states = new WeakMap<Core, State>();

const { History } = CALLS;
const calls: typeof CALLS = {
  HCommand: ({ command }) => ["POST", ["commands"], {}, command],
  History: (query) => {
    const { channel, conversationID, ...more } = query;
    return conversationID ? ["GET", ["channels", channel, "threads", conversationID], more] : History!(query);
  },
  Search: ({ query: q, filter, ...more }) => ["GET", ["search"], { q, ...more, filter: filter && JSON.stringify(filter) }],
  Threads: ({ channel, ...query }) => ["GET", ["channels", channel, "threads"], query],
}; // biome-ignore format: a table

function stateOf(core: Core): State {
  let state = states.get(core);
  if (!state) {
    const handlers = new Map<string, CommandHandler>();
    const filters = new Map<string, NamedFilter>();
    state = { handlers, filters };
    states.set(core, state);
    core.listen("HCommand", ({ command }) => void answer(core, handlers, command));
    core.on("connected", ({ restored }) => {
      for (const each of restored ? [] : filters.values())
        core.ask("SetFilter", { ...each }, { once: true }).catch(core.report);
    });
  }
  return state;
}

/** Have the hub, or another client, carry out a command; resolves with its result. Rejects with `CommandRefused`, and with
 * `connection_lost` where it is not known whether it was carried out. */
export async function command<R = Json | undefined>(
  client: Client,
  cmd: string,
  params?: Json,
  { entity, requester, store, timeoutMs, signal }: CommandOptions = {},
): Promise<R> {
  Object.assign(CALLS, calls);
  const { userId = "anonymous", hub } = await client.ready;
  const asked: Wire = {
    reqid: newId(),
    sender: `${encoded(userId)}@${encoded(hub)}`,
    entity: entity ?? `hnode@${encoded(hub)}`,
    cmd,
    params,
    requester,
    timeout: timeoutMs,
  };
  if (store) asked.transient = false;
  const said = await client[CORE].ask(
    "HCommand",
    { command: asked },
    { once: true, moreMs: timeoutMs ?? 5_000, signal },
  );
  const { status, result } = said.status === undefined ? said.result : said; // HTTP has no envelope
  if (status) throw new CommandRefused(status, String(result ?? ""));
  return result;
}

/** Answer a command of other clients by this function; upper and lower case are the same. Of all sessions of the user the first
 * answer counts. Needs a WebSocket of the client's own. Throws `conflict` where the command has a function. */
export function onCommand(client: Client, cmd: string, handler: CommandHandler): Unlisten {
  const { handlers } = stateOf(client[CORE]);
  const name = cmd.toLowerCase();
  if (handlers.has(name)) throw new HubbubError("conflict", `the command '${cmd}' has a function already`);
  handlers.set(name, handler);
  return () => void (handlers.get(name) === handler && handlers.delete(name));
}

async function answer(core: Core, handlers: State["handlers"], wire: Wire): Promise<void> {
  const { cmd, reqid, sent, params = null, ...rest } = wire;
  const handler = handlers.get(String(cmd).toLowerCase());
  if (!handler) return; // another session of the user may know it
  const ended = (status: number, result: unknown) =>
    core.say("HResult", { result: { cmd, reqid, status, result } });
  let status: number = Status.ok;
  let result: unknown;
  try {
    result = (await handler({ cmd, reqid, params, sent: new Date(sent), ...rest })) ?? undefined;
  } catch (error) {
    status = error instanceof CommandRefused ? error.status : Status.technical;
    result = (error as Error)?.message || String(error);
    if (status === Status.technical) core.report(error);
  }
  try {
    await core.connected(); // also on a connection that came after that of the command: the session is the same
    if (!ended(status, result)) ended(Status.technical, "the result is larger than the hub takes");
  } catch (error) {
    core.report(error);
  }
}

/** The conversations of a channel that stores, in the order of their first messages; `after` is the serial of such a message. */
export async function threads<T = Json>(
  client: Client,
  channel: string,
  { after, ...more }: { status?: string; after?: bigint; limit?: number } = {},
): Promise<{ threads: Thread<T>[]; more: boolean }> {
  Object.assign(CALLS, calls);
  const query = { channel, after: after && String(after), ...more };
  const page = await client[CORE].ask("Threads", query);
  const found = (page.threads ?? []).map(
    ({ conversationID, first, lastSerial, updatedAt, ...rest }: Wire) => ({
      ...rest,
      conversation: conversationID,
      first: new Delivered<T>(first, page.epoch),
      lastSerial: BigInt(lastSerial),
      updatedAt: new Date(updatedAt),
    }),
  );
  return { threads: found, more: page.more ?? false };
}

/** The stored messages of a conversation, oldest first, from behind the serial `after`. */
export async function thread<T = Json>(
  client: Client,
  channel: string,
  conversation: string,
  { after = 0n, limit }: { after?: bigint; limit?: number } = {},
): Promise<Page<T>> {
  Object.assign(CALLS, calls);
  const query = { channel, conversationID: conversation, after: String(after), limit };
  const page = await client[CORE].page(query);
  const messages = page.messages.map((wire: Wire) => new Delivered<T>(wire, page.epoch));
  const next = page.next === undefined ? messages.at(-1)?.position : `${page.next}.${page.epoch}`;
  return { messages, more: page.more ?? false, recovered: page.recovered ?? false, ...(next && { next }) };
}

/** Stored messages with all words of the query, in all channels that one may read and whose rules have `search`; words in quotation
 * marks must follow each other. There may be more where there is a `cursor`. Older messages of `behind` channels are not indexed yet. */
export async function search<T = Json>(
  client: Client,
  query: string,
  { since, until, signal, ...more }: SearchOptions = {},
): Promise<{ hits: SearchHit<T>[]; cursor?: string; behind: number }> {
  Object.assign(CALLS, calls);
  const asked = { query, since: since?.getTime(), until: until?.getTime(), ...more };
  const { hits = [], cursor, behind = 0 } = await client[CORE].ask("Search", asked, { signal });
  const found = hits.map(({ message, score = 0 }: Wire) => ({ message: new Delivered<T>(message), score }));
  return { hits: found, behind, ...(cursor && { cursor }) };
}

/** From now on messages must also pass this filter: those of a channel, or of a pattern, or of all. One of the same name and channel
 * is replaced. A session that begins anew is given its filters again. */
export async function setFilter(client: Client, filter: NamedFilter): Promise<void> {
  const { filters } = stateOf(client[CORE]);
  await client[CORE].ask("SetFilter", { ...filter });
  filters.set(JSON.stringify([filter.name, filter.channel]), filter);
}

/** Without a channel: all filters of the name. */
export async function unsetFilter(client: Client, name: string, channel?: string): Promise<void> {
  const { filters } = stateOf(client[CORE]);
  await client[CORE].ask("UnsetFilter", { name, channel });
  for (const [key, filter] of filters)
    if (filter.name === name && (channel ?? filter.channel) === filter.channel) filters.delete(key);
}

/** Those of the session, in the order in which they are tried. */
export async function filters(client: Client, channel?: string): Promise<NamedFilter[]> {
  return (await client[CORE].ask("ListFilters", { channel })).filters ?? [];
}

/** Characters that an address forbids are percent-encoded in hubs and user ids. */
function encoded(text: string): string {
  return text.replace(/[@/<>'"%]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}
