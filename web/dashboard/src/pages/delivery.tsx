/** What is delivered for good: durable subscriptions and webhooks by their lag, and what was given up. */

import { useState } from "preact/hooks";
import { call, get, type Page, path, post, remove } from "../core/api";
import { bytes, count, duration, plural, visible } from "../core/format";
import { useLatest } from "../core/live";
import { useLoad } from "../core/load";
import { deadLettersOf } from "../core/names";
import { go, link, route, setQuery } from "../core/router";
import { asClient, hub, mayWrite, me, ofHub } from "../core/session";
import { type Payload, PayloadView } from "../ui/json";
import {
  Act,
  Dialog,
  Empty,
  Facts,
  Field,
  Head,
  Section,
  Show,
  Since,
  Tabs,
  Tag,
  Time,
  tell,
} from "../ui/parts";
import { type Column, List, PAGE_ROWS, Table, useRows } from "../ui/table";

interface Subscription {
  channel: string;
  owner: string;
  name: string;
  floor: string;
  head: string;
  lag: number;
  handedOut: number;
  redeliveries: number;
  deadLetters: number;
  missed: number;
  createdAt: number;
  options: Record<string, unknown>;
}

interface WebhookStatus {
  lag: number;
  delivered: number;
  attempts: number;
  failures: number;
  lastStatus: number | null;
  lastError: string | null;
  lastLatencySeconds: number | null;
  lastDeliveredAt: number | null;
  nextTryAt: number | null;
  breaker: "closed" | "open" | "probing";
  deadLetters: number;
}

interface Webhook {
  id: string;
  kind: string;
  channel: string;
  callback: string;
  state: string;
  signed: boolean;
  encrypted: boolean;
  createdAt: number;
  expiresAt: number | null;
  owner: string | null;
  status?: WebhookStatus | null;
}

interface DeadLetter {
  serial: string;
  originalSerial: string;
  at: number;
  event: string;
  contentType: string;
  bytes: number;
  publisher?: string | null;
  /** Of one that was asked for alone. */
  payload?: string | null;
  payloadBase64?: string | null;
}

function payloadOf(letter: DeadLetter): Payload {
  if (letter.payloadBase64 != null) return { base64: letter.payloadBase64 };
  const text = letter.payload ?? "";
  return letter.contentType === "application/json" ? { json: JSON.parse(text) } : { text };
}

export default function Delivery() {
  const [kind, ...rest] = route.value.parts;
  if (kind === "webhook" && rest[0]) return <OneWebhook key={rest[0]} id={rest[0]} />;
  if (kind === "subscription" && rest.length === 3)
    return <OneSubscription key={rest.join()} parts={rest as [string, string, string]} />;
  return <All />;
}

interface Order {
  channel: string;
  /** Of a durable subscription. */
  user: string;
  name: string;
  /** Of a webhook. */
  callback: string;
  secret: string;
  start: "new" | "first";
}

