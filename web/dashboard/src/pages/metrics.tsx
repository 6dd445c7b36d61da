/** Metrics over time: of the last day from the hub's memory, of the last month from the data pipeline. */

import { get, type Query } from "../core/api";
import { bytes, count, duration, moment } from "../core/format";
import { useLoad } from "../core/load";
import { route, setQuery } from "../core/router";
import { type Plot, thinned, withGaps } from "../core/series";
import { everywhere, hub, ofHub } from "../core/session";
import { Chart, type Line } from "../ui/chart";
import { Head, Section, Show, Tabs, Tag } from "../ui/parts";
import { List } from "../ui/table";
import { loadSeries } from "./shapes";

type Cell = string | number | boolean | null;
type Row = Record<string, Cell>;

interface Rows {
  rows: Row[];
  more: boolean;
  next?: number | null;
  computedAt: number | null;
}

const SPANS = [
  ["15m", "15 minutes"],
  ["24h", "24 hours"],
  ["31d", "31 days"],
] as const;
const MOST_POINTS = 900;
const DAY = 86_400;
const FLOW: Line[] = [
  { label: "in", colour: "in" },
  { label: "out", colour: "out" },
];
const COMMAND = "hubbub pipeline run";

export default function Metrics() {
  const span = (route.value.query.get("span") ?? "24h") as (typeof SPANS)[number][0];
  return (
    <>
      <Head title={hub.value === "" ? "Metrics" : `Metrics of ${hub.value}`}>
        <Tabs label="Time" of={SPANS} value={span} onChange={(next) => setQuery({ span: next })} />
      </Head>
      {span === "31d" ? <Month /> : <Recent key={span} span={span} />}
    </>
  );
}

function Recent({ span }: { span: "15m" | "24h" }) {
  const found = useLoad(
    (signal) => loadSeries(span, signal),
    [span, hub.value],
    span === "15m" ? 5000 : 30_000,
  );
  return (
    <Show of={found}>
      {({ plot, step }) => {
        const pick = (...places: number[]): Plot =>
          thinned(
            withGaps({ times: plot.times, values: places.map((place) => plot.values[place] ?? []) }, step),
            MOST_POINTS * 2,
          );
        const seconds = span === "15m" ? 900 : DAY;
        return (
          <div class="columns">
            <Chart
              title="Active sessions"
              lines={[{ label: "sessions", colour: "accent" }]}
              plot={pick(0)}
              span={seconds}
            />
            <Chart
              title="Active subscriptions"
              lines={[{ label: "subscriptions", colour: "out" }]}
              plot={pick(5)}
              span={seconds}
            />
            <Chart title="Messages per second" lines={FLOW} plot={pick(1, 2)} span={seconds} />
            <Chart
              title="Bytes per second"
              lines={FLOW}
              plot={pick(3, 4)}
              format={bytes}
              unit="bytes"
              span={seconds}
            />
          </div>
        );
      }}
    </Show>
  );
}

// -- what the pipeline made -------------------------------------------------------------------------

const HOUR = 3600;
const MONTH_MS = 31 * DAY * 1000;
const MOST_PAGES = 10;

/** A table of the pipeline. Tables with a row for all hubs are asked for `*`. */
function useTable(table: string, limit: number, summed = false, more: Query = {}) {
  const of = hub.value;
  return useLoad(
    (signal) =>
      get<Rows>(
        everywhere.value ? `/analytics/${table}` : ofHub(`/analytics/${table}`),
        { limit, ...(everywhere.value && { hub: of || (summed ? "*" : undefined) }), ...more },
        signal,
      ),
    [table, of, limit],
  );
}

/** All rows of the last 31 days: of the hubs in question together, by the hour, where `step` says so. */
function useMonth(table: string, summed: boolean, step?: number) {
  const of = hub.value;
  return useLoad(
    async (signal) => {
      const where = everywhere.value ? `/analytics/${table}` : ofHub(`/analytics/${table}`);
      const since = new Date(Date.now() - MONTH_MS).toISOString();
      const query: Query = {
        limit: 1000,
        since,
        ...(step !== undefined && { step }),
        ...(everywhere.value && { hub: of || (summed ? "*" : undefined) }),
      };
      const found = await get<Rows>(where, query, signal);
      let page = found;
      for (let pages = 1; page.next != null && pages < MOST_PAGES; pages += 1) {
        page = await get<Rows>(where, { ...query, cursor: page.next }, signal);
        found.rows.push(...page.rows);
      }
      return found;
    },
    [table, of],
  );
}

const seconds = (text: Cell): number => Date.parse(String(text)) / 1000;

