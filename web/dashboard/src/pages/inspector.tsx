/** A client of the hub in the browser: connect, authenticate, subscribe, publish, call; and see every frame. */

import type { Data, Json as JsonData, LiveDocument, Operation, Proof } from "@hubbub/client";
import { useEffect, useState } from "preact/hooks";
import { post } from "../core/api";
import { clock, count, fromBase64, plural, preciseClock, visible } from "../core/format";
import { type ChannelView, Inspected, type LogEntry } from "../core/inspected";
import { route } from "../core/router";
import { hub, mayWrite, me, ofHub } from "../core/session";
import { JsonField } from "../ui/form";
import { brief, Json, outline, type Payload, PayloadView } from "../ui/json";
import { Act, Copy, Dialog, Empty, Facts, Field, Head, Section, Tabs, Tag, Time } from "../ui/parts";
import { List } from "../ui/table";
import { codeOf } from "./inspector-code";

/** It stays while other pages are looked at. */
const client = new Inspected();
let clientHub = "";

const STATES = {
  idle: "not connected",
  connecting: "connecting",
  connected: "connected",
  waiting: "connecting again soon",
  closed: "not connected",
};

export default function Inspector() {
  const [code, setCode] = useState(false);
  const [shown, setShown] = useState(route.value.query.get("channel") ?? "");
  useEffect(() => {
    if (clientHub !== "" && clientHub !== hub.value) client.leave();
    clientHub = hub.value;
  }, [hub.value]);
  const state = client.state.value;
  return (
    <>
      <Head title="Inspector">
        <Tag kind={state === "connected" ? "good" : state === "waiting" ? "bad" : "plain"}>
          {STATES[state]}
        </Tag>
        <button type="button" disabled={state !== "connected"} onClick={() => client.cut()}>
          Cut network
        </button>
        <button type="button" disabled={state === "idle"} onClick={() => client.leave()}>
          Disconnect
        </button>
        <button type="button" onClick={() => setCode(true)}>
          Copy as code
        </button>
      </Head>
      {state === "idle" && <Connect first={shown} />}
      <div class="split">
        <div>
          <Session />
          <Log />
        </div>
        <div>
          <Channels shown={shown} onShow={setShown} />
          <Actions channel={shown} />
        </div>
      </div>
      {code && <Code channel={shown || "news"} onClose={() => setCode(false)} />}
    </>
  );
}

const TOKEN_SECONDS = 3600;

function Connect({ first }: { first: string }) {
  const [as, setAs] = useState<"user" | "token" | "anonymous">(mayWrite.value ? "user" : "anonymous");
  const [user, setUser] = useState(me.value?.userID ?? "inspector");
  const [pattern, setPattern] = useState("*");
  const [token, setToken] = useState("");
  const [extra, setExtra] = useState<unknown>({});
  const start = async (): Promise<void> => {
    const body = {
      userID: user,
      level: "client",
      channels: [{ channel: pattern, publish: true, subscribe: true }],
      rpcs: ["*"],
      extra,
      ttlSeconds: TOKEN_SECONDS,
    };
    const made = async () => (await post<{ token: string }>(ofHub("/tokens"), body)).token;
    const proofs: Record<typeof as, Proof> = {
      user: { token: made },
      token: { token: token.trim() },
      anonymous: {},
    };
    const ready = client.connect(hub.value, proofs[as]);
    if (!first) return;
    await ready;
    await client.subscribe(first);
  };
  return (
    <Section
      title={`Connect to ${hub.value}`}
      note="A token for an hour is made for this; that is in the audit log."
    >
      <div class="form">
        <Field label="As">
          <select value={as} onChange={(event) => setAs(event.currentTarget.value as typeof as)}>
            <option value="user" disabled={!mayWrite.value}>
              a user, with a new token
            </option>
            <option value="token">whom this token names</option>
            <option value="anonymous">nobody</option>
          </select>
        </Field>
        {as === "user" && (
          <>
            <Field label="User">
              <input value={user} onInput={(event) => setUser(event.currentTarget.value)} />
            </Field>
            <Field label="May use channels like">
              <input value={pattern} onInput={(event) => setPattern(event.currentTarget.value)} />
            </Field>
            <div class="whole">
              <JsonField
                label="Extra, which others see in presence"
                rows={2}
                value={extra}
                onChange={setExtra}
              />
            </div>
          </>
        )}
        {as === "token" && (
          <Field label="Token">
            <input
              type="password"
              autocomplete="off"
              value={token}
              onInput={(event) => setToken(event.currentTarget.value)}
            />
          </Field>
        )}
      </div>
      <div class="tools end">
        <Act kind="main" own={as !== "user"} act={start}>
          Connect
        </Act>
      </div>
    </Section>
  );
}

