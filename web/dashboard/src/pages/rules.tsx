/** Rules, namespaces, routes and the settings of hubs, with what they use of their quotas. */

import { useState } from "preact/hooks";
import { get, getVersioned, type Page, post, remove } from "../core/api";
import { count, plural, visible, words } from "../core/format";
import { useLoad } from "../core/load";
import { go, link, route, setQuery } from "../core/router";
import { everywhere, hub, isAdmin, ofHub } from "../core/session";
import { Act, Bar, Empty, Field, Head, Section, Show, Tabs } from "../ui/parts";
import { type Column, PAGE_ROWS, Table, useRows } from "../ui/table";
import { SettingsTable, VersionedForm } from "./settings-table";
import type { Counters } from "./shapes";

const TABS = [
  ["rules", "Rules"],
  ["namespaces", "Namespaces"],
  ["rpc-routes", "Routes to services"],
  ["hub", "This hub"],
  ["hubs", "All hubs"],
] as const;
type Tab = (typeof TABS)[number][0];

export default function Rules() {
  const show = (route.value.query.get("show") ??
    (TABS.some(([tab]) => tab === route.value.parts[0]) ? route.value.parts[0] : "rules")) as Tab;
  const tabs = TABS.filter(([tab]) => tab !== "hubs" || everywhere.value);
  return (
    <>
      <Head title="Rules and hubs">
        <Tabs
          label="Part"
          of={tabs}
          value={show}
          onChange={(next) => go(link("rules", [], { show: next }))}
        />
        {show !== "hub" && (
          <input
            type="search"
            data-search
            placeholder="Names that begin with"
            aria-label="Names that begin with"
            value={route.value.query.get("q") ?? ""}
            onInput={(event) => setQuery({ q: event.currentTarget.value })}
          />
        )}
      </Head>
      {show === "rules" && (
        <SettingsTable
          kind="rules"
          schema="Rules"
          one="rules"
          fresh={{}}
          page="rules"
          query={{ show: "rules" }}
          column={["what they turn on", turnedOn]}
          tryOut={effectOf}
          none="Rules say what a channel does: who may use it, and what is stored."
        />
      )}
      {show === "namespaces" && (
        <SettingsTable
          kind="namespaces"
          schema="Namespace"
          one="namespace"
          fresh={{ rules: "" }}
          page="rules"
          query={{ show: "namespaces" }}
          column={["rules", (value) => String(value.rules)]}
          none="A namespace gives rules to all channels whose names begin with its own and a colon."
        />
      )}
      {show === "rpc-routes" && (
        <SettingsTable
          kind="rpc-routes"
          schema="RpcRoute"
          one="route"
          fresh={{ method: "", url: "https://", headers: {}, timeoutSeconds: 10, addresses: null }}
          page="rules"
          query={{ show: "rpc-routes" }}
          column={["method → service", (value) => `${value.method} → ${value.url}`]}
          none="A route has the calls of a method answered by a service at a URL."
        />
      )}
      {show === "hub" && <ThisHub />}
      {show === "hubs" && <Hubs />}
    </>
  );
}

const turnedOn = (value: Record<string, unknown>): string =>
  Object.entries(value)
    .filter(([, each]) => each === true || (typeof each === "number" && each > 0))
    .map(([name, each]) => (each === true ? words(name) : `${words(name)} ${count(each as number)}`))
    .join(", ");

interface Effect {
  channels: number;
  subscriptions: number;
  checked: number;
  losing: number;
  examples: string[];
}

/** What rules would do to those who are connected now. */
async function effectOf(at: string, value: unknown): Promise<string> {
  const { channels, subscriptions, checked, losing, examples } = await post<Effect>(`${at}/dry-run`, value);
  if (channels === 0) return "No channel in use has these rules now.";
  const such = examples.slice(0, 3).map(visible).join(", ");
  const ending = `${count(losing)} of ${plural(checked, "subscription")} that were looked at would end`;
  return `${plural(channels, "channel")} in use (${such}${channels > 3 ? " …" : ""}), ${plural(subscriptions, "subscription")}; ${ending}.`;
}

