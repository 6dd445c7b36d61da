/** Series of numbers over time, ready to be drawn. Pure. */

/** Times in seconds since 1970; a value that is null is a gap in the line. */
export interface Plot {
  times: number[];
  values: (number | null)[][];
}

/** Puts a null wherever the next point is more than one and a half steps away, so that nothing is drawn where nothing is known. */
export function withGaps(plot: Plot, step: number): Plot {
  const times: number[] = [];
  const values: (number | null)[][] = plot.values.map(() => []);
  plot.times.forEach((time, at) => {
    const before = times.at(-1);
    if (before !== undefined && time - before > step * 1.5) {
      times.push(before + step);
      for (const column of values) column.push(null);
    }
    times.push(time);
    plot.values.forEach((column, place) => {
      values[place]?.push(column[at] ?? null);
    });
  });
  return { times, values };
}

/** Adds a row in place, with a gap before it where more than one and a half steps passed; what is older than `span` goes. */
export function append(plot: Plot, time: number, row: (number | null)[], span: number, step: number): void {
  const before = plot.times.at(-1) ?? 0;
  if (time <= before) return;
  const add = (at: number, of: (place: number) => number | null): void => {
    plot.times.push(at);
    plot.values.forEach((column, place) => {
      column.push(of(place));
    });
  };
  if (before > 0 && time - before > step * 1.5) add(before + step, () => null);
  add(time, (place) => row[place] ?? null);
  const old = plot.times.findIndex((each) => each > time - span);
  for (const column of [plot.times, ...plot.values]) column.splice(0, old);
}

/** Rows of several sources at the same times, added up. */
export function summed(sources: { times: number[]; values: number[][] }[], columns: number): Plot {
  const at = new Map<number, number[]>();
  for (const source of sources) {
    source.times.forEach((time, place) => {
      const sums = at.get(time) ?? Array<number>(columns).fill(0);
      for (let column = 0; column < columns; column += 1)
        sums[column] = (sums[column] ?? 0) + (source.values[column]?.[place] ?? 0);
      at.set(time, sums);
    });
  }
  const times = [...at.keys()].sort((a, b) => a - b);
  return {
    times,
    values: Array.from({ length: columns }, (_, column) =>
      times.map((time) => at.get(time)?.[column] ?? null),
    ),
  };
}

/** At most `most` points: the largest of each stretch for levels, so that a peak is never hidden. */
export function thinned(plot: Plot, most: number): Plot {
  if (plot.times.length <= most) return plot;
  const size = Math.ceil(plot.times.length / most);
  const times: number[] = [];
  const values: (number | null)[][] = plot.values.map(() => []);
  for (let from = 0; from < plot.times.length; from += size) {
    times.push(plot.times[from] as number);
    plot.values.forEach((column, place) => {
      const known = column.slice(from, from + size).filter((value): value is number => value !== null);
      values[place]?.push(known.length > 0 ? Math.max(...known) : null);
    });
  }
  return { times, values };
}

export type Unit = "count" | "bytes" | "number" | "seconds";

const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

/** The smallest round number by which at most `most` steps reach `highest`: whole for counts, a power of 1,024 times 1, 2, 5 … for bytes, of a clock for seconds. */
export function niceStep(highest: number, most: number, unit: Unit): number {
  if (unit === "seconds" && highest / most > 1)
    return TIMES.find((each) => each >= highest / most) ?? 86_400 * Math.ceil(highest / most / 86_400);
  const small = unit === "number" || unit === "seconds";
  const least = Math.max(highest / most, small ? 1e-9 : 1);
  const scale =
    unit === "bytes"
      ? 1024 ** Math.floor(Math.log(least) / Math.log(1024))
      : 10 ** Math.floor(Math.log10(least));
  const factors = unit === "bytes" ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1024] : [1, 2, 5, 10];
  const enough = (factor: number): boolean => factor * scale >= least * 0.999999;
  return (factors.find(enough) ?? factors.at(-1) ?? 1) * scale;
}

const MOST_STEPS = 4;

/** Where an axis from 0 ends, and the marks on it. */
export function marks(highest: number, unit: Unit): number[] {
  const step = niceStep(
    Math.max(highest, unit === "number" || unit === "seconds" ? 1e-6 : 1),
    MOST_STEPS,
    unit,
  );
  const steps = Math.max(1, Math.ceil((highest / step) * 0.999999));
  return Array.from({ length: steps + 1 }, (_, at) => at * step);
}

const TENS = Array.from({ length: 31 }, (_, at) => 10 ** (at - 15));
const LONG_TIMES = [10, 60, 600, 3600, 36_000, 86_400, 864_000, 8_640_000];

/** The marks of an axis by powers of ten: from the one below `low` to the one above `high`, of a clock for seconds. */
export function decades(low: number, high: number, unit: Unit): number[] {
  const all = unit === "seconds" ? [...TENS.filter((each) => each <= 1), ...LONG_TIMES] : TENS;
  const first = Math.max(
    0,
    all.findLastIndex((each) => each <= low * 1.000001),
  );
  const last = all.findIndex((each) => each >= high * 0.999999);
  return all.slice(first, Math.max(last < 0 ? all.length : last + 1, first + 2));
}

/** The usual distance between two times. */
export function usualStep(times: readonly number[]): number {
  const steps = times.slice(1).map((time, at) => time - (times[at] as number));
  return steps.sort((a, b) => a - b)[Math.floor(steps.length / 2)] ?? 300;
}