interface Granted {
  channel: string;
  publish: boolean;
  subscribe: boolean;
}

function Session() {
  const session = client.session.value;
  if (!session) return null;
  const grants = (session.channelAuthorizations ?? []) as Granted[];
  const rpcs = (session.rpcAuthorizations ?? []) as string[];
  const limit = (value: unknown): string => (Number(value) > 0 ? count(Number(value)) : "no limit");
  return (
    <Section title="Session">
      <h3>Connection</h3>
      <Facts
        of={[
          ["state", STATES[client.state.value]],
          ["session", <span class="mono">{String(session.sessionID)}</span>],
          ["heartbeat", `every ${session.pingInterval} s`],
          ["largest frame", `${count(Number(session.maxMessageBytes))} bytes`],
        ]}
      />
      <h3 class="gap">User</h3>
      <Facts
        of={[
          ["user", session.userID == null ? "anonymous" : visible(String(session.userID))],
          ["authenticated", session.authenticated || session.success ? "yes" : "no"],
          ["expires", session.expiresAt ? <Time at={Number(session.expiresAt) * 1000} /> : "never"],
        ]}
      />
      <h3 class="gap">Hub</h3>
      <Facts
        of={[
          ["hub", String(session.hubID)],
          ["anonymous", session.hubAllowAnonymous ? "allowed" : "not allowed"],
          ["user channels", session.hubAllowUserChannel ? "yes" : "no"],
          ["public", session.defaultPublic ? "by default" : "where rules say so"],
          ["channels", limit(session.maxChannels)],
          ["messages/s", limit(session.messagesPerSecond)],
        ]}
      />
      <h3 class="gap">Permissions</h3>
      <List
        label="Permissions"
        rows={grants}
        id={(grant) => grant.channel}
        empty={<p class="note">None of its own: the rules of the channels decide.</p>}
        columns={[
          { head: "channels", cell: (grant) => <span class="mono">{visible(grant.channel)}</span> },
          { head: "subscribe", cell: (grant) => (grant.subscribe ? "yes" : "no") },
          { head: "publish", cell: (grant) => (grant.publish ? "yes" : "no") },
        ]}
      />
      {rpcs.length > 0 && <p class="note gap">Services: {rpcs.map(visible).join(", ")}</p>}
      <h3 class="gap">Extra data</h3>
      <Json value={session.extra ?? {}} />
    </Section>
  );
}

const MARKS: Record<LogEntry["way"], [string, string, string]> = {
  in: ["in-mark", "←", "from the hub"],
  out: ["out-mark", "→", "to the hub"],
  note: ["quiet", "·", "note"],
};

/** What is in a frame is drawn when somebody wants to see it. */
function Entry({ of }: { of: LogEntry }) {
  const [open, setOpen] = useState(false);
  const [hue, sign, way] = MARKS[of.way];
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="quiet">{preciseClock(of.at)}</span>
        <span class={hue} title={way}>
          {sign}
        </span>
        <b>{of.event}</b>
        <span class="quiet">{said(of)}</span>
      </summary>
      {open && of.data !== null && <Json value={of.data} open={3} />}
    </details>
  );
}

const said = (entry: LogEntry): string => entry.text || outline(entry.data);

function Log() {
  const [find, setFind] = useState("");
  const entries = client.log.value.filter(
    (entry) => find === "" || `${entry.event} ${said(entry)}`.toLowerCase().includes(find.toLowerCase()),
  );
  return (
    <Section
      title="Event log"
      tools={
        <>
          <input
            type="search"
            data-search
            placeholder="Filter"
            aria-label="Filter the log"
            value={find}
            onInput={(event) => setFind(event.currentTarget.value)}
          />
          <button type="button" onClick={() => client.clear()}>
            Clear
          </button>
        </>
      }
    >
      {entries.length === 0 ? (
        <p class="note">Frames appear here as they pass. Heartbeats are left out.</p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keys
        <div class="log" role="region" aria-label="Event log" tabIndex={0}>
          {entries.map((entry) => (
            <Entry key={entry.id} of={entry} />
          ))}
        </div>
      )}
    </Section>
  );
}

