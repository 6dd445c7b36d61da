/** The journal and the tables that the pipeline made of it. */

import { get } from "../core/api";
import { bytes, count, duration, moment } from "../core/format";
import { useLoad } from "../core/load";
import { link, route } from "../core/router";
import { everywhere, hub, ofHub } from "../core/session";
import { Empty, Facts, Head, Section, Show, Since, Time, Trouble } from "../ui/parts";
import { List } from "../ui/table";

interface Table {
  table: string;
  question: string;
}

interface State {
  journal: { events: number; lost: number; bufferedBytes: number } | null;
  computedAt: number | null;
  problem: string | null;
}

type Row = Record<string, unknown>;

interface Rows {
  columns: string[];
  rows: Row[];
  more: boolean;
  computedAt: number | null;
}

const base = (): string => (everywhere.value ? "/analytics" : ofHub("/analytics"));

export default function Data() {
  const table = route.value.parts[0];
  return table === undefined ? <All /> : <One key={table} table={table} />;
}

function All() {
  const tables = useLoad((signal) => get<{ tables: Table[] }>(base(), {}, signal), [hub.value]);
  const state = useLoad(
    (signal) =>
      everywhere.value
        ? get<State>("/data", {}, signal)
        : Promise.resolve({ journal: null, computedAt: null, problem: null } as State),
    [],
  );
  return (
    <>
      <Head title="Data" />
      {everywhere.value && (
        <Show of={state} missing={null}>
          {(found) => (
            <Section title="Journal and pipeline">
              <Facts
                of={[
                  ["journal", found.journal ? "on" : "off: set journal.path"],
                  ["events", found.journal && count(found.journal.events)],
                  ["lost", found.journal && count(found.journal.lost)],
                  ["to be written", found.journal && bytes(found.journal.bufferedBytes)],
                  ["tables are of", <Time at={found.computedAt} />],
                ]}
              />
              {found.problem && <Trouble error={found.problem} />}
            </Section>
          )}
        </Show>
      )}
      <Show
        of={tables}
        missing={<Empty command="hubbub pipeline run">The data pipeline has not run yet.</Empty>}
      >
        {(found) => (
          <Section
            title="Tables"
            note={
              state.value?.computedAt ? (
                <>
                  Brought up to date <Since at={state.value.computedAt} />.
                </>
              ) : (
                everywhere.value && state.value && "The pipeline has not run yet: hubbub pipeline run"
              )
            }
          >
            <List
              label="Tables"
              rows={found.tables}
              id={(each) => each.table}
              empty={<Empty command="hubbub pipeline run">No table yet.</Empty>}
              columns={[
                {
                  head: "table",
                  cell: (each: Table) => <a href={link("data", [each.table])}>{each.table}</a>,
                },
                { head: "what it answers", cell: (each: Table) => each.question },
              ]}
            />
          </Section>
        )}
      </Show>
    </>
  );
}

function One({ table }: { table: string }) {
  const found = useLoad(
    (signal) =>
      get<Rows>(
        `${base()}/${encodeURIComponent(table)}`,
        { limit: 200, ...(everywhere.value && hub.value && { hub: hub.value }) },
        signal,
      ),
    [table, hub.value],
  );
  return (
    <>
      <Head title={table} back={["Data", link("data")]} />
      <Show of={found} missing={<Empty command="hubbub pipeline run">There is no such table yet.</Empty>}>
        {(page) => (
          <>
            {page.computedAt !== null && (
              <p class="note">
                As of {moment(page.computedAt)}.{page.more ? " The first 200 rows." : ""}
              </p>
            )}
            <List
              label={table}
              rows={page.rows.map((row, at) => ({ ...row, "": at }))}
              id={(row) => String(row[""])}
              empty={<Empty command="hubbub pipeline run">The table is empty.</Empty>}
              columns={[...page.columns].sort(timesFirst).map((column) => ({
                head: column.replace(/_/g, " "),
                number: page.rows.some((row) => typeof row[column] === "number"),
                cell: (row: Row) => cell(row[column], column),
              }))}
            />
          </>
        )}
      </Show>
    </>
  );
}

const TIMES = /^(day|hour|slot|week|time|at|since)$/;
const timesFirst = (a: string, b: string): number => Number(TIMES.test(b)) - Number(TIMES.test(a));

/** Columns that count microseconds begin so. */
const LASTING = /^(duration|latency)_/;

function cell(value: unknown, column: string): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number" && LASTING.test(column)) return duration(value / 1e6);
  if (typeof value === "number") return Number.isInteger(value) ? count(value) : value.toFixed(2);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
