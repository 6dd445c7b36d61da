/** Notifications: what a user has yet to read, the same in all of the user's tabs and devices. */

import { CALLS } from "./calls.ts";
import { type Client, CORE } from "./client.ts";
import { addTo, tell } from "./feed.ts";
import type { Json, Unlisten, Wire } from "./types.ts";
import { date, fromPayload } from "./wire.ts";

export interface Notification<T = Json> {
  id: string;
  at: Date;
  event: string;
  data: T;
  author?: string;
  read: boolean;
  readAt?: Date;
  readBy?: string;
  expiresAt?: Date;
}

export interface Notifications {
  /** Its name, with the prefix. */
  readonly channel: string;
  /** The hub tells this client what is new. Rejects where it refuses to. */
  readonly ready: Promise<unknown>;
  /** How many are unread; 0 until the hub has said it. */
  readonly unread: number;
  /** The newest first. */
  page(options?: { unread?: boolean; before?: Date; limit?: number }): Promise<Notification[]>;
  /** By their ids, or all that this client has seen: what came meanwhile stays unread. */
  markRead(which: string[] | "seen"): Promise<void>;
  on(type: "new", f: (notification: Notification) => void): Unlisten;
  on(type: "read" | "unread", f: () => void): Unlisten;
  close(): Promise<void>;
}

const calls: typeof CALLS = {
  NotificationList: ({ channel, ...query }) => ["GET", ["channels", channel, "notifications"], query],
  MarkNotificationAsRead: ({ channel, ...body }) => ["POST", ["channels", channel, "notifications", "read"], {}, body],
}; // biome-ignore format: a table

/** A user's inbox, by user id; or a notification channel, by its name with the prefix. */
export function notifications(client: Client, name: string): Notifications {
  const core = client[CORE];
  Object.assign(CALLS, calls);
  const channel = name.startsWith("notification:") ? name : `notification:u:${name}`;
  const listeners = new Map<string, Set<(notification: never) => void>>();
  let unread = 0;
  let seen = 0;
  const say = (type: string, notification?: Notification) =>
    tell(listeners.get(type), core.report, notification as never);
  const count = (now: number) => {
    if (now === unread) return;
    unread = now;
    say("unread");
  };
  const unlisten = [
    core.listenTo(channel, "NotificationInfo", (payload) => count(payload.unread ?? 0)),
    core.listenTo(channel, "NotificationRead", () => say("read")),
    core.listenTo(channel, "NotificationNew", (payload) => say("new", see(payload.notification))),
  ];
  const see = (wire: Wire): Notification => {
    seen = Math.max(seen, wire.ts);
    return read(wire);
  };
  const subscription = core.subscribe(channel, () => {}, {});

  return {
    channel,
    ready: subscription.ready,
    get unread() {
      return unread;
    },
    async page({ unread: only, before, limit } = {}) {
      const answer = await core.ask("NotificationList", {
        channel,
        unread: only,
        before: before && +before,
        limit,
      });
      count(answer.unread ?? 0);
      return answer.notifications.map(see);
    },
    async markRead(which) {
      if (which === "seen" && !seen) return;
      const answer = await core.ask("MarkNotificationAsRead", {
        channel,
        ...(which === "seen" ? { upTo: seen } : { ids: which }),
      });
      count(answer.unread ?? 0);
    },
    on: (type: string, f: (notification: never) => void) => addTo(listeners, type, f),
    async close() {
      for (const each of unlisten) each();
      await subscription.unsubscribe();
    },
  };
}

function read(wire: Wire): Notification {
  const { id, event, author, readBy } = wire;
  return {
    id,
    event,
    author,
    readBy,
    at: new Date(wire.ts),
    data: fromPayload(wire.payload) as Json,
    read: wire.read ?? false,
    readAt: date(wire.readAt),
    expiresAt: date(wire.expiresAt),
  };
}