function Channels({ shown, onShow }: { shown: string; onShow: (name: string) => void }) {
  const [name, setName] = useState(shown || "");
  const views = [...client.channels.value.values()];
  const open = client.channels.value.get(shown) ?? views[0];
  useEffect(() => {
    if (open && open.name !== shown) onShow(open.name);
  }, [open?.name]);
  return (
    <Section
      title="Channels"
      tools={
        <div class="tools">
          <input
            placeholder="channel or pattern"
            aria-label="Channel"
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
          <WireAct disabled={name === ""} act={() => client.subscribe(name).then(() => onShow(name))}>
            Subscribe
          </WireAct>
        </div>
      }
    >
      {views.length === 0 ? (
        <Empty>
          Subscribed to nothing yet. Names that begin with doc: hold a document, those with notification:
          notifications.
        </Empty>
      ) : (
        <>
          <Tabs
            label="Channels"
            of={views.map((view) => [view.name, view.name] as const)}
            value={open?.name ?? ""}
            onChange={onShow}
          />
          {open && <Channel key={open.name} of={open} />}
        </>
      )}
    </Section>
  );
}

/** As `Act`, for what goes over the inspector's own connection. */
function WireAct(props: Parameters<typeof Act>[0]) {
  return <Act {...props} own disabled={props.disabled || client.state.value !== "connected"} />;
}

function Channel({ of }: { of: ChannelView }) {
  const { members, occupancy, position } = of.subscription;
  return (
    <div class="gap">
      <Facts
        of={[
          ["kind", <Tag kind="good">{of.name.includes("*") ? "pattern" : of.kind}</Tag>],
          ["occupancy", occupancy === undefined ? "not told" : plural(occupancy, "session")],
          ["position", <span class="mono">{position ?? "–"}</span>],
        ]}
      />
      <h3 class="gap">Presence{members.size > 0 && `, ${plural(members.size, "member")}`}</h3>
      <List
        label="Presence"
        rows={[...members.values()]}
        id={(member) => member.sessionId}
        empty={<p class="note">Not told: the rules of this channel have no presence.</p>}
        columns={[
          { head: "session", cell: (member) => <span class="mono">{member.sessionId}</span> },
          {
            head: "user",
            cell: (member) => (member.userId ? visible(member.userId) : <span class="quiet">anonymous</span>),
          },
          {
            head: "extra",
            cell: (member) =>
              Object.keys(member.extra).length > 0 ? <Json value={member.extra} open={1} /> : "–",
          },
          { head: "since", cell: (member) => <Time at={+member.since} /> },
        ]}
      />
      {of.document && <DocumentView view={of} of={of.document} />}
      {of.notices ? <Notices view={of} of={of.notices} /> : <Messages of={of} />}
      <div class="tools end">
        <button type="button" onClick={() => client.forget(of.name)}>
          Unsubscribe
        </button>
      </div>
    </div>
  );
}

function Messages({ of }: { of: ChannelView }) {
  if (of.messages.length === 0 && of.document) return null;
  if (of.messages.length === 0)
    return <p class="note gap">No message yet. Publish one below, or let another client do it.</p>;
  return (
    <>
      <h3 class="gap">{plural(of.messages.length, "message")}</h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keys */}
      <div class="log" role="region" aria-label="Messages" tabIndex={0}>
        {of.messages.map((message) => (
          <details key={message.id}>
            <summary>
              <span class="quiet">{clock(+message.at)}</span>
              <span class="in-mark">{message.retained ? "●" : "←"}</span>
              <b>{visible(message.event) || (message.serial ? String(message.serial) : "message")}</b>
              <span class="mono">{visible(brief(payloadOf(message.data)))}</span>
            </summary>
            <PayloadView of={payloadOf(message.data)} open={3} />
            <p class="quiet">
              {message.channel !== of.name && `${message.channel}, `}
              {message.publisher ? `by ${message.publisher}, ` : ""}serial {String(message.serial ?? "none")},
              id {message.id}
            </p>
          </details>
        ))}
      </div>
    </>
  );
}

function payloadOf(data: Data): Payload {
  if (data instanceof Uint8Array) return { bytes: data };
  return typeof data === "string" ? { text: data } : { json: data };
}

