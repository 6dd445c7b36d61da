import { describe, expect, it } from "vitest";
import { ago, bytes, count, duration, hex, moment, visible, words } from "../src/core/format";

describe("format", () => {
  it("groups counts, and shortens only the largest", () => {
    expect([0, 999, 12_345, 9_999_999, 12_345_678].map(count)).toEqual([
      "0",
      "999",
      "12,345",
      "9,999,999",
      "12.3M",
    ]);
  });

  it("says bytes in powers of 1,024", () => {
    expect([0, 1023, 1024, 10_240, 5 * 1024 ** 3].map(bytes)).toEqual([
      "0 B",
      "1,023 B",
      "1.0 KB",
      "10 KB",
      "5.0 GB",
    ]);
  });

  it("says durations in the unit that fits", () => {
    expect([0, 0.00025, 0.0123, 1.5, 90, 600, 7200, 400_000].map(duration)).toEqual([
      "0 s",
      "250 µs",
      "12 ms",
      "1.5 s",
      "90 s",
      "10 min",
      "2 h",
      "4.6 d",
    ]);
  });

  it("says times in UTC", () => {
    expect(moment(Date.UTC(2020, 0, 2, 3, 4, 5))).toBe("2 Jan 2020 03:04:05");
    expect(ago(1000, 61_000)).toBe("60 s ago");
  });

  it("spells out characters that turn a name round or hide in it", () => {
    expect(visible("abc\u202egnp.exe")).toBe("abc⟨202e⟩gnp.exe");
    expect(visible("news:\u00e4 日本")).toBe("news:\u00e4 日本");
  });

  it("shows bytes as hex with what can be read of them", () => {
    expect(hex(new Uint8Array([72, 105, 0, 255]))).toBe(`0000  ${"48 69 00 ff".padEnd(47)}  Hi··`);
    expect(words("maxStoredBytes")).toBe("max stored bytes");
  });
});
