/** Messages to people: peers, collectives, routes and adapters; what was sent, and what could not be delivered. */

import { useState } from "preact/hooks";
import { call, get, type Page, path, post, put, remove } from "../core/api";
import { count, plural, visible } from "../core/format";
import { useLoad } from "../core/load";
import { route, setQuery } from "../core/router";
import { asClient, hub, isAdmin, me, ofHub } from "../core/session";
import { Json } from "../ui/json";
import { Act, Empty, Field, Head, Section, Show, Since, Tabs, Tag, Time, tell } from "../ui/parts";
import { List } from "../ui/table";
import { SettingsTable } from "./settings-table";

const TABS = [
  ["peers", "Peers"],
  ["collectives", "Collectives"],
  ["routes", "Routes"],
  ["adapters", "Adapters"],
  ["callbacks", "Callbacks"],
  ["messages", "Messages"],
  ["dead-deliveries", "Dead deliveries"],
] as const;
type Tab = (typeof TABS)[number][0];

export default function People() {
  const show = (route.value.query.get("show") ?? "peers") as Tab;
  return (
    <>
      <Head title="People">
        <Tabs label="Part" of={TABS} value={show} onChange={(next) => setQuery({ show: next })} />
      </Head>
      {show === "peers" && (
        <SettingsTable
          kind="peers"
          schema="PeerInfo"
          one="peer"
          fresh={{ addresses: [] }}
          page="people"
          query={{ show: "peers" }}
          column={["reached by", (value) => reachedBy(value.addresses as Address[])]}
          rowOf={(item) => ({ name: String(item.id), version: 0, value: item.peer as Value })}
          more={(peer) => <Follows peer={peer} />}
          none="Nobody can be written to yet. A peer is a person or a service with addresses."
        />
      )}
      {show === "collectives" && (
        <SettingsTable
          kind="collectives"
          schema="CollectiveInfo"
          one="collective"
          fresh={{ members: [] }}
          page="people"
          query={{ show: "collectives" }}
          column={["delivery", (value) => String(value.policy)]}
          rowOf={(item) => ({ name: String(item.id), version: 0, value: item })}
          none="No group of peers yet. A message to a collective goes to its members."
        />
      )}
      {show === "routes" && (
        <SettingsTable
          kind="routes"
          schema="RoutingRule"
          one="route"
          fresh={{ type: "", route: [] }}
          page="people"
          query={{ show: "routes" }}
          column={["messages → receivers", routed]}
          none="No routing rule yet. A rule gives messages further receivers."
        />
      )}
      {show === "adapters" && <Adapters />}
      {show === "callbacks" && (
        <SettingsTable
          kind="callbacks"
          schema="CallbackSettings"
          one="callback"
          fresh={{ url: "https://", roles: ["notify"], headers: {} }}
          page="people"
          query={{ show: "callbacks" }}
          column={["url", (value) => String(value.url)]}
          none="No callback yet. A callback is a server that knows peers, or is told of messages."
        />
      )}
      {show === "messages" && <Messages />}
      {show === "dead-deliveries" && <DeadDeliveries />}
    </>
  );
}

type Value = Record<string, unknown>;

interface Address {
  adapter: string;
  parameters?: string[];
}

const reachedBy = (addresses: Address[] | undefined): string =>
  visible((addresses ?? []).map((each) => [each.adapter, ...(each.parameters ?? [])].join(" ")).join(", ")) ||
  "nothing yet";

const routed = (value: Value): string => {
  const of = ["type", "subtype", "receiver", "sender"].filter((name) => value[name]);
  return visible(
    `${of.map((name) => `${name} ${value[name]}`).join(", ")} → ${(value.route as string[]).join(", ")}`,
  );
};

// -- what a peer follows ----------------------------------------------------------------------------

interface Followed {
  channel: string;
  lag: number;
  delivered: number;
  failed: number;
  lastError?: string | null;
}