/** `view` is new whenever something changed; the document behind it is always the same object. */
function DocumentView({ of }: { view: ChannelView; of: LiveDocument }) {
  const [operations, setOperations] = useState<unknown>([{ op: "add", path: "/title", value: "Hello" }]);
  return (
    <div class="gap">
      <h3>
        Document, version {count(of.version)}{" "}
        {of.pending > 0 && <Tag kind="warn">{count(of.pending)} not confirmed</Tag>}
      </h3>
      <div class="code">
        <Json value={of.value} open={4} />
      </div>
      <div class="gap">
        <JsonField
          label="Change it: operations of a JSON Patch"
          rows={4}
          value={operations}
          onChange={setOperations}
        />
      </div>
      <div class="tools end">
        <WireAct act={() => of.change(operations as Operation[])}>Change</WireAct>
      </div>
    </div>
  );
}

function Notices({ of: { of, page } }: { view: ChannelView; of: NonNullable<ChannelView["notices"]> }) {
  return (
    <div class="gap">
      <h3>{count(of.unread)} unread</h3>
      <List
        label="Notifications"
        rows={page}
        id={(notice) => notice.id}
        empty={<p class="note">No notification.</p>}
        columns={[
          { head: "time", cell: (notice) => <Time at={+notice.at} /> },
          {
            head: "state",
            cell: (notice) => (notice.read ? <Tag>read</Tag> : <Tag kind="good">unread</Tag>),
          },
          { head: "payload", cell: (notice) => <PayloadView of={payloadOf(notice.data)} open={2} /> },
          {
            head: "",
            cell: (notice) =>
              !notice.read && <WireAct act={() => of.markRead([notice.id])}>Mark read</WireAct>,
          },
        ]}
      />
    </div>
  );
}

// -- what a client can do ---------------------------------------------------------------------------

const DOINGS = [
  ["publish", "Publish"],
  ["rpc", "Call"],
  ["stream", "Stream"],
  ["command", "Command"],
  ["search", "Search"],
  ["filter", "Filter"],
  ["auth", "Authenticate"],
] as const;
type Doing = (typeof DOINGS)[number][0];

function Actions({ channel }: { channel: string }) {
  const [doing, setDoing] = useState<Doing>("publish");
  const [answer, setAnswer] = useState<unknown>(null);
  const done = (promise: Promise<unknown>): Promise<void> => promise.then(setAnswer);
  useEffect(() => setAnswer(null), [doing]);
  return (
    <Section title="Do" tools={<Tabs label="What to do" of={DOINGS} value={doing} onChange={setDoing} />}>
      {doing === "publish" && <PublishForm channel={channel} done={done} />}
      {doing === "rpc" && (
        <Simple
          key="rpc"
          label="Method"
          first="prices.get"
          body={{ fruit: "pear" }}
          act={(method, json) => done(client.call(method, json as JsonData))}
          verb="Call"
        />
      )}
      {doing === "stream" && (
        <Simple
          key="stream"
          label="Stream"
          first="orders"
          body={{ id: 1 }}
          act={(stream, json) => done(client.submit(stream, json as JsonData))}
          verb="Hand over"
        />
      )}
      {doing === "command" && <CommandForm done={done} />}
      {doing === "search" && <SearchForm channel={channel} done={done} />}
      {doing === "filter" && (
        <Simple
          key="filter"
          label="Name"
          first="cheap"
          body={{ lt: { "payload.price": 10 } }}
          act={(name, condition) => done(client.setFilter(name, channel, condition))}
          verb="Set"
          hint={channel ? `Of the channel ${channel}.` : "Of all channels."}
        />
      )}
      {doing === "command" && <Asked />}
      {doing === "filter" && <Filters />}
      {doing === "auth" && <Authenticate done={done} />}
      {answer !== null && (
        <div class="code gap">
          <Json name="answer" value={answer} open={3} />
        </div>
      )}
    </Section>
  );
}

function Filters() {
  const filters = [...client.filters.value];
  if (filters.length === 0) return null;
  return (
    <List
      label="Filters"
      rows={filters}
      id={([name]) => name}
      empty={null}
      columns={[
        { head: "filter", cell: ([name]) => name },
        { head: "channel", cell: ([, channel]) => channel || <span class="quiet">all</span> },
        { head: "", cell: ([name]) => <WireAct act={() => client.unsetFilter(name)}>Remove</WireAct> },
      ]}
    />
  );
}