/** Makes a durable subscription for a user, or a webhook. */
function New({
  what,
  onClose,
  made,
}: {
  what: "subscription" | "webhook";
  onClose: () => void;
  made: () => void;
}) {
  const [order, setOrder] = useState<Order>({
    channel: "",
    user: me.value?.userID ?? "",
    name: "",
    callback: "https://",
    secret: "",
    start: "new",
  });
  const field = (name: keyof Order) => ({
    value: order[name],
    onInput: (event: { currentTarget: HTMLInputElement }) =>
      setOrder({ ...order, [name]: event.currentTarget.value }),
  });
  const { channel, user, name, callback, secret, start } = order;
  const make = async (): Promise<void> => {
    const rights = { channels: [{ channel, subscribe: true }] };
    if (what === "webhook") {
      const body = { channel, callback, start, ...(secret && { secret }) };
      await asClient("POST", "/webhooks", rights, { body });
    } else {
      const where = path`/topics/${channel}/subscriptions/${name}`;
      await asClient("PUT", where, { ...rights, userID: user }, { query: { start } });
    }
    made();
  };
  const ready = channel !== "" && (what === "webhook" ? callback.length > 8 : user !== "" && name !== "");
  return (
    <Dialog title={what === "webhook" ? "New webhook" : "New durable subscription"} onClose={onClose}>
      <div class="form">
        <Field label="Channel" hint="It must store its messages.">
          <input {...field("channel")} />
        </Field>
        {what === "webhook" ? (
          <>
            <Field label="Callback" hint="Messages are posted here.">
              <input type="url" {...field("callback")} />
            </Field>
            <Field label="Secret" hint="Signs what is sent; empty: not signed.">
              <input type="password" autocomplete="off" {...field("secret")} />
            </Field>
          </>
        ) : (
          <>
            <Field label="User" hint="Whose subscription it is.">
              <input {...field("user")} />
            </Field>
            <Field label="Name">
              <input {...field("name")} />
            </Field>
          </>
        )}
        <Field label="Begins with">
          <select
            value={start}
            onChange={(event) => setOrder({ ...order, start: event.currentTarget.value as Order["start"] })}
          >
            <option value="new">what comes from now on</option>
            <option value="first">all that is stored</option>
          </select>
        </Field>
      </div>
      <div class="tools end">
        <Act kind="main" disabled={!ready} done="Made" act={make}>
          Make it
        </Act>
      </div>
    </Dialog>
  );
}

function All() {
  const [making, setMaking] = useState(false);
  const [turn, setTurn] = useState(0);
  const which = route.value.query.get("show") === "webhooks" ? "webhooks" : "subscriptions";
  const q = route.value.query.get("q") ?? "";
  return (
    <>
      <Head title="Delivery">
        <Tabs
          label="Kind"
          of={[
            ["subscriptions", "Durable subscriptions"],
            ["webhooks", "Webhooks"],
          ]}
          value={which}
          onChange={(show) => setQuery({ show, sort: "" })}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={route.value.query.get("sort") === "-lag"}
            onChange={(event) => setQuery({ sort: event.currentTarget.checked ? "-lag" : "" })}
          />{" "}
          only those behind, by lag
        </label>
        <input
          type="search"
          data-search
          placeholder="Search"
          aria-label="Search"
          value={q}
          onInput={(event) => setQuery({ q: event.currentTarget.value })}
        />
        {mayWrite.value && (
          <button type="button" onClick={() => setMaking(true)}>
            New
          </button>
        )}
      </Head>
      {which === "subscriptions" ? <Subscriptions key={turn} q={q} /> : <Webhooks key={turn} q={q} />}
      {making && (
        <New
          what={which === "webhooks" ? "webhook" : "subscription"}
          onClose={() => setMaking(false)}
          made={() => {
            setMaking(false);
            setTurn(turn + 1);
          }}
        />
      )}
    </>
  );
}

/** The largest lags come live, so that one sees them fall without loading the list again. */
function useLags(kind: "subscriptions" | "webhooks"): Map<string, number> {
  const tick = useLatest<Record<string, { channel: string; owner: string; name: string; lag: number }[]>>(
    `lag:${hub.value}`,
  ).value;
  const rows = Array.isArray(tick?.[kind]) ? tick[kind] : [];
  return new Map(
    rows.map((each) => [
      kind === "webhooks" ? each.name : `${each.channel}\n${each.owner}\n${each.name}`,
      each.lag,
    ]),
  );
}

const keyOf = (row: Subscription): string => `${row.channel}\n${row.owner}\n${row.name}`;

/** By name; by lag, the hub lists only those that are behind. */
const DEFAULT = "";

