/** All pages: where they are, by which key, and what they need. */

import type { ComponentType } from "preact";

export interface PageEntry {
  path: string;
  title: string;
  /** After `g`. */
  key: string;
  group: "Look" | "Act" | "Operate";
  /** Of one hub: without a chosen one the first is taken. */
  ofHub: boolean;
  /** Only for who sees all hubs. */
  everywhere?: boolean;
  load: () => Promise<{ default: ComponentType }>;
}

export const PAGES: readonly PageEntry[] = [
  {
    path: "overview",
    title: "Overview",
    key: "o",
    group: "Look",
    ofHub: false,
    load: () => import("./pages/overview"),
  },
  {
    path: "cluster",
    title: "Cluster",
    key: "l",
    group: "Look",
    ofHub: false,
    load: () => import("./pages/cluster"),
  },
  {
    path: "metrics",
    title: "Metrics",
    key: "m",
    group: "Look",
    ofHub: false,
    load: () => import("./pages/metrics"),
  },
  {
    path: "inspector",
    title: "Inspector",
    key: "i",
    group: "Act",
    ofHub: true,
    load: () => import("./pages/inspector"),
  },
  {
    path: "channels",
    title: "Channels",
    key: "c",
    group: "Act",
    ofHub: true,
    load: () => import("./pages/channels"),
  },
  {
    path: "sessions",
    title: "Sessions",
    key: "s",
    group: "Act",
    ofHub: true,
    load: () => import("./pages/sessions"),
  },
  {
    path: "delivery",
    title: "Delivery",
    key: "d",
    group: "Act",
    ofHub: true,
    load: () => import("./pages/delivery"),
  },
  {
    path: "notifications",
    title: "Notifications",
    key: "n",
    group: "Act",
    ofHub: true,
    load: () => import("./pages/notifications"),
  },
  {
    path: "people",
    title: "People",
    key: "p",
    group: "Act",
    ofHub: true,
    load: () => import("./pages/people"),
  },
  {
    path: "rules",
    title: "Rules and hubs",
    key: "r",
    group: "Operate",
    ofHub: true,
    load: () => import("./pages/rules"),
  },
  {
    path: "access",
    title: "Access",
    key: "a",
    group: "Operate",
    ofHub: true,
    load: () => import("./pages/access"),
  },
  {
    path: "audit",
    title: "Audit",
    key: "u",
    group: "Operate",
    ofHub: false,
    load: () => import("./pages/audit"),
  },
  {
    path: "data",
    title: "Data",
    key: "b",
    group: "Operate",
    ofHub: false,
    load: () => import("./pages/data"),
  },
  {
    path: "trace",
    title: "Trace and settings",
    key: "t",
    group: "Operate",
    ofHub: true,
    load: () => import("./pages/trace"),
  },
];

export const pageAt = (path: string): PageEntry | undefined => PAGES.find((page) => page.path === path);