interface HubView {
  hub: string;
  stored: boolean;
  sessions: number;
  channels: number;
  settings: { quotas: Record<string, number> };
}

function ThisHub() {
  const view = useLoad((signal) => get<HubView>(ofHub(), {}, signal), [hub.value], 5000);
  const counters = useLoad((signal) => get<Counters>(ofHub("/counters"), {}, signal), [hub.value], 5000);
  const settings = useLoad(() => getVersioned<Record<string, unknown>>(ofHub("/settings")), [hub.value]);
  return (
    <>
      <Section title="Quotas">
        <Show of={view}>{(found) => <Quotas of={found} counters={counters.value} />}</Show>
      </Section>
      <Section
        title="Settings"
        note="Quotas, callback addresses and NATS subjects can be changed by an administrator only."
      >
        <Show of={settings}>
          {(stored) => (
            <VersionedForm
              key={stored.etag}
              at={ofHub("/settings")}
              schema="HubSettings"
              stored={stored}
              done={settings.reload}
            />
          )}
        </Show>
      </Section>
      {isAdmin.value && everywhere.value && (
        <Section title="Delete">
          <Act
            kind="bad"
            ask={`Delete the hub ${hub.value} with all that it holds, and end its sessions?`}
            done="Deleted"
            act={() => remove(ofHub()).then(() => go(link("rules", [], { show: "hubs", hub: "" })))}
          >
            Delete the hub {hub.value}
          </Act>
        </Section>
      )}
    </>
  );
}

function Quotas({ of, counters }: { of: HubView; counters: Counters | undefined }) {
  const used: Record<string, number | undefined> = {
    sessions: counters?.sessions ?? of.sessions,
    channels: of.channels,
  };
  return (
    <dl class="facts">
      {Object.entries(of.settings.quotas).map(([name, limit]) => (
        <div key={name}>
          <dt>{words(name)}</dt>
          <dd>
            {[used[name] === undefined ? "" : count(used[name]), limit === 0 ? "no limit" : count(limit)]
              .filter(Boolean)
              .join(limit === 0 ? ", " : " of ")}
            {limit > 0 && used[name] !== undefined && (
              <Bar
                used={used[name]}
                limit={limit}
                label={`${words(name)}: ${count(used[name])} of ${count(limit)}`}
              />
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}

interface HubRow {
  hub: string;
  stored: boolean;
  sessions: number;
  channels: number;
}

function Hubs() {
  const q = route.value.query.get("q") ?? "";
  const sort = route.value.query.get("sort") ?? "name";
  const [name, setName] = useState("");
  const rows = useRows<HubRow>(
    (cursor, signal) => get<Page<HubRow>>("/hubs", { limit: PAGE_ROWS, cursor, prefix: q, sort }, signal),
    [q, sort],
  );
  const columns: Column<HubRow>[] = [
    {
      head: "hub",
      sort: "name",
      cell: (row) => <a href={link("rules", [], { hub: row.hub, show: "hub" })}>{row.hub}</a>,
    },
    { head: "sessions", sort: "-sessions", number: true, width: "96px", cell: (row) => count(row.sessions) },
    { head: "channels", number: true, rank: 2, width: "96px", cell: (row) => count(row.channels) },
    {
      head: "settings",
      rank: 2,
      cell: (row) => (row.stored ? "its own" : <span class="quiet">defaults</span>),
    },
  ];
  return (
    <>
      {isAdmin.value && (
        <Section title="New hub">
          <div class="tools">
            <Field label="Name">
              <input value={name} onInput={(event) => setName(event.currentTarget.value)} />
            </Field>
            <Act
              kind="main"
              disabled={name === ""}
              done={`Created ${name}`}
              act={() => post("/hubs", { hub: name }).then(rows.reload)}
            >
              Create
            </Act>
          </div>
        </Section>
      )}
      <Section title="All hubs">
        <Table
          label="Hubs"
          of={rows}
          columns={columns}
          id={(row) => row.hub}
          sort={sort}
          onSort={(next) => setQuery({ sort: next })}
          empty={<Empty command="hubbub publish news Hello">No hub yet.</Empty>}
        />
      </Section>
    </>
  );
}
