import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { jsonCodec, type Wire } from "../src/index.ts";
import { protobuf } from "../src/protobuf.ts";

const vectors = JSON.parse(readFileSync(new URL("../../../spec/vectors.json", import.meta.url), "utf8"));
const codec = protobuf();
const unused = new Set(["TopicList", "TopicSubscriptions"]);
const used = ({ json }: Wire) =>
  !json.payload?.topics && !unused.has((Array.isArray(json) ? json[0] : json).event);
const named = (from: string): [string, Wire][] =>
  vectors.messages
    .filter((each: Wire) => each.from === from && used(each))
    .map((each: Wire) => [each.name, each]);

const envelopes = (json: Wire) =>
  (Array.isArray(json) ? json : [json]).map(({ event, payload }: Wire): [string, Wire] => [
    event,
    payload ?? {},
  ]);

/** Without what both encodings may leave out, and bytes as base64. */
function bare(value: Wire): Wire {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (Array.isArray(value)) return value.map(bare);
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).map(([name, each]) => [
    name,
    name === "json" || name === "document" ? each : bare(each),
  ]);
  return Object.fromEntries(
    entries.filter(
      ([, each]) => each !== false && each !== "" && each !== 0 && !(Array.isArray(each) && !each.length),
    ),
  );
}

test.each(named("client"))(
  "a client's message is written as every SDK writes it: %s",
  (_, { json, protobuf: hex }) => {
    expect(Buffer.from(codec.encode(envelopes(json)) as Uint8Array).toString("hex")).toBe(hex);
  },
);

test.each(named("hub"))("a hub's message is read as JSON says it: %s", (_, { json, protobuf: hex }) => {
  const data = Uint8Array.from(Buffer.from(hex, "hex")).buffer;
  expect(codec.decode(data).map(bare)).toEqual(envelopes(json).map(bare));
});

test.each(named("hub"))("the JSON of a hub is read line by line: %s", (_, { json }) => {
  const lines = (Array.isArray(json) ? json : [json]).map((each) => JSON.stringify(each)).join("\n");
  expect(jsonCodec.decode(lines)).toEqual(envelopes(json));
});

test("a frame that is cut anywhere is refused or read without its end, and never hangs", () => {
  for (const [, { protobuf: hex }] of named("hub")) {
    const data = Uint8Array.from(Buffer.from(hex, "hex"));
    for (let end = 1; end < data.length; end++) {
      try {
        codec.decode(data.slice(0, end).buffer);
      } catch (error) {
        expect(error).toBeInstanceOf(Error);
      }
    }
  }
});

test("events that the SDK has no function for are passed over", () => {
  for (const { from, protobuf: hex } of vectors.messages.filter((each: Wire) => !used(each))) {
    const data = Uint8Array.from(Buffer.from(hex, "hex")).buffer;
    if (from === "hub") expect(codec.decode(data).filter(([event]) => event !== "TopicMessages")).toEqual([]);
  }
});
