/** Channels of a hub: who listens, which rules hold and whence, what is stored; publish and set. */

import { useState } from "preact/hooks";
import { get, getVersioned, type Page, path, post, putVersioned, type Query, remove } from "../core/api";
import { bytes, count, plural, visible, words } from "../core/format";
import { useLoad } from "../core/load";
import { link, route, setQuery } from "../core/router";
import { asClient, hub, mayWrite, ofHub } from "../core/session";
import { JsonField } from "../ui/form";
import { brief, Json, type Payload, PayloadView } from "../ui/json";
import { Act, Empty, Facts, Field, Head, Section, Show, Since, Tabs, Tag, Time } from "../ui/parts";
import { type Column, List, PAGE_ROWS, Table, useRows } from "../ui/table";

interface ChannelRow {
  channel: string;
  sessions: number;
  version: number;
  rules?: string | null;
  stored?: number;
  storedBytes?: number;
  storedAt?: number | null;
}

interface ChannelState {
  channel: string;
  rules: Record<string, unknown>;
  source: string;
  rulesName?: string | null;
  sessions: number;
  head?: string;
  epoch?: string;
  stored: number;
  storedBytes: number;
  retained?: { [field: string]: unknown } | null;
  owner?: string | null;
}

interface Message {
  msgID: string;
  ts: number;
  event: string;
  payload: Payload;
  channelSerial?: string;
  publisher?: string;
}

interface Member {
  sessionID: string;
  userID?: string | null;
  ts: number;
}

export default function Channels() {
  const name = route.value.parts[0];
  return name === undefined ? <All /> : <One key={name} name={name} />;
}

/** A search may find nothing in a page and yet have a next one. The number of all rows is known where all have
 * sessions: channels that only hold messages are not counted. */
async function listChannels(query: Query, signal: AbortSignal): Promise<Page<ChannelRow>> {
  const load = (from: Query): Promise<Page<ChannelRow>> =>
    get<Page<ChannelRow>>(ofHub("/channels"), from, signal);
  let page = await load(query);
  while (page.items.length === 0 && page.next) page = await load({ ...query, cursor: page.next });
  return query.live ? page : { ...page, total: null };
}

function All() {
  const { query } = route.value;
  const q = query.get("q") ?? "";
  const sort = query.get("sort") ?? "name";
  const live = query.get("live") === "1";
  const rows = useRows<ChannelRow>(
    (cursor, signal) => listChannels({ limit: PAGE_ROWS, cursor, q, sort, live: live || undefined }, signal),
    [hub.value, q, sort, live],
  );
  const columns: Column<ChannelRow>[] = [
    {
      head: "channel",
      sort: "name",
      width: "minmax(0, 3fr)",
      cell: (row) => <a href={link("channels", [row.channel])}>{visible(row.channel)}</a>,
    },
    { head: "sessions", sort: "-sessions", number: true, width: "88px", cell: (row) => count(row.sessions) },
    { head: "stored", number: true, width: "88px", rank: 2, cell: (row) => count(row.stored ?? 0) },
    { head: "size", number: true, width: "88px", rank: 2, cell: (row) => bytes(row.storedBytes ?? 0) },
    {
      head: "last stored",
      rank: 2,
      cell: (row) => (row.storedAt ? <Time at={row.storedAt} /> : <span class="quiet">–</span>),
    },
    { head: "rules of its own", rank: 2, cell: (row) => row.rules ?? <span class="quiet">–</span> },
  ];
  return (
    <>
      <Head title="Channels">
        <input
          type="search"
          data-search
          placeholder="Search names"
          aria-label="Search names"
          value={q}
          onInput={(event) => setQuery({ q: event.currentTarget.value })}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={live}
            onChange={(event) => setQuery({ live: event.currentTarget.checked ? "1" : "" })}
          />{" "}
          with sessions only
        </label>
      </Head>
      <Table
        label="Channels"
        of={rows}
        columns={columns}
        id={(row) => row.channel}
        sort={sort}
        onSort={(next) => setQuery({ sort: next })}
        empty={
          <Empty command={`hubbub publish news Hello --hub ${hub.value}`}>
            {q
              ? `No channel has “${q}” in its name.`
              : "No channel is in use. One comes into being when somebody publishes or subscribes."}
          </Empty>
        }
      />
    </>
  );
}