/** The hub's own commands, each with params that work once there is a channel `news`. */
const COMMANDS: Record<string, (me: string) => unknown> = {
  hEcho: () => ({ text: "Hello" }),
  hCreateUpdateChannel: (me) => ({ chid: "#news", owner: me, participants: [me], active: true }),
  hSubscribe: () => ({ chid: "#news" }),
  hPublish: (me) => ({ chid: "#news", publisher: me, payload: "Hello", transient: false }),
  hGetLastMessages: () => ({ chid: "#news", nbLastMsg: 10 }),
  hRelevantMessages: () => ({ chid: "#news" }),
  hGetThreads: () => ({ chid: "#news" }),
  hGetThread: () => ({ chid: "#news", convid: "" }),
  hSearch: () => ({ q: "hello" }),
  hStatistics: () => ({ chid: "#news" }),
  hSetFilter: () => ({ name: "urgent", chid: "#news", condition: { gte: { priority: 4 } } }),
  hListFilters: () => ({}),
  hUnsetFilter: () => ({ name: "urgent" }),
  hGetSubscriptions: () => null,
  hGetChannels: () => null,
  hUnsubscribe: () => ({ chid: "#news" }),
};

/** To the hub, or to the sessions of a user. */
function CommandForm({ done }: { done: (promise: Promise<unknown>) => Promise<void> }) {
  const [entity, setEntity] = useState(`hnode@${hub.value}`);
  const [chosen, setChosen] = useState("hEcho");
  const me = `${client.session.value?.userID ?? ""}@${hub.value}`;
  const send = (cmd: string, params: unknown): Promise<void> => {
    return done(client.command({ reqid: String(Date.now()), sender: me, entity, cmd, params }));
  };
  return (
    <>
      <Field label="Entity" hint={`hnode@${hub.value} is the hub, ann@${hub.value} a user.`}>
        <input value={entity} onInput={(event) => setEntity(event.currentTarget.value)} />
      </Field>
      <fieldset class="tools gap" aria-label="Commands of the hub">
        {Object.keys(COMMANDS).map((name) => (
          <button type="button" key={name} aria-pressed={name === chosen} onClick={() => setChosen(name)}>
            {name}
          </button>
        ))}
      </fieldset>
      <div class="gap">
        <Simple
          key={chosen}
          label="Command"
          first={chosen}
          body={COMMANDS[chosen]?.(me)}
          act={send}
          verb="Send"
          hint="Needs `commands` in the settings of the hub, and a user."
        />
      </div>
    </>
  );
}

/** In the channel that is shown, or in all that the session may read. */
function SearchForm({
  channel,
  done,
}: {
  channel: string;
  done: (promise: Promise<unknown>) => Promise<void>;
}) {
  const [query, setQuery] = useState("");
  const [newest, setNewest] = useState(false);
  const [here, setHere] = useState(false);
  const asked = { query, order: newest ? "time" : "rank", ...(here && channel && { channel }) };
  return (
    <>
      <Field
        label="Words"
        hint={"All of them; those in quotation marks must follow each other. Needs the rule `search`."}
      >
        <input value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
      </Field>
      <div class="tools">
        <label class="check">
          <input type="checkbox" checked={newest} onChange={() => setNewest(!newest)} /> the newest first
        </label>
        {channel && (
          <label class="check">
            <input type="checkbox" checked={here} onChange={() => setHere(!here)} /> only {channel}
          </label>
        )}
      </div>
      <div class="gap">
        <WireAct act={() => done(client.ask("Search", asked))}>Search</WireAct>
      </div>
    </>
  );
}

const STATUSES = [
  [0, "0 OK"],
  [1, "1 technical error"],
  [5, "5 not authorized"],
  [6, "6 missing attribute"],
  [7, "7 invalid attribute"],
  [9, "9 not available"],
] as const;

/** Commands of others for this client, and their answers. */
function Asked() {
  const [status, setStatus] = useState(0);
  const [result, setResult] = useState<unknown>({ done: true });
  const asked = client.asked.value;
  if (asked.length === 0) return null;
  return (
    <div class="gap">
      <List
        label="Commands for this client"
        rows={[...asked]}
        id={({ reqid }) => reqid}
        empty={null}
        columns={[
          { head: "command", cell: ({ cmd }) => cmd },
          { head: "from", cell: ({ sender }) => sender },
          { head: "params", cell: ({ params }) => <PayloadView of={payloadOf(params ?? null)} open={2} /> },
          {
            head: "",
            cell: (each) => <WireAct act={() => client.answer(each, status, result)}>Answer</WireAct>,
          },
        ]}
      />
      <Field
        label="Status"
        hint="The hub waits 5 seconds for an answer, or the sender's timeout; for commands of this page, 30."
      >
        <select value={status} onChange={(event) => setStatus(Number(event.currentTarget.value))}>
          {STATUSES.map(([code, words]) => (
            <option key={code} value={code}>
              {words}
            </option>
          ))}
        </select>
      </Field>
      <div class="gap">
        <JsonField label="Result" rows={3} value={result} onChange={setResult} />
      </div>
    </div>
  );
}

