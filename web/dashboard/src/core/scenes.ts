/** Pictures of the cluster: where each mark is and what is tied to what. Pure, and always the same for the same cluster. */

import { type HierarchyNode, hierarchy, tree } from "d3-hierarchy";
import type { Topology } from "../pages/shapes";
import { plural } from "./format";

export type MarkKind = "origin" | "node" | "silent" | "hub" | "channel" | "session" | "more";

export interface Mark {
  x: number;
  y: number;
  r: number;
  kind: MarkKind;
  label: string;
  detail: string;
  /** Where the label goes, in radians; labels on the left are turned round. */
  angle: number;
  /** Nothing is tied to its outer side, so that there is room for the label. */
  leaf: boolean;
}

export interface Tie {
  from: number;
  to: number;
  kind: "tie" | "link" | "broken";
}

export interface Scene {
  marks: Mark[];
  ties: Tie[];
  radius: number;
  /** What is not drawn, because a picture of more would show nothing. */
  hidden: number;
}

export const MOST_MARKS = 1500;

interface Branch {
  kind: MarkKind;
  label: string;
  detail: string;
  weight: number;
  children?: Branch[];
}

/** The members in a circle. A line is a connection; a broken one means that messages do not arrive. */
export function ringScene(topology: Topology): Scene {
  const names = [...topology.nodes.map((node) => node.node), ...(topology.silent ?? [])];
  const radius = names.length === 1 ? 0 : 200;
  const marks = names.map((name, at): Mark => {
    const angle = (at / names.length) * 2 * Math.PI - Math.PI / 2;
    const node = topology.nodes.find((each) => each.node === name);
    return {
      x: radius * Math.cos(angle),
      y: radius * Math.sin(angle),
      r: 10 + 8 * Math.sqrt((node?.partitions ?? 0) / 1024),
      kind: node ? "node" : "silent",
      label: name,
      detail: node
        ? `${name}: ${plural(node.sessions, "session")}, ${plural(node.partitions, "partition")} of 1,024`
        : `${name} does not answer`,
      angle,
      leaf: true,
    };
  });
  const ties: Tie[] = [];
  const hears = (from: string, to: string): boolean =>
    topology.nodes.find((node) => node.node === from)?.links?.includes(to) ?? false;
  names.forEach((one, from) => {
    names.slice(from + 1).forEach((other, after) => {
      const both = [hears(one, other), hears(other, one)];
      if (both.includes(true))
        ties.push({ from, to: from + 1 + after, kind: both.includes(false) ? "broken" : "link" });
    });
  });
  return { marks, ties, radius: 200, hidden: 0 };
}

/** From one origin to all hubs in use, and from each to its channels. */
export function hubScene(topology: Topology): Scene {
  const hubs = new Map<string, { sessions: number; known: Map<string, number>; more: number }>();
  for (const node of topology.nodes) {
    for (const each of node.hubs) {
      const hub = hubs.get(each.hub) ?? { sessions: 0, known: new Map(), more: 0 };
      hub.sessions += each.sessions;
      hub.more += each.channelCount - each.channels.length;
      for (const channel of each.channels)
        hub.known.set(channel.channel, (hub.known.get(channel.channel) ?? 0) + channel.sessions);
      hubs.set(each.hub, hub);
    }
  }
  const children = [...hubs].sort(byName).map(
    ([name, hub]): Branch => ({
      kind: "hub",
      label: name,
      detail: `hub ${name}: ${plural(hub.sessions, "session")}, ${plural(hub.known.size + hub.more, "channel")}`,
      weight: hub.sessions,
      children: withMore(
        [...hub.known].sort(byName).map(([channel, sessions]) => channelBranch(channel, sessions)),
        hub.more,
      ),
    }),
  );
  return radial({ kind: "origin", label: "all hubs", detail: "all hubs", weight: 0, children });
}

