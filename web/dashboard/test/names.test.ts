import { describe, expect, it } from "vitest";
import { deadLettersOf } from "../src/core/names";

describe("the channel of dead letters", () => {
  it.each([
    ["parcels", "parcels.dead"],
    ["parcels.dead", "parcels.dead.dead"],
    ["u:ann", "u.dead:ann"],
    ["u:ann.dead", "u.dead:ann.dead"],
    ["u.dead:ann", "u.dead.dead:ann"],
    ["user:ann", "user:ann.dead"],
    ["u", "u.dead"],
  ])("of %s is %s", (channel, expected) => {
    expect(deadLettersOf(channel)).toBe(expected);
  });
});