/** Rows of several hubs at the same time are added up; what is not there at a time is a gap. */
function plotOf(rows: Row[], time: string, columns: string[], step: number, scale = 1): Plot {
  const at = new Map<number, (number | null)[]>();
  for (const row of rows) {
    const when = seconds(row[time] ?? null);
    const sums = at.get(when) ?? columns.map(() => null);
    columns.forEach((column, place) => {
      const value = row[column];
      if (typeof value === "number") sums[place] = (sums[place] ?? 0) + value * scale;
    });
    at.set(when, sums);
  }
  const times = [...at.keys()].sort((a, b) => a - b);
  return withGaps(
    { times, values: columns.map((_, place) => times.map((when) => at.get(when)?.[place] ?? null)) },
    step,
  );
}

function Month() {
  const traffic = useMonth("traffic", false, HOUR);
  return (
    <Show of={traffic} missing={<WithoutPipeline />}>
      {(rows) =>
        rows.computedAt === null ? (
          <WithoutPipeline />
        ) : (
          <>
            <p class="note">
              As of {moment(rows.computedAt)}. Where nothing is drawn, nothing happened that the journal knows
              of.
            </p>
            <Activity />
            <Traffic of={rows} />
            <Sessions />
            <HoursOfDay />
            <Latency />
            <Forecast />
            <Audit />
            <Trending />
          </>
        )
      }
    </Show>
  );
}

// -- what the hub itself counted ---------------------------------------------------------------------

interface Step {
  at: number;
  messagesIn: number;
  messagesOut: number;
  bytesIn: number;
  bytesOut: number;
  sessionsOpened: number;
  sessionsEnded: number;
  sessionUs: number;
  activeSessions: number;
  activeChannels: number;
  activeHubs: number;
}

interface Kept {
  steps: Step[];
  hours: { hour: number; sessions: number; ended: number; sessionUs: number }[];
}

/** The counters of the last 31 days, which survive restarts and need no pipeline. */
function useKept(step: number) {
  const of = hub.value;
  return useLoad(
    (signal) => {
      const where = of === "" && everywhere.value ? "/kept-counters" : ofHub("/kept-counters");
      return get<Kept>(where, { since: Math.floor((Date.now() - MONTH_MS) / 1000), step }, signal);
    },
    [of, step],
    60_000,
  );
}

function stepsOf(steps: Step[], step: number, ...values: ((each: Step) => number | null)[]): Plot {
  return withGaps(
    { times: steps.map((each) => each.at), values: values.map((value) => steps.map(value)) },
    step,
  );
}

const meanOf = (microseconds: number, ended: number): number | null =>
  ended === 0 ? null : microseconds / ended / 1e6;

function WithoutPipeline() {
  const hourly = useKept(HOUR);
  const daily = useKept(DAY);
  return (
    <>
      <p class="note">
        What the hub counted itself. <code>{COMMAND}</code> adds latency, forecast, the exactly-once audit and
        trends.
      </p>
      <Show of={hourly}>
        {({ steps }) => (
          <>
            <Section title="Activity">
              <div class="columns">
                <Chart
                  title="Active channels"
                  lines={[{ label: "channels", colour: "out" }]}
                  plot={stepsOf(steps, HOUR, (each) => each.activeChannels)}
                />
                <Chart
                  title="Active sessions"
                  lines={[{ label: "sessions", colour: "accent" }]}
                  plot={stepsOf(steps, HOUR, (each) => each.activeSessions)}
                />
                {hub.value === "" && (
                  <Chart
                    title="Active hubs"
                    lines={[{ label: "hubs", colour: "in" }]}
                    plot={stepsOf(steps, HOUR, (each) => each.activeHubs)}
                  />
                )}
              </div>
            </Section>
            <Section title="Traffic">
              <div class="columns">
                <Chart
                  title="Messages by the hour"
                  lines={FLOW}
                  plot={stepsOf(
                    steps,
                    HOUR,
                    (each) => each.messagesIn,
                    (each) => each.messagesOut,
                  )}
                />
                <Chart
                  title="Bytes by the hour"
                  lines={FLOW}
                  plot={stepsOf(
                    steps,
                    HOUR,
                    (each) => each.bytesIn,
                    (each) => each.bytesOut,
                  )}
                  format={bytes}
                  unit="bytes"
                />
              </div>
            </Section>
          </>
        )}
      </Show>
      <Section title="Sessions by day">
        <Show of={daily}>
          {({ steps }) => (
            <div class="columns">
              <Chart
                title="Sessions opened"
                bars
                lines={[{ label: "sessions", colour: "accent" }]}
                plot={stepsOf(steps, DAY, (each) => each.sessionsOpened)}
              />
              <Chart
                title="Mean duration"
                bars
                lines={[{ label: "mean", colour: "in" }]}
                plot={stepsOf(steps, DAY, (each) => meanOf(each.sessionUs, each.sessionsEnded))}
                format={duration}
                unit="seconds"
              />
            </div>
          )}
        </Show>
      </Section>
      <HoursOfDay />
    </>
  );
}