function Subscriptions({ q }: { q: string }) {
  const sort = route.value.query.get("sort") ?? DEFAULT;
  const rows = useRows<Subscription>(
    (cursor, signal) =>
      get<Page<Subscription>>(ofHub("/subscriptions"), { limit: PAGE_ROWS, cursor, q, sort }, signal),
    [hub.value, q, sort],
  );
  const lags = useLags("subscriptions");
  const columns: Column<Subscription>[] = [
    {
      head: "subscription",

      cell: (row) => (
        <a href={link("delivery", ["subscription", row.channel, row.owner, row.name])}>{visible(row.name)}</a>
      ),
    },
    { head: "channel", cell: (row) => visible(row.channel) },
    { head: "owner", rank: 2, cell: (row) => visible(row.owner) },
    {
      head: "lag",

      number: true,
      width: "88px",
      cell: (row) => <Lag of={lags.get(keyOf(row)) ?? row.lag} />,
    },
    { head: "handed out", rank: 2, number: true, width: "96px", cell: (row) => count(row.handedOut) },
    {
      head: "dead letters",
      rank: 2,
      number: true,
      width: "104px",
      cell: (row) => <Dead of={row.deadLetters} />,
    },
    { head: "missed", rank: 3, number: true, width: "88px", cell: (row) => count(row.missed) },
  ];
  return (
    <Table
      label="Durable subscriptions"
      of={rows}
      columns={columns}
      id={keyOf}
      empty={
        <Empty command={`hubbub subscribe --durable orders --hub ${hub.value}`}>
          {q
            ? `Nothing has “${q}” in its name.`
            : "No durable subscription. One keeps its place while its reader is away."}
        </Empty>
      }
    />
  );
}

const Lag = ({ of }: { of: number }) => <span class={of > 0 ? "" : "quiet"}>{count(of)}</span>;
const Dead = ({ of }: { of: number }) =>
  of > 0 ? <Tag kind="bad">{count(of)}</Tag> : <span class="quiet">0</span>;

function Breaker({ of }: { of: WebhookStatus | null | undefined }) {
  if (!of) return <span class="quiet">not driven</span>;
  if (of.breaker === "open") return <Tag kind="bad">open</Tag>;
  return of.breaker === "probing" ? <Tag kind="warn">probing</Tag> : <Tag kind="good">closed</Tag>;
}

function Webhooks({ q }: { q: string }) {
  const sort = route.value.query.get("sort") ?? DEFAULT;
  const rows = useRows<Webhook>(
    (cursor, signal) =>
      get<Page<Webhook>>(ofHub("/webhooks"), { limit: PAGE_ROWS, cursor, q, sort, status: true }, signal),
    [hub.value, q, sort],
  );
  const lags = useLags("webhooks");
  const columns: Column<Webhook>[] = [
    {
      head: "callback",
      width: "minmax(0, 2fr)",
      cell: (row) => <a href={link("delivery", ["webhook", row.id])}>{visible(row.callback)}</a>,
    },
    { head: "channel", rank: 2, cell: (row) => visible(row.channel) },
    { head: "kind", rank: 3, width: "72px", cell: (row) => row.kind },
    {
      head: "lag",

      number: true,
      width: "72px",
      cell: (row) => <Lag of={lags.get(row.id) ?? row.status?.lag ?? 0} />,
    },
    {
      head: "breaker",
      width: "88px",
      cell: (row) => (row.state === "paused" ? <Tag kind="warn">paused</Tag> : <Breaker of={row.status} />),
    },
    { head: "next try", rank: 2, width: "96px", cell: (row) => <Since at={row.status?.nextTryAt} /> },
    {
      head: "dead letters",
      rank: 2,
      number: true,
      width: "104px",
      cell: (row) => <Dead of={row.status?.deadLetters ?? 0} />,
    },
    { head: "last error", rank: 3, cell: (row) => row.status?.lastError ?? <span class="quiet">–</span> },
  ];
  return (
    <Table
      label="Webhooks"
      of={rows}
      columns={columns}
      id={(row) => row.id}
      empty={
        <Empty
          command={`curl -d '{"channel": "orders", "callback": "https://example.org/in"}' ${location.origin}/v1/hubs/${hub.value}/webhooks`}
        >
          {q ? `Nothing has “${q}” in it.` : "No webhook. One has the messages of a channel sent to a URL."}
        </Empty>
      }
    />
  );
}

