/** Tables of any length: rows come in pages as one scrolls, and only those in sight are in the document. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Page } from "../core/api";
import { count, plural } from "../core/format";
import { Trouble } from "./parts";

export const ROW_PX = 36;
export const PAGE_ROWS = 200;
/** Rows beyond those in sight, for whoever scrolls. They cost as much as those in sight: a short table needs few. */
const BEYOND = 8;
const BEYOND_SHORT = 2;
const REFRESH_MS = 5000;

const wide = matchMedia("(min-width: 1180px)");
const middle = matchMedia("(min-width: 720px)");
const measured = (): 1 | 2 | 3 => (wide.matches ? 3 : middle.matches ? 2 : 1);
/** Columns up to this rank have room. */
const room = signal(measured());
for (const query of [wide, middle]) {
  query.addEventListener("change", () => {
    room.value = measured();
  });
}

export interface Column<T> {
  head: string;
  cell: (row: T) => ComponentChildren;
  /** Columns of the style sheet's grid; `1fr` unless it is said. */
  width?: string;
  number?: boolean;
  /** 1 is always shown, 2 not on telephones, 3 only on wide screens. */
  rank?: 1 | 2 | 3;
  /** The value of `sort` that this column asks for. */
  sort?: string;
}

export interface Rows<T> {
  rows: T[];
  more: boolean;
  total?: number | undefined;
  loading: boolean;
  error?: unknown;
  next: () => void;
  reload: () => void;
}

/** All pages that were scrolled to so far. The first page is renewed while it is the only one. */
export function useRows<T>(
  load: (cursor: string, signal: AbortSignal) => Promise<Page<T>>,
  on: readonly unknown[],
): Rows<T> {
  const [state, setState] = useState<{
    rows: T[];
    cursor: string | null;
    total?: number;
    error?: unknown;
    loading: boolean;
  }>({ rows: [], cursor: "", loading: true });
  const busy = useRef<AbortController | null>(null);

  const fetchPage = useCallback((cursor: string, before: T[]) => {
    busy.current?.abort();
    const control = new AbortController();
    busy.current = control;
    setState((now) => ({ ...now, loading: true }));
    load(cursor, control.signal).then(
      (page) => {
        if (control.signal.aborted) return;
        busy.current = null;
        const rows = before.length > 0 ? before.concat(page.items) : page.items;
        setState({
          rows,
          cursor: page.next ?? null,
          loading: false,
          ...(page.total != null && { total: page.total }),
        });
      },
      (error) => {
        if (control.signal.aborted) return;
        busy.current = null;
        setState((now) => ({ ...now, error, loading: false }));
      },
    );
  }, on);

  useEffect(() => {
    setState({ rows: [], cursor: "", loading: true });
    fetchPage("", []);
    return () => busy.current?.abort();
  }, on);

  const reload = useCallback(() => fetchPage("", []), on);
  const single = state.rows.length <= PAGE_ROWS;
  useEffect(() => {
    if (!single) return undefined;
    const timer = setInterval(
      () => document.visibilityState === "visible" && !busy.current && reload(),
      REFRESH_MS,
    );
    return () => clearInterval(timer);
  }, [single, reload]);

  const next = (): void => {
    if (state.cursor && !busy.current && !state.error) fetchPage(state.cursor, state.rows);
  };
  return {
    rows: state.rows,
    more: Boolean(state.cursor),
    total: state.total,
    loading: state.loading,
    error: state.error,
    next,
    reload,
  };
}

/** Rows that are all there. */
export const whole = <T,>(rows: T[], loading = false): Rows<T> => ({
  rows,
  more: false,
  loading,
  next: () => {},
  reload: () => {},
});

interface Props<T> {
  label: string;
  of: Rows<T>;
  columns: Column<T>[];
  id: (row: T) => string;
  empty: ComponentChildren;
  sort?: string;
  onSort?: (sort: string) => void;
  /** Rows that are shown before one scrolls; 0: as many as fit. */
  height?: number;
}