function HoursOfDay() {
  const kept = useKept(DAY);
  return (
    <Section title="Sessions by hour of the day" note="In UTC, all of the last 31 days together.">
      <Show of={kept}>
        {({ hours }) => (
          <List
            label="Sessions by hour of the day"
            rows={hours}
            id={(each) => String(each.hour)}
            empty={<p class="note">No sessions yet.</p>}
            columns={[
              { head: "hour", cell: (each) => `${String(each.hour).padStart(2, "0")}:00` },
              { head: "sessions", number: true, cell: (each) => count(each.sessions) },
              {
                head: "mean duration",
                number: true,
                cell: (each) => {
                  const mean = meanOf(each.sessionUs, each.ended);
                  return mean === null ? "" : duration(mean);
                },
              },
            ]}
          />
        )}
      </Show>
    </Section>
  );
}

function Activity() {
  const activity = useMonth("activity", true, HOUR);
  return (
    <Section title="Activity">
      <Show of={activity}>
        {({ rows }) => {
          const step = HOUR;
          return (
            <div class="columns">
              <Chart
                title="Active channels"
                lines={[{ label: "channels", colour: "out" }]}
                plot={plotOf(rows, "time", ["active_channels"], step)}
              />
              <Chart
                title="Active sessions"
                lines={[{ label: "sessions", colour: "accent" }]}
                plot={plotOf(rows, "time", ["active_sessions"], step)}
              />
              <Chart
                title="Active hubs"
                lines={[{ label: "hubs", colour: "in" }]}
                plot={plotOf(rows, "time", ["active_hubs"], step)}
              />
            </div>
          );
        }}
      </Show>
    </Section>
  );
}

function Traffic({ of: { rows } }: { of: Rows }) {
  const step = HOUR;
  return (
    <Section title="Traffic">
      <div class="columns">
        <Chart
          title="Messages by the hour"
          lines={FLOW}
          plot={plotOf(rows, "time", ["messages_in", "messages_out"], step)}
        />
        <Chart
          title="Bytes by the hour"
          lines={FLOW}
          plot={plotOf(rows, "time", ["bytes_in", "bytes_out"], step)}
          format={bytes}
          unit="bytes"
        />
      </div>
    </Section>
  );
}

function Sessions() {
  const daily = useMonth("sessions_daily", false);
  return (
    <Section title="Sessions by day">
      <Show of={daily}>
        {({ rows }) => (
          <div class="columns">
            <Chart
              title="Sessions opened"
              bars
              lines={[{ label: "sessions", colour: "accent" }]}
              plot={plotOf(rows, "day", ["sessions"], DAY)}
            />
            <Chart
              title="Mean duration"
              bars
              lines={[{ label: "mean", colour: "in" }]}
              plot={meanDuration(rows)}
              format={duration}
              unit="seconds"
            />
          </div>
        )}
      </Show>
    </Section>
  );
}

/** The mean of all hubs is weighted by how many sessions ended in each. */
function meanDuration(rows: Row[]): Plot {
  const sums = new Map<number, [number, number]>();
  for (const row of rows) {
    const ended = Number(row.duration_count ?? 0);
    if (ended === 0) continue;
    const day = seconds(row.day ?? null);
    const [total, n] = sums.get(day) ?? [0, 0];
    sums.set(day, [total + Number(row.duration_mean) * ended, n + ended]);
  }
  const times = [...sums.keys()].sort((a, b) => a - b);
  return withGaps(
    {
      times,
      values: [
        times.map(
          (day) => (sums.get(day) as [number, number])[0] / (sums.get(day) as [number, number])[1] / 1e6,
        ),
      ],
    },
    DAY,
  );
}