/** Owners that are users begin so. */
const OF_USER = "u:";

/** Acknowledges everything for the user whose subscription it is. */
const skip = ({ channel, owner, name, head }: Subscription): Promise<unknown> =>
  asClient(
    "POST",
    path`/topics/${channel}/subscriptions/${name}/ack`,
    { userID: owner.slice(OF_USER.length), channels: [{ channel, subscribe: true }] },
    { body: { upTo: head } },
  );

function OneSubscription({ parts: [channel, owner, name] }: { parts: [string, string, string] }) {
  const at = ofHub(path`/channels/${channel}/subscriptions/${owner}/${name}`);
  const found = useLoad((signal) => get<Subscription>(at, {}, signal), [at], 2000);
  return (
    <>
      <Head title={name} back={["Delivery", link("delivery")]} />
      <Show of={found} missing={<p class="note">There is no such subscription any more.</p>}>
        {(state) => (
          <>
            <div class="tools">
              <Act
                disabled={state.lag === 0 || !owner.startsWith(OF_USER)}
                ask={`Skip ${plural(state.lag, "message")} that ${name} has not read?`}
                done="Skipped"
                act={() => skip(state).then(found.reload)}
              >
                Skip to the head
              </Act>
              <Act
                kind="bad"
                ask={`Remove the subscription ${name} for good? Its place is lost.`}
                done="Removed"
                act={() => remove(at).then(() => go(link("delivery")))}
              >
                Remove
              </Act>
            </div>
            <Section title="Where it stands">
              <Facts
                of={[
                  ["channel", <a href={link("channels", [channel])}>{channel}</a>],
                  ["owner", owner],
                  ["lag", count(state.lag)],
                  ["floor", state.floor],
                  ["head", state.head],
                  ["handed out", count(state.handedOut)],
                  ["redeliveries", count(state.redeliveries)],
                  [
                    "dead letters",
                    state.deadLetters > 0 ? (
                      <a
                        href={link("channels", [String(state.options.deadLetters ?? deadLettersOf(channel))])}
                      >
                        {count(state.deadLetters)}
                      </a>
                    ) : (
                      <Dead of={0} />
                    ),
                  ],
                  ["missed", count(state.missed)],
                  ["since", <Time at={state.createdAt} />],
                  ...Object.entries(state.options).map(([key, value]): [string, string] => [
                    key,
                    value === null ? "–" : String(value),
                  ]),
                ]}
              />
            </Section>
          </>
        )}
      </Show>
    </>
  );
}

function OneWebhook({ id }: { id: string }) {
  const at = ofHub(path`/webhooks/${id}`);
  const found = useLoad((signal) => get<Webhook>(at, {}, signal), [at], 2000);
  return (
    <>
      <Head title="Webhook" back={["Delivery", link("delivery", [], { show: "webhooks" })]} />
      <Show of={found} missing={<p class="note">There is no such webhook any more.</p>}>
        {(webhook) => (
          <>
            <div class="tools">
              <Act
                act={() =>
                  call("POST", `${at}/${webhook.state === "paused" ? "resume" : "pause"}`).then(found.reload)
                }
                done={webhook.state === "paused" ? "Resumed" : "Paused"}
              >
                {webhook.state === "paused" ? "Resume" : "Pause"}
              </Act>
              <Act
                disabled={!webhook.status?.deadLetters}
                act={async () => {
                  const result = await post<{ delivered: number; failed: number; more: boolean }>(
                    `${at}/replay`,
                  );
                  tell(
                    `${count(result.delivered)} delivered, ${count(result.failed)} not${result.more ? "; there are more" : ""}`,
                    result.failed ? "bad" : "good",
                  );
                  found.reload();
                }}
              >
                Replay dead letters
              </Act>
              <Act
                kind="bad"
                ask={`Remove the webhook to ${webhook.callback} for good?`}
                done="Removed"
                act={() => remove(at).then(() => go(link("delivery", [], { show: "webhooks" })))}
              >
                Remove
              </Act>
            </div>
            <Section title="How it is doing">
              <Facts
                of={[
                  ["callback", webhook.callback],
                  ["channel", <a href={link("channels", [webhook.channel])}>{webhook.channel}</a>],
                  ["kind", `${webhook.kind}, ${webhook.state}`],
                  [
                    "breaker",
                    webhook.state === "paused" ? (
                      <Tag kind="warn">paused</Tag>
                    ) : (
                      <Breaker of={webhook.status} />
                    ),
                  ],
                  ["lag", count(webhook.status?.lag ?? 0)],
                  ["delivered", count(webhook.status?.delivered ?? 0)],
                  ["failures", count(webhook.status?.failures ?? 0)],
                  ["last status", webhook.status?.lastStatus ?? undefined],
                  ["last error", webhook.status?.lastError ?? undefined],
                  [
                    "last took",
                    webhook.status?.lastLatencySeconds == null
                      ? undefined
                      : duration(webhook.status.lastLatencySeconds),
                  ],
                  ["next try", <Since at={webhook.status?.nextTryAt} />],
                  ["owner", webhook.owner ?? undefined],
                  ["signed", webhook.signed ? "yes" : "no"],
                  ["expires", webhook.expiresAt ? <Time at={webhook.expiresAt} /> : "never"],
                ]}
              />
            </Section>
            <DeadLetters at={at} count={webhook.status?.deadLetters ?? 0} changed={found.reload} />
          </>
        )}
      </Show>
    </>
  );
}

