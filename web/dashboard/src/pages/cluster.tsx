/** The cluster in three pictures: its members, its hubs with their channels, and what each member holds. */

import { useMemo } from "preact/hooks";
import { bytes, count, duration } from "../core/format";
import { useLoad } from "../core/load";
import { link, route, setQuery } from "../core/router";
import { hubScene, nodeScene, ringScene } from "../core/scenes";
import { hub } from "../core/session";
import { Graph } from "../ui/graph";
import { Head, Section, Show, Tabs, Tag } from "../ui/parts";
import { List } from "../ui/table";
import { loadTopology, type Topology, type TopologyNode } from "./shapes";

const VIEWS = [
  ["all", "All three"],
  ["members", "Members"],
  ["hubs", "Hubs and channels"],
  ["nodes", "Nodes, hubs, channels, sessions"],
] as const;
type Which = (typeof VIEWS)[number][0];
const REFRESH_MS = 3000;
const MOST_ROWS = 300;

export default function Cluster() {
  const found = useLoad((signal) => loadTopology(200, 10, signal), [hub.value], REFRESH_MS);
  const which = (route.value.query.get("view") ?? "all") as Which;
  return (
    <>
      <Head title="Cluster">
        <Tabs label="Pictures" of={VIEWS} value={which} onChange={(view) => setQuery({ view })} />
      </Head>
      <Show of={found}>{(topology) => <Pictures of={topology} which={which} />}</Show>
    </>
  );
}

function Pictures({ of, which }: { of: Topology; which: Which }) {
  // The same answer again is the same picture: it is not laid out anew.
  const key = JSON.stringify(of, (name, value: unknown) =>
    name === "uptimeSeconds" || name === "cpuPercent" || name === "memoryBytes" || name === "lastSeenMs"
      ? undefined
      : value,
  );
  const ring = useMemo(() => ringScene(of), [key]);
  const hubs = useMemo(() => hubScene(of), [key]);
  const nodes = useMemo(() => nodeScene(of), [key]);
  const shown = (view: Which): boolean => which === "all" || which === view;
  return (
    <>
      {shown("members") && (
        <Section
          title="Members and their connections"
          note="A line is a connection over which messages go. A broken line is one that does not carry any now."
        >
          <Graph scene={ring} label="Members of the cluster" ripples />
          <Twin label="Members">
            <Members of={of} />
          </Twin>
        </Section>
      )}
      {shown("hubs") && (
        <Section
          title="Hubs and their channels"
          note="From the middle to all hubs in use, and from each to its channels. Larger means more sessions."
        >
          <Graph scene={hubs} label="Hubs and their channels" />
          <Twin label="Hubs and channels">
            <Rows of={of} />
          </Twin>
        </Section>
      )}
      {shown("nodes") && (
        <Section
          title="Nodes, hubs, channels and sessions"
          note="What each member of the cluster has in its memory. Squares are sessions."
        >
          <Graph scene={nodes} label="Nodes, hubs, channels and sessions" />
          <Twin label="Nodes, hubs, channels and sessions">
            <Rows of={of} perNode />
          </Twin>
        </Section>
      )}
    </>
  );
}

function Twin({ children, label }: { children: preact.ComponentChildren; label: string }) {
  return (
    <details class="twin gap">
      <summary>Table</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keys */}
      <div class="scroll" role="region" tabIndex={0} aria-label={`${label} as a table`}>
        {children}
      </div>
    </details>
  );
}

function Members({ of }: { of: Topology }) {
  const silent = (of.silent ?? []).map((node) => ({ node }) as TopologyNode);
  return (
    <List
      label="Members"
      rows={[...of.nodes, ...silent]}
      id={(node) => node.node}
      empty={null}
      columns={[
        { head: "node", cell: (node) => node.node },
        {
          head: "state",
          cell: (node) => (node.role ? <Tag kind="good">{node.role}</Tag> : <Tag kind="bad">silent</Tag>),
        },
        {
          head: "hears",
          cell: (node) => [...(node.links ?? [])].sort().join(", ") || "–",
        },
        { head: "sessions", number: true, cell: (node) => count(node.sessions ?? 0) },
        { head: "partitions", number: true, cell: (node) => count(node.partitions ?? 0) },
        {
          head: "CPU",
          number: true,
          rank: 2,
          cell: (node) =>
            !node.memoryBytes || node.cpuPercent == null ? "–" : `${Math.round(node.cpuPercent)} %`,
        },
        {
          head: "memory",
          number: true,
          rank: 2,
          cell: (node) => (node.memoryBytes ? bytes(node.memoryBytes) : "–"),
        },
        { head: "up", number: true, rank: 2, cell: (node) => duration(node.uptimeSeconds ?? 0) },
      ]}
    />
  );
}

interface Row {
  node: string;
  hub: string;
  channel: string;
  sessions: number;
  ids: string[];
}

function Rows({ of, perNode = false }: { of: Topology; perNode?: boolean }) {
  const all = of.nodes.flatMap((node) =>
    node.hubs.flatMap((each) =>
      each.channels.map(
        (channel): Row => ({
          node: node.node,
          hub: each.hub,
          channel: channel.channel,
          sessions: channel.sessions,
          ids: channel.sessionIDs ?? [],
        }),
      ),
    ),
  );
  const rows = perNode ? all : joined(all);
  return (
    <>
      <List
        label="Channels"
        rows={rows.slice(0, MOST_ROWS)}
        id={(row) => `${row.node}\n${row.hub}\n${row.channel}`}
        empty={<p class="note">No channel is in use.</p>}
        columns={[
          ...(perNode ? [{ head: "node", cell: (row: Row) => row.node }] : []),
          { head: "hub", cell: (row: Row) => row.hub },
          {
            head: "channel",
            cell: (row: Row) => <a href={link("channels", [row.channel], { hub: row.hub })}>{row.channel}</a>,
          },
          { head: "sessions", number: true, cell: (row: Row) => count(row.sessions) },
          ...(perNode
            ? [{ head: "some of them", rank: 2 as const, cell: (row: Row) => row.ids.slice(0, 3).join(", ") }]
            : []),
        ]}
      />
      {rows.length > MOST_ROWS && <p class="note">+ {count(rows.length - MOST_ROWS)}</p>}
    </>
  );
}

function joined(rows: Row[]): Row[] {
  const sums = new Map<string, Row>();
  for (const row of rows) {
    const key = `${row.hub}\n${row.channel}`;
    const known = sums.get(key);
    sums.set(key, known ? { ...known, sessions: known.sessions + row.sessions } : row);
  }
  return [...sums.values()];
}