function Latency() {
  const overall = useTable("latency_overall", 200);
  return (
    <Section title="Latency" note="From publishing to the write to the subscriber's socket, over all time.">
      <Show of={overall}>
        {({ rows }) => (
          <List
            label="Latency"
            rows={rows
              .filter((row) => row.channel === null)
              .concat(rows.filter((row) => row.channel !== null))
              .slice(0, 30)}
            id={(row) => `${row.hub}\n${row.channel}\n${row.technology}`}
            empty={<p class="note">Nothing was delivered.</p>}
            columns={[
              { head: "hub", cell: (row: Row) => row.hub },
              { head: "channel", cell: (row: Row) => row.channel ?? <span class="quiet">all</span> },
              { head: "technology", rank: 2, cell: (row: Row) => row.technology },
              { head: "deliveries", number: true, cell: (row: Row) => count(Number(row.deliveries)) },
              ...["p50", "p90", "p99", "max"].map((part) => ({
                head: part,
                number: true,
                ...(part !== "p50" && { rank: 2 as const }),
                cell: (row: Row) => duration(Number(row[`latency_${part}`]) / 1e6),
              })),
            ]}
          />
        )}
      </Show>
    </Section>
  );
}

const EXPECTED: Line[] = [
  { label: "expected", colour: "accent" },
  { label: "at least", colour: "muted", dashed: true },
  { label: "at most", colour: "muted", dashed: true },
  { label: "came", colour: "ink" },
];

function Forecast() {
  const forecast = useTable("forecast", 1000, true);
  return (
    <Show of={forecast} missing={null}>
      {({ rows }) => {
        if (rows.length === 0) return null;
        const now = Math.min(
          ...rows.filter((row) => row.held_back !== true).map((row) => seconds(row.time ?? null)),
        );
        return (
          <Section
            title="Forecast"
            note="The coming week by the hour, with the range in which nine of ten hours will lie; to the left of the line, what was forecast for the last days against what came."
          >
            <div class="columns">
              {["messages_in", "messages_out"].map((measure) => (
                <Chart
                  key={measure}
                  title={measure === "messages_in" ? "Messages in, by the hour" : "Messages out, by the hour"}
                  lines={EXPECTED}
                  band={[1, 2]}
                  {...(Number.isFinite(now) && { now })}
                  plot={plotOf(
                    rows,
                    "time",
                    [measure, `${measure}_low`, `${measure}_high`, `${measure}_actual`],
                    3600,
                  )}
                />
              ))}
              <Chart
                title="Nodes that this calls for"
                lines={[{ label: "nodes", colour: "in" }]}
                plot={plotOf(rows, "time", ["nodes"], 3600)}
              />
            </div>
          </Section>
        );
      }}
    </Show>
  );
}

function Audit() {
  const audit = useTable("audit", 50);
  return (
    <Section title="Exactly once" note="Whether every message was put and received once and in order.">
      <Show of={audit}>
        {({ rows }) => (
          <List
            label="Exactly once"
            rows={rows}
            id={(row) => `${row.kind}\n${row.hub}\n${row.channel}\n${row.name}`}
            empty={<p class="note">No producer and no durable subscription so far.</p>}
            columns={[
              { head: "kind", cell: (row: Row) => row.kind },
              { head: "name", cell: (row: Row) => row.name },
              {
                head: "verdict",
                cell: (row: Row) => (
                  <Tag
                    kind={
                      row.verdict === "exactly once" ? "good" : row.verdict === "waiting" ? "plain" : "bad"
                    }
                  >
                    {row.verdict}
                  </Tag>
                ),
              },
              { head: "channel", rank: 2, cell: (row: Row) => row.channel },
              ...["lost", "doubled", "out_of_order"].map((column) => ({
                head: column.replace(/_/g, " "),
                number: true,
                cell: (row: Row) =>
                  Number(row[column]) > 0 ? <Tag kind="bad">{count(Number(row[column]))}</Tag> : "0",
              })),
            ]}
          />
        )}
      </Show>
    </Section>
  );
}

function Trending() {
  const trending = useTable("trending", 30);
  return (
    <Section
      title="Trends"
      note="Channels, types of messages and words that are used more than they usually are."
    >
      <Show of={trending}>
        {({ rows }) => (
          <List
            label="Trends"
            rows={rows}
            id={(row) => `${row.time}\n${row.hub}\n${row.kind}\n${row.rank}`}
            empty={<p class="note">Nothing is out of the ordinary.</p>}
            columns={[
              { head: "time", cell: (row: Row) => moment(Date.parse(String(row.time))) },
              { head: "kind", cell: (row: Row) => row.kind },
              { head: "what", cell: (row: Row) => row.name },
              { head: "messages", number: true, cell: (row: Row) => count(Number(row.messages)) },
              { head: "usually", number: true, cell: (row: Row) => Number(row.usual).toFixed(1) },
              { head: "score", number: true, rank: 2, cell: (row: Row) => Number(row.score).toFixed(1) },
            ]}
          />
        )}
      </Show>
    </Section>
  );
}
