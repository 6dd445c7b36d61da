import { describe, expect, it } from "vitest";
import { hubScene, MOST_MARKS, nodeScene, ringScene } from "../src/core/scenes";
import type { Topology, TopologyNode } from "../src/pages/shapes";

function node(name: string, links: string[] = [], channels = 2): TopologyNode {
  const of = Array.from({ length: channels }, (_, at) => ({
    channel: `c${at}`,
    sessions: 3,
    sessionIDs: ["s1", "s2"],
  }));
  return {
    node: name,
    role: "core",
    version: "1",
    uptimeSeconds: 1,
    sessions: 3,
    partitions: 512,
    channels,
    hubs: [{ hub: "demo", sessions: 3, subscriptions: 3, channelCount: channels + 5, channels: of }],
    links,
  };
}

describe("scenes", () => {
  it("ties members that hear each other, and breaks the tie where one does not", () => {
    const topology: Topology = { nodes: [node("a", ["b", "d"]), node("b", ["a"]), node("d")], silent: ["c"] };
    const scene = ringScene(topology);
    expect(scene.ties).toEqual([
      { from: 0, to: 1, kind: "link" },
      { from: 0, to: 2, kind: "broken" },
    ]);
    expect(scene.marks.map((mark) => mark.kind)).toEqual(["node", "node", "node", "silent"]);
  });

  it("has each channel of a hub once, with what is not named as one mark", () => {
    const scene = hubScene({ nodes: [node("a"), node("b")] });
    const labels = scene.marks.map((mark) => mark.label);
    expect(labels).toEqual(["all hubs", "demo", "c0", "c1", "+ 10"]);
  });

  it("keeps the only hub near the origin, since its channels are all round it", () => {
    const one = hubScene({ nodes: [node("a")] });
    const [origin, hub, channel] = one.marks;
    expect(Math.hypot(origin?.x ?? 1, origin?.y ?? 1)).toBe(0);
    const away = (mark?: { x: number; y: number }) => Math.hypot(mark?.x ?? 0, mark?.y ?? 0);
    expect(away(hub)).toBeLessThan(away(channel) / 4);
  });

  it("goes from nodes to hubs to channels to sessions", () => {
    const scene = nodeScene({ nodes: [node("a", [], 1)] });
    expect(scene.marks.map((mark) => mark.kind)).toEqual([
      "origin",
      "node",
      "hub",
      "channel",
      "more",
      "session",
      "session",
      "more",
    ]);
    expect(scene.ties).toHaveLength(7);
  });

  it("stops at 1,500 marks and says how many are missing", () => {
    const scene = nodeScene({ nodes: [node("a", [], 1000), node("b", [], 1000)] });
    expect(scene.marks).toHaveLength(MOST_MARKS);
    const all = 1 + 2 * (1 + 1 + 1000 + 1 + 1000 * 3);
    expect(scene.hidden).toBe(all - MOST_MARKS);
  });

  it("is the same picture for the same cluster", () => {
    const topology = { nodes: [node("a"), node("b")] };
    expect(nodeScene(topology)).toEqual(nodeScene(structuredClone(topology)));
  });
});