/** From each member to the hubs in its memory, to their channels, and to the sessions on them. */
export function nodeScene(topology: Topology): Scene {
  const children = topology.nodes.map(
    (node): Branch => ({
      kind: "node",
      label: node.node,
      detail: `node ${node.node}: ${plural(node.sessions, "session")}, ${plural(node.hubs.length, "hub")}`,
      weight: node.sessions,
      children: node.hubs.map(
        (hub): Branch => ({
          kind: "hub",
          label: hub.hub,
          detail: `hub ${hub.hub} on ${node.node}: ${plural(hub.sessions, "session")}, ${plural(hub.channelCount, "channel")}`,
          weight: hub.sessions,
          children: withMore(
            hub.channels.map((channel) => ({
              ...channelBranch(channel.channel, channel.sessions),
              children: withMore(
                (channel.sessionIDs ?? []).map(
                  (id): Branch => ({
                    kind: "session",
                    label: id.slice(0, 8),
                    detail: `session ${id}`,
                    weight: 0,
                  }),
                ),
                channel.sessionIDs ? channel.sessions - channel.sessionIDs.length : 0,
              ),
            })),
            hub.channelCount - hub.channels.length,
          ),
        }),
      ),
    }),
  );
  return radial({ kind: "origin", label: "", detail: "the cluster", weight: 0, children });
}

const byName = ([a]: [string, unknown], [b]: [string, unknown]): number => (a < b ? -1 : a > b ? 1 : 0);

const channelBranch = (channel: string, sessions: number): Branch => ({
  kind: "channel",
  label: channel,
  detail: `channel ${channel}: ${plural(sessions, "session")}`,
  weight: sessions,
});

const withMore = (branches: Branch[], more: number): Branch[] =>
  more > 0
    ? [...branches, { kind: "more", label: `+ ${more}`, detail: `${more} more`, weight: 0 }]
    : branches;

const SIZES: Record<MarkKind, number> = {
  origin: 6,
  node: 9,
  silent: 9,
  hub: 7,
  channel: 4,
  session: 2.5,
  more: 3,
};

/** How far from the origin the only branch is, as a part of a ring. */
const ALONE = 0.45;

function radial(root: Branch): Scene {
  const { kept, hidden } = limited(root);
  const data = hierarchy(kept);
  const depth = Math.max(1, data.height);
  const leaves = data.leaves().length;
  const radius = Math.max(110 * depth, (leaves * 9) / (2 * Math.PI));
  const laid = tree<Branch>()
    .size([2 * Math.PI, radius])
    .separation((a, b) => (a.parent === b.parent ? 1 : 2) / Math.max(1, a.depth))(data);
  const only = laid.children?.length === 1 ? laid.children[0] : undefined;
  if (only) only.y *= ALONE; // its own branches go all round the middle
  const places = new Map<HierarchyNode<Branch>, number>();
  const marks = laid.descendants().map((node, at): Mark => {
    places.set(node, at);
    const angle = node.x - Math.PI / 2;
    return {
      x: node.y * Math.cos(angle),
      y: node.y * Math.sin(angle),
      r: SIZES[node.data.kind] + Math.min(6, Math.log2(1 + node.data.weight) / 2),
      kind: node.data.kind,
      label: node.data.label,
      detail: node.data.detail,
      angle,
      leaf: !node.children,
    };
  });
  const ties = laid
    .links()
    .map(
      (link): Tie => ({ from: places.get(link.source) ?? 0, to: places.get(link.target) ?? 0, kind: "tie" }),
    );
  return { marks, ties, radius, hidden };
}

/** Breadth first, so that what is near the middle is always there. */
function limited(root: Branch): { kept: Branch; hidden: number } {
  const kept: Branch = { ...root, children: [] };
  let level: [Branch, Branch][] = [[root, kept]];
  let left = MOST_MARKS - 1;
  let hidden = 0;
  while (level.length > 0) {
    const next: [Branch, Branch][] = [];
    for (const [source, copy] of level) {
      const children = source.children ?? [];
      const taken = children.slice(0, Math.max(0, left));
      left -= taken.length;
      hidden += countAll(children.slice(taken.length));
      copy.children = taken.map((child) => ({ ...child, children: [] }));
      taken.forEach((child, at) => {
        next.push([child, copy.children?.[at] as Branch]);
      });
    }
    level = next;
  }
  return { kept, hidden };
}

const countAll = (branches: Branch[]): number =>
  branches.reduce((sum, branch) => sum + 1 + countAll(branch.children ?? []), 0);
