/** What the hub answers, as far as several pages need it. */

import { get } from "../core/api";
import { type Plot, summed, usualStep } from "../core/series";
import { everywhere, hub, ofHub, ofHubOrAll } from "../core/session";

export interface Rates {
  messagesIn: number;
  messagesOut: number;
  bytesIn: number;
  bytesOut: number;
}

export interface Counters extends Rates {
  messagesRefused: number;
  sessions: number;
  sessionsOpened: number;
  subscriptions: number;
  slowConsumers: number;
  publishRequests: number;
  publishSecondsMean: number;
}

export interface TopologyChannel {
  channel: string;
  sessions: number;
  sessionIDs?: string[];
}

export interface TopologyHub {
  hub: string;
  sessions: number;
  subscriptions: number;
  channelCount: number;
  channels: TopologyChannel[];
}

export interface TopologyNode {
  node: string;
  role: string;
  version: string;
  uptimeSeconds: number;
  sessions: number;
  partitions: number;
  channels: number;
  hubs: TopologyHub[];
  cpuPercent?: number | null;
  memoryBytes?: number | null;
  /** The other nodes that it hears. */
  links?: string[];
}

export interface Topology {
  nodes: TopologyNode[];
  silent?: string[];
}

/** Of the hub of the page, or of all of them. */
export function loadTopology(channels: number, sessions: number, signal: AbortSignal): Promise<Topology> {
  const query = { channels, sessions, ...(everywhere.value && { hub: hub.value }) };
  return get<Topology>(everywhere.value ? "/topology" : ofHub("/topology"), query, signal);
}

/** Times are in seconds since 1970; a row that is missing was not measured. */
interface SeriesAnswer {
  series: { node: string; hub: string; columns: string[]; rows: number[][] }[];
}

const MEASURES = ["sessions", "messagesIn", "messagesOut", "bytesIn", "bytesOut", "subscriptions"] as const;

/** What the nodes kept in memory, added up: sessions, messages in and out, bytes in and out. */
export async function loadSeries(
  span: "15m" | "24h",
  signal: AbortSignal,
): Promise<{ step: number; plot: Plot }> {
  const answer = await get<SeriesAnswer>(ofHubOrAll("/series"), { span }, signal);
  const sources = answer.series.map((series) => {
    const places = MEASURES.map((name) => series.columns.indexOf(name));
    const at = series.columns.indexOf("at");
    return {
      times: series.rows.map((row) => Math.round(row[at] as number)),
      values: places.map((place) => series.rows.map((row) => row[place] ?? 0)),
    };
  });
  const plot = summed(sources, MEASURES.length);
  return { step: span === "15m" ? 1 : usualStep(plot.times), plot };
}