export function Table<T>({ label, of, columns: all, id, empty, sort, onSort, height = 0 }: Props<T>) {
  const columns = all.filter((column) => (column.rank ?? 1) <= room.value);
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [seen, setSeen] = useState(600);
  const wanted = useRef<number | null>(null);
  const [, setMoves] = useState(0);
  const rows = of.rows;
  const beyond = height > 0 ? BEYOND_SHORT : BEYOND;
  const first = Math.max(0, Math.min(Math.floor(top / ROW_PX), rows.length) - beyond);
  const last = Math.min(rows.length, Math.ceil((top + seen) / ROW_PX) + beyond);

  // Another list begins at its top: the old rows are gone, and no event says that they were scrolled away.
  useLayoutEffect(() => setTop(box.current?.scrollTop ?? 0), [rows.length === 0]);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const watch = new ResizeObserver(() => setSeen(element.clientHeight));
    watch.observe(element);
    return () => watch.disconnect();
  }, [rows.length === 0]);

  useEffect(() => {
    if (of.more && !of.loading && last >= rows.length - PAGE_ROWS / 4) of.next();
  }, [last, rows.length, of.more, of.loading]);

  // `j` and `k`: the row may not be in the document yet, so it gets the focus after it is drawn.
  useEffect(() => {
    if (wanted.current === null) return;
    const row = box.current?.querySelector<HTMLElement>(`[data-at="${wanted.current}"]`);
    const target = row?.querySelector<HTMLElement>("a, button");
    if (target) {
      target.focus({ preventScroll: true });
      wanted.current = null;
    }
  });
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const moved = (event: Event): void => {
      const focused = document.activeElement?.closest<HTMLElement>("[data-at]");
      const from = focused ? Number(focused.dataset.at) : -1;
      const to = Math.min(Math.max(from + (event as CustomEvent<number>).detail, 0), rows.length - 1);
      const y = to * ROW_PX;
      if (y < element.scrollTop) element.scrollTop = y;
      else if (y + 2 * ROW_PX > element.scrollTop + element.clientHeight)
        element.scrollTop = y + 2 * ROW_PX - element.clientHeight;
      wanted.current = to;
      setTop(element.scrollTop);
      setMoves((n) => n + 1);
    };
    element.addEventListener("move", moved);
    return () => element.removeEventListener("move", moved);
  }, [rows.length]);

  if (of.error && rows.length === 0) return <Trouble error={of.error} retry={of.reload} />;
  if (rows.length === 0) return of.loading ? <p class="note loading">Loading …</p> : empty;
  const template = columns.map((column) => column.width ?? "minmax(0, 1fr)");
  return (
    <div class="table-frame">
      <div
        class="table"
        role="table"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keys
        tabIndex={0}
        aria-label={label}
        aria-rowcount={of.total ?? (of.more ? -1 : rows.length)}
        ref={box}
        data-rows
        style={height > 0 ? { maxHeight: `${(Math.min(height, rows.length) + 1) * ROW_PX + 2}px` } : {}}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      >
        <div
          class="row heads"
          role="row"
          aria-rowindex={1}
          style={{ gridTemplateColumns: template.join(" ") }}
        >
          {columns.map((column) => (
            <div
              key={column.head}
              role="columnheader"
              class={classOf(column)}
              {...(column.sort &&
                sort === column.sort && {
                  "aria-sort": sort.startsWith("-") ? ("descending" as const) : ("ascending" as const),
                })}
            >
              {column.sort && onSort ? (
                <button type="button" class="plain" onClick={() => onSort(column.sort ?? "")}>
                  {column.head}
                  {sort === column.sort ? (sort.startsWith("-") ? " ↓" : " ↑") : ""}
                </button>
              ) : (
                column.head
              )}
            </div>
          ))}
        </div>
        <div class="window" role="rowgroup" style={{ height: `${rows.length * ROW_PX}px` }}>
          <div role="presentation" style={{ transform: `translateY(${first * ROW_PX}px)` }}>
            {rows.slice(first, last).map((row, place) => (
              <div
                key={id(row)}
                class="row"
                role="row"
                aria-rowindex={first + place + 2}
                data-at={first + place}
                style={{ gridTemplateColumns: template.join(" ") }}
              >
                {columns.map((column) => (
                  <Cell key={column.head} class={classOf(column)} of={column.cell(row)} />
                ))}
              </div>
            ))}
          </div>
        </div>
      </div>
      <p class="table-foot">
        {of.total !== undefined && of.total > rows.length
          ? `${plural(of.total, "row")}, ${count(rows.length)} loaded`
          : plural(rows.length, "row") + (of.more ? " so far" : "")}
        {of.error ? " · could not be renewed" : ""}
      </p>
    </div>
  );
}

const classOf = <T,>(column: Column<T>): string => (column.number ? "number" : "");

/** What does not fit into the cell is in its title. */
function Cell({ of, ...rest }: { of: ComponentChildren; class: string }) {
  return (
    <div role="cell" {...rest} {...(typeof of === "string" && rest.class === "" && { title: of })}>
      {of}
    </div>
  );
}

/** A short list that is there as a whole. */
export function List<T>({
  label,
  rows,
  columns: all,
  id,
  empty,
}: {
  label: string;
  rows: readonly T[];
  columns: Column<T>[];
  id: (row: T) => string;
  empty: ComponentChildren;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [wide, setWide] = useState(false);
  useEffect(() => setWide((box.current?.scrollWidth ?? 0) > (box.current?.clientWidth ?? 0)));
  const columns = all.filter((column) => (column.rank ?? 1) <= room.value);
  if (rows.length === 0) return <>{empty}</>;
  return (
    // What is wider than the page is scrolled by keys, too.
    <div
      class="scroll"
      ref={box}
      {...(wide && { role: "region", tabIndex: 0, "aria-label": `${label}, to be scrolled` })}
    >
      <table class="list" aria-label={label}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.head} scope="col" class={classOf(column)}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)}>
              {columns.map((column) => (
                <td key={column.head} class={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