function Follows({ peer }: { peer: string }) {
  const at = ofHub(path`/peers/${peer}/subscriptions`);
  const found = useLoad((signal) => get<Page<Followed>>(at, { limit: 100 }, signal), [at]);
  const [channel, setChannel] = useState("");
  return (
    <Section
      title="Channels that it follows"
      tools={
        <div class="tools">
          <input
            placeholder="channel that stores"
            aria-label="Channel to follow"
            value={channel}
            onInput={(event) => setChannel(event.currentTarget.value)}
          />
          <Act
            disabled={channel === ""}
            done="Followed"
            act={() => put(`${at}${path`/${channel}`}`).then(found.reload)}
          >
            Follow
          </Act>
        </div>
      }
    >
      <Show of={found}>
        {(page) => (
          <List
            label="Followed channels"
            rows={page.items}
            id={(each) => each.channel}
            empty={<p class="note">None. Messages of a channel that it follows come by its addresses.</p>}
            columns={[
              { head: "channel", cell: (each: Followed) => visible(each.channel) },
              { head: "lag", number: true, cell: (each: Followed) => count(each.lag) },
              { head: "delivered", number: true, cell: (each: Followed) => count(each.delivered) },
              { head: "last error", rank: 2, cell: (each: Followed) => each.lastError ?? "–" },
              {
                head: "",
                cell: (each: Followed) => (
                  <Act
                    done="No longer followed"
                    act={() => remove(`${at}${path`/${each.channel}`}`).then(found.reload)}
                  >
                    Unfollow
                  </Act>
                ),
              },
            ]}
          />
        )}
      </Show>
    </Section>
  );
}

// -- adapters ---------------------------------------------------------------------------------------

interface AdapterStatus {
  name: string;
  direction?: string;
  waiting?: number;
  delivered?: number;
  failed?: number;
  last_error?: string;
  last_error_at?: number;
}

const REFRESH_MS = 5000;

function Adapters() {
  const found = useLoad(
    (signal) => get<Page<AdapterStatus>>(ofHub("/adapter-status"), {}, signal),
    [hub.value],
    REFRESH_MS,
  );
  return (
    <>
      <SettingsTable
        kind="adapters"
        schema="AdapterSettings"
        one="adapter"
        fresh={{ kind: "rest", settings: {}, secrets: {} }}
        page="people"
        query={{ show: "adapters" }}
        column={["kind", (value) => String(value.kind)]}
        none="No adapter yet. Adapters are e-mail, Matrix, Telegram and others."
      />
      <Section title="How they do">
        <Show of={found}>
          {(page) => (
            <List
              label="Adapters"
              rows={page.items}
              id={(each) => each.name}
              empty={<p class="note">Nothing to tell without an adapter.</p>}
              columns={[
                { head: "adapter", cell: (each: AdapterStatus) => visible(each.name) },
                {
                  head: "direction",
                  cell: (each: AdapterStatus) =>
                    each.direction ? <Tag>{each.direction}</Tag> : <Tag kind="bad">unknown kind</Tag>,
                },
                { head: "waiting", number: true, cell: (each: AdapterStatus) => count(each.waiting ?? 0) },
                {
                  head: "delivered",
                  number: true,
                  rank: 2,
                  cell: (each: AdapterStatus) => count(each.delivered ?? 0),
                },
                {
                  head: "failed",
                  number: true,
                  rank: 2,
                  cell: (each: AdapterStatus) => count(each.failed ?? 0),
                },
                {
                  head: "last error",
                  cell: (each: AdapterStatus) =>
                    each.last_error ? (
                      <>
                        {visible(each.last_error)} <Since at={each.last_error_at} />
                      </>
                    ) : (
                      "–"
                    ),
                },
                {
                  head: "",
                  cell: (each: AdapterStatus) =>
                    each.direction === "pull" && (
                      <Act
                        done="Pulled"
                        act={() => call("POST", ofHub(path`/adapters/${each.name}/pull`)).then(found.reload)}
                      >
                        Pull now
                      </Act>
                    ),
                },
              ]}
            />
          )}
        </Show>
      </Section>
    </>
  );
}

// -- messages ---------------------------------------------------------------------------------------

interface Logged {
  at: number;
  state: string;
  message: { id: string; [field: string]: unknown };
}

function Messages() {
  const receiver = route.value.query.get("receiver") ?? "";
  const found = useLoad(
    (signal) => get<Page<Logged>>(ofHub("/messages"), { limit: 100, receiver }, signal),
    [hub.value, receiver],
    REFRESH_MS,
  );
  return (
    <>
      <Send sent={found.reload} />
      <Section
        title="Log"
        note="The newest first."
        tools={
          <input
            type="search"
            data-search
            placeholder="Receiver"
            aria-label="Receiver"
            value={receiver}
            onInput={(event) => setQuery({ receiver: event.currentTarget.value })}
          />
        }
      >
        <Show of={found}>
          {(page) => (
            <List
              label="Messages"
              rows={page.items}
              id={(each) => each.message.id}
              empty={
                <Empty command={`POST /v1/hubs/${hub.value}/comm/messages`}>
                  {receiver ? `No message to “${receiver}”.` : "No message to a person yet. Send one above."}
                </Empty>
              }
              columns={[
                { head: "time", rank: 2, cell: (each: Logged) => <Time at={each.at} /> },
                {
                  head: "state",
                  cell: (each: Logged) => (
                    <Tag kind={each.state === "decided" ? "good" : "warn"}>{each.state}</Tag>
                  ),
                },
                { head: "to", cell: (each: Logged) => visible(String(each.message.receiver ?? "")) || "–" },
                { head: "message", cell: (each: Logged) => <Json value={each.message} open={0} /> },
              ]}
            />
          )}
        </Show>
      </Section>
    </>
  );
}

