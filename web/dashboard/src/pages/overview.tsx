/** What the hub does this second, and whether something is wrong. */

import { computed, type ReadonlySignal, useComputed, useSignal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import { get } from "../core/api";
import { bytes, count, duration, plural, rate } from "../core/format";
import { useLatest, useTick } from "../core/live";
import { useLoad } from "../core/load";
import { link } from "../core/router";
import { append, type Plot, withGaps } from "../core/series";
import { everywhere, hub, liveName, ofHubOrAll } from "../core/session";
import { Chart, type Line } from "../ui/chart";
import { Empty, Head, Section, Show, Since, Stat, Tag } from "../ui/parts";
import { type Column, List, Table, whole } from "../ui/table";
import {
  type Counters,
  loadSeries,
  loadTopology,
  type Rates,
  type Topology,
  type TopologyNode,
} from "./shapes";

/** Rates are per second, as measured over the last one. */
interface HubTick extends Rates {
  sessions: number;
  subscriptions: number;
}

interface Tick extends HubTick {
  at: number;
  hubs?: Record<string, HubTick>;
}

interface Alarm {
  id: string;
  severity: "bad" | "warn" | "info";
  text: string;
  since: number;
}

const SHOWN_SECONDS = 15 * 60;
/** Between two rows of a series; one may be late by as much again. */
const STEP_SECONDS = 2;
const ORDER_MS = 15_000;
const MESSAGES: Line[] = [
  { label: "in", colour: "in" },
  { label: "out", colour: "out" },
];
const SESSIONS: Line[] = [{ label: "sessions", colour: "accent" }];

export default function Overview() {
  const tick = useLatest<Tick>(liveName("counters"));
  const topology = useLoad((signal) => loadTopology(0, 0, signal), [hub.value], 5000);
  const totals = useLoad(
    async (signal) => {
      const found = await get<Counters | { total: Counters }>(ofHubOrAll("/counters"), {}, signal);
      return "total" in found ? found.total : found;
    },
    [hub.value],
    5000,
  );
  return (
    <>
      <Head title={hub.value === "" ? "Overview" : `Hub ${hub.value}`} />
      <Alarms />
      <Figures of={tick} topology={topology.value} />
      <Traffic />
      {hub.value === "" && (
        <Section title="Hubs">
          <Hubs of={tick} />
        </Section>
      )}
      <Section title="Nodes">
        <Show of={topology}>{(found) => <Nodes of={found} />}</Show>
      </Section>
      {totals.value && <Totals of={totals.value} />}
    </>
  );
}

function Alarms() {
  const alarms = useLatest<{ alarms: Alarm[] }>(liveName("alarms")).value?.alarms ?? [];
  return (
    <div role="alert">
      {alarms.length > 0 && (
        <ul class="alarms">
          {alarms.map((alarm) => (
            <li key={alarm.id} class={alarm.severity}>
              <Tag kind={alarm.severity === "info" ? "plain" : alarm.severity}>
                {{ bad: "alarm", warn: "warning", info: "note" }[alarm.severity]}
              </Tag>
              <span>{alarm.text}</span>
              <span class="quiet">
                <Since at={alarm.since} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** Its texts change with each tick, and nothing else does. */
function Figures({
  of: tick,
  topology,
}: {
  of: ReadonlySignal<Tick | undefined>;
  topology: Topology | undefined;
}) {
  const told = (say: (tick: Tick) => string): ReadonlySignal<string> =>
    useComputed(() => (tick.value ? say(tick.value) : "–"));
  const hubs = new Set(topology?.nodes.flatMap((node) => node.hubs.map((each) => each.hub)));
  const channels = sumOf(topology, (node) => node.hubs.reduce((sum, each) => sum + each.channelCount, 0));
  return (
    <div class="stats">
      <Stat
        label="Messages in"
        kind="in"
        value={told((now) => `${rate(now.messagesIn)}/s`)}
        sub={told((now) => `${bytes(now.bytesIn)}/s`)}
      />
      <Stat
        label="Messages out"
        kind="out"
        value={told((now) => `${rate(now.messagesOut)}/s`)}
        sub={told((now) => `${bytes(now.bytesOut)}/s`)}
      />
      <Stat
        label="Sessions"
        href={link("sessions")}
        value={told((now) => count(now.sessions))}
        sub={told((now) => plural(now.subscriptions, "subscription"))}
      />
      <Stat
        label="Channels"
        href={link("channels")}
        value={topology ? count(channels) : "–"}
        sub="with sessions"
      />
      {everywhere.value && hub.value === "" && (
        <Stat label="Hubs" href={link("rules")} value={topology ? count(hubs.size) : "–"} sub="in use" />
      )}
      <Stat
        label="Nodes"
        href={link("cluster")}
        value={topology ? count(topology.nodes.length) : "–"}
        kind={topology?.silent?.length ? "bad" : ""}
        sub={topology?.silent?.length ? `${topology.silent.length} silent` : "all answer"}
      />
    </div>
  );
}

const sumOf = (topology: Topology | undefined, of: (node: TopologyNode) => number): number =>
  (topology?.nodes ?? []).reduce((sum, node) => sum + of(node), 0);

/** Columns of a series. */
const PLACES = { sessions: 0, messages: [1, 2], bytes: [3, 4] } as const;

/** The series, and parts of it that share its columns: they are changed in place. */
function partsOf(kept: Plot) {
  const whole = withGaps(kept, STEP_SECONDS);
  const part = (...places: number[]): Plot => ({
    times: whole.times,
    values: places.map((place) => whole.values[place] ?? []),
  });
  return {
    whole,
    messages: part(...PLACES.messages),
    bytes: part(...PLACES.bytes),
    sessions: part(PLACES.sessions),
  };
}

/** The last quarter of an hour: what the hub kept, and then each tick. */
function Traffic() {
  const kept = useLoad((signal) => loadSeries("15m", signal), [hub.value]);
  const parts = useMemo(
    () => partsOf(kept.value?.plot ?? { times: [], values: [[], [], [], [], [], []] }),
    [kept.value],
  );
  const newest = useRef(parts);
  newest.current = parts;
  const beat = useSignal(0);
  useTick<Tick>(liveName("counters"), (tick) => {
    const row = [
      tick.sessions,
      tick.messagesIn,
      tick.messagesOut,
      tick.bytesIn,
      tick.bytesOut,
      tick.subscriptions,
    ];
    append(newest.current.whole, Math.round(tick.at / 1000), row, SHOWN_SECONDS, STEP_SECONDS);
    beat.value += 1;
  });
  const common = { height: 168, span: SHOWN_SECONDS, beat };
  return (
    <Section title="The last 15 minutes">
      <div class="columns three">
        <Chart title="Messages per second" lines={MESSAGES} plot={parts.messages} {...common} turn={0} />
        <Chart
          title="Bytes per second"
          lines={MESSAGES}
          plot={parts.bytes}
          format={bytes}
          unit="bytes"
          {...common}
          turn={1}
        />
        <Chart title="Open sessions" lines={SESSIONS} plot={parts.sessions} {...common} turn={2} />
      </div>
    </Section>
  );
}

/** The rows are made anew when their order changes; a tick changes their texts only. */
function Hubs({ of: tick }: { of: ReadonlySignal<Tick | undefined> }) {
  const kept = useRef<{ turn: string; order: string[] } | null>(null);
  // The busiest first; rows that changed places every second could not be read.
  const order = useComputed(() => {
    if (!tick.value) return undefined;
    const { at, hubs = {} } = tick.value;
    const names = Object.keys(hubs).sort();
    const turn = [Math.floor(at / ORDER_MS), ...names].join("\n");
    if (turn !== kept.current?.turn) {
      const before = kept.current?.order;
      const now = names.sort((a, b) => (hubs[b]?.sessions ?? 0) - (hubs[a]?.sessions ?? 0));
      kept.current = { turn, order: before && before.join("\n") === now.join("\n") ? before : now };
    }
    return kept.current.order;
  });
  const figure = (head: string, say: (now: HubTick) => string, rank: 1 | 2 = 1): Column<string> => ({
    head,
    number: true,
    rank,
    cell: (name) =>
      computed(() => {
        const now = tick.value?.hubs?.[name];
        return now ? say(now) : "–";
      }),
  });
  const columns: Column<string>[] = [
    { head: "hub", cell: (name) => <a href={link("overview", [], { hub: name })}>{name}</a> },
    figure("sessions", (now) => count(now.sessions)),
    figure("subscriptions", (now) => count(now.subscriptions), 2),
    figure("in/s", (now) => rate(now.messagesIn)),
    figure("out/s", (now) => rate(now.messagesOut)),
    figure("bytes out/s", (now) => bytes(now.bytesOut), 2),
  ];
  return (
    <Table
      label="Hubs"
      of={whole(order.value ?? [], !order.value)}
      columns={columns}
      id={(name) => name}
      height={10}
      empty={<Empty command="hubbub publish news Hello">No hub is in use.</Empty>}
    />
  );
}

function Nodes({ of }: { of: Topology }) {
  const columns: Column<TopologyNode>[] = [
    { head: "node", cell: (node) => node.node },
    { head: "role", rank: 2, cell: (node) => node.role },
    { head: "version", rank: 3, cell: (node) => node.version },
    { head: "sessions", number: true, cell: (node) => count(node.sessions) },
    { head: "channels owned", number: true, rank: 2, cell: (node) => count(node.channels) },
    { head: "partitions", number: true, rank: 2, cell: (node) => count(node.partitions) },
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
    { head: "up", number: true, cell: (node) => duration(node.uptimeSeconds) },
  ];
  return (
    <List
      label="Nodes"
      rows={of.nodes}
      columns={columns}
      id={(node) => node.node}
      empty={<p class="note">No node answered.</p>}
    />
  );
}

function Totals({ of }: { of: Counters }) {
  return (
    <Section title="Since the nodes began">
      <div class="stats">
        <Stat label="Messages in" value={count(of.messagesIn)} sub={bytes(of.bytesIn)} />
        <Stat label="Messages out" value={count(of.messagesOut)} sub={bytes(of.bytesOut)} />
        <Stat label="Refused" value={count(of.messagesRefused)} />
        <Stat label="Sessions opened" value={count(of.sessionsOpened)} />
        <Stat label="Slow consumers" value={count(of.slowConsumers)} />
        <Stat
          label="Publish, mean"
          value={duration(of.publishSecondsMean)}
          sub={plural(of.publishRequests, "request")}
        />
      </div>
    </Section>
  );
}
