/** Charts over time. Gaps are gaps, counts are whole numbers, and a table says the same. */

import { computed, type ReadonlySignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { count, moment } from "../core/format";
import type { Plot, Unit } from "../core/series";
import { theme } from "../core/theme";
import type { Drawing, Drawn } from "./plot";

export interface Line {
  label: string;
  /** A colour of the style sheet. */
  colour: "accent" | "in" | "out" | "bad" | "muted" | "ink";
  dashed?: boolean;
}

interface Props {
  title: string;
  lines: Line[];
  plot: Plot;
  format?: (value: number) => string;
  /** An axis of counts has whole numbers only. */
  unit?: Unit;
  bars?: boolean;
  /** By powers of ten, for what differs by orders of magnitude. */
  log?: boolean;
  /** Two lines between which the ground is tinted: their places. */
  band?: [number, number];
  height?: number;
  /** What is shown where there is nothing to draw. */
  none?: string;
  /** Where now is, in seconds: what is to the right of it is a forecast. */
  now?: number;
  /** Seconds up to the newest point; else as much as there is. */
  span?: number;
  /** Counts how often the plot was changed in place. The numbers follow at once, the lines when it is their turn: a pixel of
   * a quarter of an hour is three seconds wide. */
  beat?: ReadonlySignal<number>;
  turn?: number;
}

const TURNS = 3;
const MOST_ROWS = 200;

export function Chart({
  title,
  lines,
  plot,
  format = count,
  unit = "count",
  bars = false,
  log = false,
  band,
  height = 200,
  none = "Nothing to draw yet.",
  now,
  span,
  beat,
  turn = 0,
}: Props) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<Drawn | null>(null);
  const newestPlot = useRef(plot);
  newestPlot.current = plot;
  const hues = theme.value;
  const [, setBegun] = useState(false);
  const known = isKnown(plot);

  useEffect(() => {
    const element = box.current;
    if (!element || !known) return undefined;
    let gone = false;
    const drawing: Drawing = {
      lines,
      format,
      unit,
      bars,
      log,
      height,
      ...(band && { band }),
      ...(now !== undefined && { now }),
      ...(span !== undefined && { span }),
    };
    void import("./plot").then(({ draw }) => {
      if (!gone) chart.current = draw(element, drawing, newestPlot.current);
    });
    return () => {
      gone = true;
      chart.current?.end();
      chart.current = null;
    };
  }, [hues, known, height, unit, bars, log, now, span, lines.map((line) => line.label + line.colour).join()]);

  useEffect(() => {
    chart.current?.update(plot);
    return beat?.subscribe((count) => {
      if (chart.current && count % TURNS === turn) chart.current.update(plot);
      setBegun(isKnown(plot));
    });
  }, [plot, beat, turn]);

  return (
    <figure class={beat ? "chart live" : "chart"}>
      <figcaption>
        <h3>{title}</h3>
        <div class="legend">
          {lines.map((line, place) => (
            <span key={line.label}>
              <i
                style={{ color: `var(--${line.colour})`, borderTopStyle: line.dashed ? "dashed" : "solid" }}
              />
              {line.label} <Newest plot={plot} place={place} format={format} beat={beat} />
            </span>
          ))}
        </div>
      </figcaption>
      {known ? (
        <div
          class="plot"
          ref={box}
          role="img"
          aria-label={`${title}. The table below has the same numbers.`}
          style={{ minHeight: `${height}px` }}
        />
      ) : (
        <p class="note">{none}</p>
      )}
      {known && <Twin lines={lines} plot={plot} format={format} title={title} beat={beat} />}
    </figure>
  );
}

const isKnown = (plot: Plot): boolean => plot.values.some((column) => column.some((value) => value !== null));

interface Told {
  plot: Plot;
  format: (value: number) => string;
  beat: ReadonlySignal<number> | undefined;
}

function Newest({ plot, place, format, beat }: Told & { place: number }) {
  const text = computed(() => {
    void beat?.value;
    const value = plot.values[place]?.findLast((each) => each !== null);
    return value == null ? "–" : format(value);
  });
  return <b>{text}</b>;
}

function Twin({ lines, plot, format, title, beat }: Told & { lines: Line[]; title: string }) {
  // Closed, it costs nothing: charts change every second.
  const [open, setOpen] = useState(false);
  if (open) void beat?.value;
  const rows = open ? plot.times.map((time, at) => [time, at] as const).reverse() : [];
  return (
    <details class="twin" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Table</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keys */}
      <div class="scroll" tabIndex={0} role="region" aria-label={`${title} as a table`}>
        <table class="list">
          <thead>
            <tr>
              <th>time (UTC)</th>
              {lines.map((line) => (
                <th key={line.label} class="number">
                  {line.label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, MOST_ROWS).map(([time, at]) => (
              <tr key={time}>
                <td>{moment(time * 1000)}</td>
                {plot.values.map((column, place) => (
                  <td key={lines[place]?.label} class="number">
                    {column[at] == null ? "–" : format(column[at] as number)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
        {rows.length > MOST_ROWS && <p class="note">+ {count(rows.length - MOST_ROWS)} older</p>}
      </div>
    </details>
  );
}