/** An administrator sends as a service; others as themselves, where the hub lets its users send. */
function Send({ sent }: { sent: () => void }) {
  const [to, setTo] = useState("");
  const [type, setType] = useState("note");
  const [subtype, setSubtype] = useState("text");
  const [content, setContent] = useState("Hello");
  const send = async (): Promise<void> => {
    const sender = me.value?.userID ?? "dashboard";
    const body = { type, subtype, sender, receiver: to, content };
    const rights = isAdmin.value ? { level: "service" as const } : {};
    const { id } = await asClient<{ id: string }>("POST", "/comm/messages", rights, { body });
    tell(`Sent as ${id}`);
    sent();
  };
  return (
    <Section title="Send">
      <div class="form">
        <Field label="To" hint="A peer, or collective: and a name.">
          <input value={to} onInput={(event) => setTo(event.currentTarget.value)} />
        </Field>
        <Field label="Type">
          <input value={type} onInput={(event) => setType(event.currentTarget.value)} />
        </Field>
        <Field label="Subtype">
          <input value={subtype} onInput={(event) => setSubtype(event.currentTarget.value)} />
        </Field>
        <div class="whole">
          <Field label="Text">
            <textarea rows={2} value={content} onInput={(event) => setContent(event.currentTarget.value)} />
          </Field>
        </div>
      </div>
      <div class="tools end">
        <Act kind="main" disabled={to === "" || type === "" || subtype === ""} act={send}>
          Send
        </Act>
      </div>
    </Section>
  );
}

// -- dead deliveries --------------------------------------------------------------------------------

interface Dead {
  key: string;
  at: number;
  peer: string;
  adapter: string;
  reason: string;
  parameters: string[];
}

function DeadDeliveries() {
  const found = useLoad(
    (signal) => get<Page<Dead>>(ofHub("/dead-deliveries"), { limit: 100 }, signal),
    [hub.value],
    REFRESH_MS,
  );
  const shown = found.value?.items ?? [];
  const replay = async (keys: string[]): Promise<void> => {
    const { tried } = await post<{ tried: number }>(ofHub("/dead-deliveries/replay"), { keys });
    tell(`${count(tried)} tried again`);
    found.reload();
  };
  const discard = async (keys: string[]): Promise<void> => {
    const { discarded } = await post<{ discarded: number }>(ofHub("/dead-deliveries/discard"), { keys });
    if (discarded > 0) tell(`${count(discarded)} discarded`);
    else tell("Not discarded: the message is not decided yet, or it is being tried again.", "bad");
    found.reload();
  };
  return (
    <Section
      title="Dead deliveries"
      note="Copies of messages that reached nobody. They can be tried once more when the cause is gone."
      tools={
        <>
          <Act disabled={shown.length === 0} act={() => replay([])}>
            Replay all
          </Act>
          <Act
            kind="bad"
            disabled={shown.length === 0}
            ask={`Discard the ${plural(shown.length, "delivery", "deliveries")} of this list for good?`}
            act={() => discard(shown.map((each) => each.key))}
          >
            Discard these
          </Act>
        </>
      }
    >
      <Show of={found}>
        {(page) => (
          <List
            label="Dead deliveries"
            rows={page.items}
            id={(each) => each.key}
            empty={<Empty>Every message reached its receiver, or is still being tried.</Empty>}
            columns={[
              { head: "given up", rank: 2, cell: (each: Dead) => <Time at={each.at} /> },
              { head: "peer", cell: (each: Dead) => visible(each.peer) },
              {
                head: "by",
                rank: 2,
                cell: (each: Dead) => visible([each.adapter, ...each.parameters].join(" ")),
              },
              { head: "why", cell: (each: Dead) => visible(each.reason) },
              {
                head: "",
                cell: (each: Dead) => (
                  <div class="tools">
                    <Act act={() => replay([each.key])}>Replay</Act>
                    <Act
                      kind="bad"
                      ask={`Discard the delivery to ${visible(each.peer)} for good?`}
                      act={() => discard([each.key])}
                    >
                      Discard
                    </Act>
                  </div>
                ),
              },
            ]}
          />
        )}
      </Show>
    </Section>
  );
}