function One({ name }: { name: string }) {
  const at = ofHub(path`/channels/${name}`);
  const state = useLoad((signal) => get<ChannelState>(at, {}, signal), [at], 5000);
  const presence = useLoad((signal) => get<{ presence: Member[] }>(`${at}/presence`, {}, signal), [at], 5000);
  return (
    <>
      <Head title={visible(name)} back={["Channels", link("channels")]}>
        <a href={link("inspector", [], { channel: name })}>Open in the inspector</a>
        <a href={link("sessions", [], { channel: name })}>Its sessions</a>
        <a href={link("trace", [], { channel: name })}>Trace it</a>
      </Head>
      <Show of={state} missing={<p class="note">Nobody uses this channel now.</p>}>
        {(found) => <State of={found} />}
      </Show>
      <div class="columns">
        <Publish channel={name} />
        <Own name={name} />
      </div>
      <Section title="Who is there">
        <Show of={presence} missing={<p class="note">Nobody.</p>}>
          {(found) => (
            <List
              label="Presence"
              rows={found.presence}
              id={(member) => member.sessionID}
              columns={[
                {
                  head: "user",
                  cell: (member: Member) => member.userID ?? <span class="quiet">anonymous</span>,
                },
                {
                  head: "session",
                  cell: (member: Member) => (
                    <a href={link("sessions", [member.sessionID])}>{member.sessionID}</a>
                  ),
                },
                { head: "since", cell: (member: Member) => <Since at={member.ts} /> },
              ]}
              empty={<p class="note">Nobody is present, or the rules have no presence.</p>}
            />
          )}
        </Show>
      </Section>
      <History name={name} />
    </>
  );
}

function State({ of }: { of: ChannelState }) {
  const on = Object.entries(of.rules).filter(([, value]) => value === true);
  const set = Object.entries(of.rules).filter(([, value]) => typeof value === "number" && value > 0);
  const whence =
    {
      channel: "set for this channel",
      namespace: "of its namespace",
      hub: "the hub's default",
      default: "none are set",
    }[of.source] ?? of.source;
  return (
    <>
      <Facts
        of={[
          [
            "rules",
            of.rulesName ? (
              <>
                <a href={link("rules", ["rules", of.rulesName])}>{of.rulesName}</a>{" "}
                <span class="quiet">({whence})</span>
              </>
            ) : (
              whence
            ),
          ],
          ["sessions", count(of.sessions)],
          ["head", of.head ?? "–"],
          ["epoch", <span class="mono">{of.epoch ?? "–"}</span>],
          ["stored", of.stored ? `${plural(of.stored, "message")}, ${bytes(of.storedBytes)}` : "nothing"],
          ["journal", String(of.rules.journal ?? "–")],
        ]}
      />
      <p class="rules-on">
        {on.map(([rule]) => (
          <Tag key={rule} kind="good">
            {words(rule)}
          </Tag>
        ))}{" "}
        {set.map(([rule, value]) => (
          <Tag key={rule}>
            {words(rule)} {count(value as number)}
          </Tag>
        ))}
      </p>
      {of.retained && (
        <Section title="Retained message">
          <Json value={of.retained} open={2} />
        </Section>
      )}
    </>
  );
}

function Publish({ channel }: { channel: string }) {
  const [text, setText] = useState("Hello");
  const [as, setAs] = useState<"text" | "json">("text");
  const [event, setEvent] = useState("");
  const [extra, setExtra] = useState<Record<string, boolean>>({});
  const send = async (): Promise<void> => {
    const payload = as === "json" ? { json: JSON.parse(text) } : { text };
    const answer = await post<{ published: { success: boolean; error?: { message: string } }[] }>(
      ofHub("/messages"),
      { publishes: [{ channel, payload, ...(event && { event }), extra }] },
    );
    const result = answer.published[0];
    if (!result?.success) throw new Error(result?.error?.message ?? "not published");
  };
  return (
    <Section
      title="Publish"
      tools={
        <Tabs
          label="Payload"
          of={[
            ["text", "Text"],
            ["json", "JSON"],
          ]}
          value={as}
          onChange={setAs}
        />
      }
    >
      <div class="form">
        <div class="whole">
          <Field label="Payload">
            <textarea rows={4} value={text} onInput={(e) => setText(e.currentTarget.value)} />
          </Field>
        </div>
        <Field label="Event">
          <input value={event} onInput={(e) => setEvent(e.currentTarget.value)} />
        </Field>
        <div class="tools">
          {["store", "retain", "push"].map((mark) => (
            <label class="check" key={mark}>
              <input
                type="checkbox"
                checked={extra[mark] ?? false}
                onChange={(e) => setExtra({ ...extra, [mark]: e.currentTarget.checked })}
              />{" "}
              {mark}
            </label>
          ))}
        </div>
      </div>
      <div class="tools end">
        <Act kind="main" act={send} done={`Published to ${channel}`}>
          Publish
        </Act>
      </div>
    </Section>
  );
}

