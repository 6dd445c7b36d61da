/** Keys that work everywhere except while somebody types. */

import { signal } from "@preact/signals";

export const helpShown = signal(false);
const TYPING = "input, textarea, select, [contenteditable]";
const WAIT_MS = 1200;
let leader = 0;

export function listenToKeys(pages: ReadonlyMap<string, () => void>): () => void {
  const pressed = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target instanceof Element ? event.target : null;
    if (target?.closest(TYPING)) {
      if (event.key === "Escape") (target as HTMLElement).blur();
      return;
    }
    if (target?.closest("dialog")) return;
    if (leader && Date.now() - leader < WAIT_MS) {
      leader = 0;
      const action = pages.get(event.key);
      if (action) {
        event.preventDefault();
        action();
      }
      return;
    }
    const action = SINGLE[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  };
  document.addEventListener("keydown", pressed);
  return () => document.removeEventListener("keydown", pressed);
}

const SINGLE: Record<string, () => void> = {
  g: () => {
    leader = Date.now();
  },
  "/": () => {
    const search = document.querySelector<HTMLInputElement>("[data-search]");
    search?.focus();
    search?.select();
  },
  "?": () => {
    helpShown.value = true;
  },
  j: () => moveRow(1),
  k: () => moveRow(-1),
};

function moveRow(step: number): void {
  document.querySelector("[data-rows]")?.dispatchEvent(new CustomEvent<number>("move", { detail: step }));
}