type Form = "text" | "json" | "base64";
/** A text that is JSON is told from a text that is text by its type alone. */
const TYPES: Record<Form, object> = { text: {}, json: { contentType: "application/json" }, base64: {} };

function dataOf(as: Form, text: string): Data {
  if (as === "base64") return fromBase64(text);
  return as === "json" ? (JSON.parse(text) as JsonData) : text;
}

function PublishForm({
  channel,
  done,
}: {
  channel: string;
  done: (promise: Promise<unknown>) => Promise<void>;
}) {
  const [to, setTo] = useState(channel);
  const [as, setAs] = useState<Form>("text");
  const [text, setText] = useState("Hello");
  const [event, setEvent] = useState("");
  const [extra, setExtra] = useState<Record<string, boolean>>({});
  useEffect(() => setTo(channel), [channel]);
  const publish = (): Promise<void> =>
    done(client.publish(to, dataOf(as, text), { ...extra, ...(event && { event }), ...TYPES[as] }));
  return (
    <div class="form">
      <Field label="Channel">
        <input value={to} onInput={(e) => setTo(e.currentTarget.value)} />
      </Field>
      <Field label="Event">
        <input value={event} onInput={(e) => setEvent(e.currentTarget.value)} />
      </Field>
      <Field label="Payload is">
        <select value={as} onChange={(e) => setAs(e.currentTarget.value as typeof as)}>
          <option value="text">text</option>
          <option value="json">JSON</option>
          <option value="base64">bytes in base64</option>
        </select>
      </Field>
      <div class="whole">
        <Field label="Payload">
          <textarea rows={3} value={text} onInput={(e) => setText(e.currentTarget.value)} />
        </Field>
      </div>
      <div class="tools whole">
        {["store", "retain", "push", "transient"].map((mark) => (
          <label class="check" key={mark}>
            <input
              type="checkbox"
              checked={extra[mark] ?? false}
              onChange={(e) => setExtra({ ...extra, [mark]: e.currentTarget.checked })}
            />{" "}
            {mark}
          </label>
        ))}
        <span class="spread" />
        <WireAct kind="main" disabled={to === ""} act={publish}>
          Publish
        </WireAct>
      </div>
    </div>
  );
}

function Simple({
  label,
  first,
  body,
  act,
  verb,
  hint,
}: {
  label: string;
  first: string;
  body: unknown;
  act: (name: string, body: unknown) => Promise<void>;
  verb: string;
  hint?: string;
}) {
  const [name, setName] = useState(first);
  const [value, setValue] = useState(body);
  return (
    <>
      <Field label={label} hint={hint}>
        <input value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </Field>
      <div class="gap">
        <JsonField label="JSON" rows={4} value={value} onChange={setValue} />
      </div>
      <div class="tools end">
        <WireAct kind="main" disabled={name === ""} act={() => act(name, value)}>
          {verb}
        </WireAct>
      </div>
    </>
  );
}

function Authenticate({ done }: { done: (promise: Promise<unknown>) => Promise<void> }) {
  const [token, setToken] = useState("");
  const [credentials, setCredentials] = useState<unknown>({ user: "ann", password: "" });
  return (
    <div class="form">
      <Field label="Token" hint="Subscriptions that the new identity may not have end.">
        <input
          type="password"
          autocomplete="off"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </Field>
      <div class="whole">
        <JsonField
          label="Or credentials for the hub's auth provider"
          rows={3}
          value={credentials}
          onChange={setCredentials}
        />
      </div>
      <div class="tools whole">
        <WireAct
          kind="main"
          act={() => done(client.authenticate(token ? { token } : { credentials: credentials as JsonData }))}
        >
          Authenticate
        </WireAct>
      </div>
    </div>
  );
}

function Code({ channel, onClose }: { channel: string; onClose: () => void }) {
  const [language, setLanguage] = useState<"js" | "python" | "curl">("js");
  const text = codeOf(language, location.origin, hub.value, channel);
  return (
    <Dialog wide title="The same as code" onClose={onClose}>
      <Tabs
        label="Language"
        of={[
          ["js", "JavaScript"],
          ["python", "Python"],
          ["curl", "curl"],
        ]}
        value={language}
        onChange={setLanguage}
      />
      <pre class="code text gap">{text}</pre>
      <div class="tools end">
        <Copy text={text} />
      </div>
    </Dialog>
  );
}
