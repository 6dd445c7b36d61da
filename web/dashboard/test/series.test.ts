import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { append, decades, marks, niceStep, summed, thinned, withGaps } from "../src/core/series";

describe("series", () => {
  it("draws nothing between points that are further apart than a step", () => {
    const plot = withGaps({ times: [0, 300, 1500], values: [[1, 2, 3]] }, 300);
    expect(plot).toEqual({ times: [0, 300, 600, 1500], values: [[1, 2, null, 3]] });
  });

  it("adds a row in place, with a gap before it where there was a pause, and drops what is too old", () => {
    const plot = { times: [100, 101], values: [[1, 2] as (number | null)[]] };
    append(plot, 102, [3], 4, 1);
    expect(plot).toEqual({ times: [100, 101, 102], values: [[1, 2, 3]] });
    append(plot, 102, [9], 4, 1); // again: the hub says each second once
    append(plot, 105, [4], 4, 1);
    expect(plot).toEqual({ times: [102, 103, 105], values: [[3, null, 4]] });
  });

  it("keeps every point that is known", () => {
    const times = fc
      .uniqueArray(fc.integer({ min: 0, max: 10_000 }), { minLength: 1 })
      .map((all) => all.sort((a, b) => a - b));
    fc.assert(
      fc.property(times, fc.integer({ min: 1, max: 100 }), (at, step) => {
        const plot = withGaps({ times: at, values: [at.map((time) => time * 2)] }, step);
        const known = plot.times.filter((_, place) => plot.values[0]?.[place] !== null);
        expect(known).toEqual(at);
        expect(plot.times).toEqual([...plot.times].sort((a, b) => a - b));
      }),
    );
  });

  it("marks an axis of durations as a clock does", () => {
    expect(marks(2500, "seconds")).toEqual([0, 900, 1800, 2700]);
    expect(marks(0.004, "seconds").at(-1)).toBeCloseTo(0.004);
  });

  it("marks an axis of counts with whole numbers that reach the highest", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1e9 }), (highest) => {
        const all = marks(highest, "count");
        expect(all.every(Number.isInteger)).toBe(true);
        expect(all.at(-1)).toBeGreaterThanOrEqual(highest);
        expect(all.length).toBeLessThanOrEqual(6);
      }),
    );
  });

  it("counts bytes by 1,024", () => {
    expect(marks(3000, "bytes")).toEqual([0, 1024, 2048, 3072]);
    expect(niceStep(9 * 1024 * 1024, 4, "bytes")).toBe(5 * 1024 * 1024);
  });

  it("adds up what several nodes say of one moment", () => {
    const one = { times: [1, 2], values: [[10, 20]] };
    const two = { times: [2, 3], values: [[5, 7]] };
    expect(summed([one, two], 1)).toEqual({ times: [1, 2, 3], values: [[10, 25, 7]] });
  });

  it("never hides the highest point when it leaves points out", () => {
    const values = Array.from({ length: 1000 }, (_, at) => (at === 777 ? 99 : 1));
    const plot = thinned({ times: values.map((_, at) => at), values: [values] }, 100);
    expect(plot.times.length).toBeLessThanOrEqual(100);
    expect(Math.max(...(plot.values[0] as number[]))).toBe(99);
  });

  it("marks an axis by powers of ten, and of a clock where they are seconds", () => {
    expect(decades(0.0003, 0.02, "seconds")).toEqual([0.0001, 0.001, 0.01, 0.1]);
    expect(decades(45, 4000, "seconds")).toEqual([10, 60, 600, 3600, 36_000]);
    expect(decades(10, 10, "count")).toEqual([10, 100]);
  });
});
