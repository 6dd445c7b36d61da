/** Who changed what, the newest first, with what was and is. */

import { useState } from "preact/hooks";
import { get, type Page, type Query } from "../core/api";
import { visible } from "../core/format";
import { useTick } from "../core/live";
import { route, setQuery } from "../core/router";
import { hub, liveName, ofHubOrAll } from "../core/session";
import { Diff } from "../ui/json";
import { Dialog, Empty, Facts, Head, said, Tag, Time, tell } from "../ui/parts";
import { type Column, PAGE_ROWS, Table, useRows } from "../ui/table";

interface Entry {
  id: number;
  at: number;
  hub: string;
  actor: string;
  level: string;
  action: string;
  name: string;
  tokenID?: string | null;
  before?: unknown;
  after?: unknown;
}

const bound = (text: string): string => (text ? `${text}:00Z` : "");

const MOST_EXPORTED = 10_000;

/** What matches, as lines of JSON in a file. */
async function exported(filters: Query): Promise<void> {
  const lines: string[] = [];
  let cursor: string | null | undefined = "";
  do {
    const page: Page<Entry> = await get<Page<Entry>>(ofHubOrAll("/audit"), {
      limit: PAGE_ROWS,
      cursor,
      ...filters,
    });
    lines.push(...page.items.map((entry) => JSON.stringify(entry)));
    cursor = page.next;
  } while (cursor && lines.length < MOST_EXPORTED);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\n"), "\n"], { type: "application/x-ndjson" }));
  link.download = "audit.ndjson";
  link.click();
  URL.revokeObjectURL(link.href);
}

export default function Audit() {
  const { query } = route.value;
  const actor = query.get("actor") ?? "";
  const action = query.get("action") ?? "";
  const since = query.get("since") ?? "";
  const until = query.get("until") ?? "";
  const [open, setOpen] = useState<Entry | null>(null);
  const filters = { actor, action, since: bound(since), until: bound(until) };
  const rows = useRows<Entry>(
    (cursor, signal) =>
      get<Page<Entry>>(ofHubOrAll("/audit"), { limit: PAGE_ROWS, cursor, ...filters }, signal),
    [hub.value, actor, action, since, until],
  );
  useTick(liveName("audit"), () => rows.reload());
  const columns: Column<Entry>[] = [
    { head: "time", width: "124px", cell: (row) => <Time at={row.at} /> },
    { head: "who", cell: (row) => visible(row.actor) || <span class="quiet">nobody</span> },
    { head: "level", rank: 3, width: "88px", cell: (row) => row.level },
    {
      head: "did",
      width: "minmax(0, 1.3fr)",
      cell: (row) => (
        <button type="button" class="plain link" onClick={() => setOpen(row)}>
          {row.action}
        </button>
      ),
    },
    { head: "to", rank: 2, cell: (row) => visible(row.name) || <span class="quiet">–</span> },
    { head: "hub", rank: 2, cell: (row) => row.hub },
  ];
  return (
    <>
      <Head title="Audit">
        <input
          type="search"
          data-search
          placeholder="Who"
          aria-label="Who"
          value={actor}
          onChange={(event) => setQuery({ actor: event.currentTarget.value })}
        />
        <input
          type="search"
          placeholder="What: rules.put"
          aria-label="What"
          value={action}
          onChange={(event) => setQuery({ action: event.currentTarget.value })}
        />
        <label class="quiet">
          from{" "}
          <input
            type="datetime-local"
            value={since}
            onChange={(event) => setQuery({ since: event.currentTarget.value })}
          />
        </label>
        <label class="quiet">
          to{" "}
          <input
            type="datetime-local"
            value={until}
            onChange={(event) => setQuery({ until: event.currentTarget.value })}
          />
        </label>
        <button type="button" onClick={() => exported(filters).catch((error) => tell(said(error), "bad"))}>
          Export
        </button>
      </Head>
      <Table
        label="Audit"
        of={rows}
        columns={columns}
        id={(row) => String(row.id)}
        empty={
          <Empty command={`hubbub token --level admin`}>
            Nobody changed anything{actor || action || since || until ? " that matches" : " yet"}.
          </Empty>
        }
      />
      {open && (
        <Dialog wide title={`${open.action} ${visible(open.name)}`} onClose={() => setOpen(null)}>
          <Facts
            of={[
              ["who", open.actor || "nobody"],
              ["level", <Tag>{open.level}</Tag>],
              ["when", <Time at={open.at} />],
              ["hub", open.hub],
              ["token", open.tokenID ?? undefined],
            ]}
          />
          <h3 class="gap">What changed</h3>
          <Diff before={open.before} after={open.after} />
        </Dialog>
      )}
    </>
  );
}