function DeadLetters({ at, count, changed }: { at: string; count: number; changed: () => void }) {
  const [turn, setTurn] = useState(0);
  const rows = useLoad(
    (signal) => get<Page<DeadLetter>>(`${at}/dead-letters`, { limit: 100 }, signal),
    [at, turn, count],
  );
  const done = (): void => {
    setTurn(turn + 1);
    changed();
  };
  const columns: Column<DeadLetter>[] = [
    { head: "serial", number: true, cell: (row) => row.serial },
    { head: "given up", cell: (row) => <Time at={row.at} /> },
    { head: "event", rank: 2, cell: (row) => row.event || <span class="quiet">–</span> },
    { head: "size", number: true, rank: 2, cell: (row) => bytes(row.bytes) },
    { head: "message", cell: (row) => <Letter at={at} serial={row.serial} /> },
    {
      head: "",
      cell: (row) => (
        <div class="tools">
          <Act
            act={() => call("POST", `${at}${path`/dead-letters/${row.serial}/replay`}`).then(done)}
            done="Sent once more"
          >
            Replay
          </Act>
          <Act
            kind="bad"
            ask="Discard this message for good?"
            act={() => remove(`${at}${path`/dead-letters/${row.serial}`}`).then(done)}
            done="Discarded"
          >
            Discard
          </Act>
        </div>
      ),
    },
  ];
  return (
    <Section
      title="Dead letters"
      note="Messages that could not be delivered. Who reads them is in the audit log."
    >
      <Show
        of={rows}
        missing={
          <p class="note">This hub does not show single dead letters; they can be replayed together.</p>
        }
      >
        {(page) => (
          <List
            label="Dead letters"
            rows={page.items}
            columns={columns}
            id={(row) => row.serial}
            empty={<p class="note">None: everything arrived so far.</p>}
          />
        )}
      </Show>
    </Section>
  );
}

/** Read only when it is asked for: reading is audited. */
function Letter({ at, serial }: { at: string; serial: string }) {
  const [open, setOpen] = useState(false);
  const found = useLoad(
    (signal) =>
      open
        ? get<DeadLetter>(`${at}${path`/dead-letters/${serial}`}`, {}, signal)
        : new Promise<DeadLetter>(() => {}),
    [at, serial, open],
  );
  if (!open)
    return (
      <button type="button" onClick={() => setOpen(true)}>
        Read
      </button>
    );
  return <Show of={found}>{(letter) => <PayloadView of={payloadOf(letter)} open={2} />}</Show>;
}