/** Settings of this channel alone. */
function Own({ name }: { name: string }) {
  const at = ofHub(path`/channels/${name}`);
  const own = useLoad(
    () =>
      getVersioned<{ rules: string | null }>(`${at}/settings`).catch(
        () => ({ value: { rules: null } }) as { value: { rules: string | null }; etag?: string },
      ),
    [at],
  );
  const metadata = useLoad(
    () =>
      getVersioned<{ metadata: Record<string, unknown> }>(`${at}/metadata`).catch(
        () =>
          ({ value: { metadata: {} } }) as { value: { metadata: Record<string, unknown> }; etag?: string },
      ),
    [at],
  );
  const rules = useLoad(
    (signal) => get<Page<{ name: string }>>(ofHub("/rules"), { limit: 200 }, signal),
    [hub.value],
  );
  const [chosen, setChosen] = useState<string | null>(null);
  const [noted, setNoted] = useState<unknown>(null);
  const now = chosen ?? own.value?.value.rules ?? "";
  return (
    <Section title="Settings of this channel">
      <div class="form">
        <Field label="Rules" hint="Those of the namespace or of the hub hold where none are set.">
          <select
            value={now}
            disabled={!mayWrite.value}
            onChange={(event) => setChosen(event.currentTarget.value)}
          >
            <option value="">–</option>
            {(rules.value?.items ?? []).map((each) => (
              <option key={each.name} value={each.name}>
                {each.name}
              </option>
            ))}
          </select>
        </Field>
        <div class="whole">
          <JsonField
            label="Metadata"
            rows={4}
            value={noted ?? metadata.value?.value.metadata ?? {}}
            onChange={setNoted}
            readOnly={!mayWrite.value}
          />
        </div>
      </div>
      <div class="tools end">
        <Act
          kind="bad"
          ask={`Forget the settings and metadata of ${name}?`}
          disabled={!own.value?.etag}
          done="Forgotten"
          act={async () => {
            await remove(`${at}/settings`);
            setChosen(null);
            setNoted(null);
            own.reload();
            metadata.reload();
          }}
        >
          Forget
        </Act>
        <Act
          kind="main"
          disabled={chosen === null && noted === null}
          done="Saved"
          act={async () => {
            if (chosen !== null)
              await putVersioned(`${at}/settings`, { rules: chosen || null }, own.value?.etag);
            if (noted !== null)
              await putVersioned(
                `${at}/metadata`,
                { metadata: noted },
                chosen !== null ? "*" : metadata.value?.etag,
              );
            setChosen(null);
            setNoted(null);
            own.reload();
            metadata.reload();
          }}
        >
          Save
        </Act>
      </div>
    </Section>
  );
}

interface HistoryPage {
  messages: Message[];
  more: boolean;
}

const NEWEST = 50;

/** The newest messages, read with a token for this channel alone. */
const readHistory = (name: string): Promise<HistoryPage> =>
  asClient(
    "GET",
    path`/channels/${name}/messages`,
    { channels: [{ channel: name, subscribe: true }] },
    { query: { limit: NEWEST } },
  );

function History({ name }: { name: string }) {
  const [page, setPage] = useState<HistoryPage | null>(null);
  return (
    <Section
      title="History"
      note="The newest messages that are stored or in the live history. Reading payloads leaves a trace in the audit log."
      tools={<Act act={async () => setPage(await readHistory(name))}>{page ? "Read again" : "Read"}</Act>}
    >
      {page && (
        <List
          label="Messages"
          rows={[...page.messages].reverse()}
          id={(message) => message.msgID}
          empty={
            <Empty command={`hubbub publish ${name} Hello --store --hub ${hub.value}`}>
              Nothing is stored.
            </Empty>
          }
          columns={[
            { head: "serial", number: true, cell: (message: Message) => message.channelSerial ?? "–" },
            { head: "time", cell: (message: Message) => <Time at={message.ts} /> },
            {
              head: "event",
              rank: 2,
              cell: (message: Message) => message.event || <span class="quiet">–</span>,
            },
            {
              head: "publisher",
              rank: 2,
              cell: (message: Message) => message.publisher ?? <span class="quiet">–</span>,
            },
            {
              head: "payload",
              cell: (message: Message) => (
                <details>
                  <summary class="mono">{brief(message.payload)}</summary>
                  <PayloadView of={message.payload} open={2} />
                </details>
              ),
            },
          ]}
        />
      )}
    </Section>
  );
}
