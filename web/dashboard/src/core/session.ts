/** Who looks at the dashboard, and what they may do. */

import { computed, signal } from "@preact/signals";
import { ApiError, type Call, onSessionLost, path, post, request } from "./api";
import { route } from "./router";

export interface Me {
  userID?: string | null;
  level: "viewer" | "service" | "admin";
  /** `*`: all hubs. */
  hub: string;
  expiresAt: number;
  version?: string;
  node?: string;
  developer?: boolean;
}

export interface Doors {
  password: boolean;
  ticket: boolean;
  version?: string;
}

export const me = signal<Me | null | undefined>(undefined);
export const everywhere = computed(() => me.value?.hub === "*");
export const mayWrite = computed(() => me.value != null && me.value.level !== "viewer");
export const isAdmin = computed(() => me.value?.level === "admin");

/** The hub of the page; empty: all of them. */
export const hub = computed(() =>
  everywhere.value ? (route.value.query.get("hub") ?? "") : (me.value?.hub ?? ""),
);

/** A path that this level may not use is no reason to log out. */
onSessionLost(() => void checkSession());

export async function whoAmI(): Promise<void> {
  try {
    me.value = (await (await request("GET", "/dashboard/me")).json()) as Me;
  } catch (error) {
    me.value = null;
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  }
}

/** Whether the hub still knows who this is; where it cannot be reached, nothing changes. */
export async function checkSession(): Promise<void> {
  await request("GET", "/dashboard/me").catch((error) => {
    if (error instanceof ApiError && error.status === 401) me.value = null;
  });
}

export async function logIn(
  proof: { token: string } | { ticket: string } | { credentials: unknown },
): Promise<void> {
  await request("POST", "/dashboard/login", { body: proof });
  await whoAmI();
}

export async function logOut(): Promise<void> {
  await request("POST", "/dashboard/logout");
  me.value = null;
}

export async function doors(): Promise<Doors> {
  return (await (await request("GET", "/dashboard/login")).json()) as Doors;
}

/** A path of the admin API below the hub of the page. */
export const ofHub = (rest = ""): string => path`/hubs/${hub.value}` + rest;

const ERRAND_SECONDS = 60;

/** A request to the hub itself, outside of the admin API, with a token that is made for it. That the token was made is in the
 *  audit log. `rest` is behind `/v1/hubs/<hub>`. */
export async function asClient<T>(
  method: string,
  rest: string,
  rights: { userID?: string; level?: "client" | "service"; channels?: object[] },
  call: Call = {},
): Promise<T> {
  const order = {
    ...(me.value?.userID && { userID: me.value.userID }),
    ...rights,
    ttlSeconds: ERRAND_SECONDS,
  };
  const { token } = await post<{ token: string }>(ofHub("/tokens"), order);
  const answer = await request(method, path`/v1/hubs/${hub.value}` + rest, { ...call, token });
  return (await answer.json()) as T;
}

/** Of the hub of the page, or of all. */
export const ofHubOrAll = (rest: string): string => (hub.value === "" ? rest : ofHub(rest));

/** A live channel of the hub of the page, or of all. */
export const liveName = (name: string): string => (hub.value === "" ? name : `${name}:${hub.value}`);
