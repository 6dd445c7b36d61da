/** Light or dark: as the system says, unless somebody chose. */

import { signal } from "@preact/signals";

type Choice = "system" | "light" | "dark";
const KEY = "hubbub.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

function stored(): Choice {
  try {
    const said = localStorage.getItem(KEY);
    return said === "light" || said === "dark" ? said : "system";
  } catch {
    return "system";
  }
}

export const choice = signal<Choice>(stored());
/** Changes whenever colours do, for what is drawn on a canvas. */
export const theme = signal<"light" | "dark">("light");

function apply(): void {
  const now = choice.value === "system" ? (dark.matches ? "dark" : "light") : choice.value;
  document.documentElement.dataset.theme = now;
  theme.value = now;
}

export function choose(next: Choice): void {
  choice.value = next;
  try {
    if (next === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
  } catch {
    // Without storage the choice holds until the page is loaded again.
  }
  apply();
}

export const nextTheme = (): void => choose(theme.value === "dark" ? "light" : "dark");

/** A colour of the style sheet, by its name without the dashes. */
export const colour = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

dark.addEventListener("change", apply);
apply();
