/** uPlot, wrapped: only this module knows it. */

import uPlot from "uplot";
import { clock, day } from "../core/format";
import { decades, marks, type Plot, type Unit, usualStep } from "../core/series";
import { colour } from "../core/theme";
import type { Line } from "./chart";

export interface Drawing {
  lines: Line[];
  format: (value: number) => string;
  unit: Unit;
  bars: boolean;
  log: boolean;
  height: number;
  band?: [number, number];
  now?: number;
  span?: number;
}

export interface Drawn {
  update: (plot: Plot) => void;
  end: () => void;
}

export function draw(element: HTMLElement, drawing: Drawing, plot: Plot): Drawn {
  const width = (): number => Math.max(element.clientWidth, 200);
  const chart = new uPlot(options(width(), drawing), data(plot), element);
  const watch = new ResizeObserver(() => chart.setSize({ width: width(), height: drawing.height }));
  watch.observe(element);
  return {
    update: (next) => chart.setData(data(next)),
    end: () => {
      watch.disconnect();
      chart.destroy();
    },
  };
}

const data = (plot: Plot): uPlot.AlignedData => [plot.times, ...plot.values] as uPlot.AlignedData;

const FONT = "12px system-ui, sans-serif";

function options(
  width: number,
  { height, lines, format, unit, bars, log, band, now, span }: Drawing,
): uPlot.Options {
  const ink = colour("muted");
  const hair = { stroke: colour("hair"), width: 1 };
  return {
    width,
    height,
    padding: [8, 20, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    legend: { show: false },
    scales: {
      x: {
        time: true,
        ...(bars && { range: beyondBars }),
        ...(span !== undefined && {
          range: (_chart: uPlot, _low: number, high: number): uPlot.Range.MinMax => [high - span, high],
        }),
      },
      y: log
        ? { distr: 3, range: (_chart, low, high) => ends(decades(low, high, unit)) }
        : { range: (_chart, _low, high) => ends(marks(high ?? 0, unit)) },
    },
    series: [
      {},
      ...lines.map((line): uPlot.Series => {
        const stroke = colour(line.colour);
        return {
          label: line.label,
          stroke,
          width: 1.5,
          spanGaps: false,
          ...(line.dashed && { dash: [4, 4] }),
          ...(bars &&
            uPlot.paths.bars && { paths: uPlot.paths.bars({ size: [0.7, 48] }), fill: `${stroke}66` }),
          points: { show: !bars, size: 5, fill: stroke, stroke, filter: lonely },
        };
      }),
    ],
    ...(band && { bands: [{ series: [band[1] + 1, band[0] + 1], fill: `${colour("accent")}22` }] }),
    axes: [
      {
        stroke: ink,
        font: FONT,
        grid: { show: false },
        ticks: hair,
        size: 32,
        space: 48,
        splits: timeSplits,
        values: timeLabels,
      },
      {
        stroke: ink,
        font: FONT,
        grid: hair,
        ticks: { show: false },
        gap: 8,
        size: (_chart, labels) => 20 + 7 * Math.max(2, ...(labels ?? []).map((label) => label.length)),
        splits: (_chart, _axis, low, high) => (log ? decades(low, high, unit) : marks(high, unit)),
        values: (_chart, splits) => splits.map((value) => format(value)),
      },
    ],
    hooks: {
      draw: [
        (chart) => {
          if (now === undefined || now < (chart.scales.x?.min ?? 0) || now > (chart.scales.x?.max ?? 0))
            return;
          const x = chart.valToPos(now, "x", true);
          chart.ctx.save();
          chart.ctx.strokeStyle = ink;
          chart.ctx.setLineDash([3, 3]);
          chart.ctx.beginPath();
          chart.ctx.moveTo(x, chart.bbox.top);
          chart.ctx.lineTo(x, chart.bbox.top + chart.bbox.height);
          chart.ctx.stroke();
          chart.ctx.restore();
        },
      ],
    },
  };
}

/** A bar is as wide to the left of its time as to the right: the first and the last have room, too. */
function beyondBars(chart: uPlot, low: number, high: number): uPlot.Range.MinMax {
  const half = usualStep(chart.data[0] as number[]) / 2;
  return [low - half, high + half];
}

const ends = (splits: number[]): [number, number] => [splits[0] ?? 0, splits.at(-1) ?? 1];

/** A point between two gaps has no line: it is drawn as a dot. */
function lonely(chart: uPlot, series: number): number[] | null {
  const values = chart.data[series] as (number | null)[];
  const alone: number[] = [];
  values.forEach((value, at) => {
    if (value !== null && values[at - 1] == null && values[at + 1] == null) alone.push(at);
  });
  return alone.length > 0 ? alone : [];
}

const TIME_STEPS = [
  10, 30, 60, 120, 300, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600,
];

function timeSplits(chart: uPlot, _axis: number, low: number, high: number): number[] {
  const most = Math.max(2, Math.floor(chart.bbox.width / devicePixelRatio / 60));
  const step = TIME_STEPS.find((each) => (high - low) / each <= most) ?? 2_592_000;
  const splits: number[] = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) splits.push(at);
  return splits;
}

function timeLabels(_chart: uPlot, splits: number[]): string[] {
  const step = splits.length > 1 ? (splits[1] as number) - (splits[0] as number) : 60;
  return splits.map((at) => {
    if (step >= 86_400 || at % 86_400 === 0) return day(at * 1000);
    return step < 60 ? clock(at * 1000) : clock(at * 1000).slice(0, 5);
  });
}
