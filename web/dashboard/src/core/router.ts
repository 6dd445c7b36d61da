/** Addresses of pages: `#/page/part/part?name=value`. The hash needs nothing of the server and is in no request. */

import { computed, signal } from "@preact/signals";

export interface Route {
  page: string;
  parts: string[];
  query: URLSearchParams;
}

function read(): Route {
  const [where = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [page = "", ...parts] = where.split("/").map(unescaped);
  return { page, parts, query: new URLSearchParams(query) };
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const current = signal<Route>(read());
export const route = computed(() => current.value);

window.addEventListener("hashchange", () => {
  current.value = read();
});

/** Of another page; the hub stays chosen unless another one is given. */
export function link(page: string, parts: string[] = [], query: Record<string, string> = {}): string {
  const hub = current.value.query.get("hub");
  const pairs = new URLSearchParams({ ...(hub && { hub }), ...query });
  for (const [name, value] of [...pairs]) if (value === "") pairs.delete(name);
  const search = pairs.toString();
  return `#/${[page, ...parts].map(encodeURIComponent).join("/")}${search && `?${search}`}`;
}

export function go(address: string, replace = false): void {
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  current.value = read();
}

/** Changes parameters of this page. Empty ones go. A link that was just followed is not undone: its `hashchange` may still be on its way. */
export function setQuery(changes: Record<string, string>, replace = true): void {
  const { page, parts, query } = read();
  const pairs = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "") pairs.delete(name);
    else pairs.set(name, value);
  }
  const search = pairs.toString();
  go(`#/${[page, ...parts].map(encodeURIComponent).join("/")}${search && `?${search}`}`, replace);
}
