/** Numbers and times as people read them. All times are UTC. */

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value: number): string =>
  Math.abs(value) < 1e7 ? WHOLE.format(value) : SHORT.format(value);

export function rate(value: number): string {
  if (value === 0) return "0";
  return value < 10 ? value.toFixed(1) : count(value);
}

export function bytes(value: number): string {
  if (value < 1024) return `${WHOLE.format(value)} B`;
  let unit = -1;
  let left = value;
  while (left >= 1024 && unit < 4) {
    left /= 1024;
    unit += 1;
  }
  return `${left < 10 ? left.toFixed(1) : WHOLE.format(left)} ${["KB", "MB", "GB", "TB", "PB"][unit]}`;
}

export function duration(seconds: number): string {
  if (seconds === 0) return "0 s";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${trimmed(seconds * 1000)} ms`;
  if (seconds < 100) return `${trimmed(seconds)} s`;
  if (seconds < 6000) return `${trimmed(seconds / 60)} min`;
  if (seconds < 172_800) return `${trimmed(seconds / 3600)} h`;
  return `${trimmed(seconds / 86_400)} d`;
}

const trimmed = (value: number): string =>
  value < 10 ? value.toFixed(1).replace(/\.0$/, "") : WHOLE.format(value);

const two = (value: number): string => String(value).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function clock(ms: number): string {
  const at = new Date(ms);
  return `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
}

/** With milliseconds, for events that follow each other closely. */
export const preciseClock = (ms: number): string => `${clock(ms)}.${String(ms % 1000).padStart(3, "0")}`;

export function day(ms: number): string {
  const at = new Date(ms);
  return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
}

export function moment(ms: number): string {
  const at = new Date(ms);
  const year = at.getUTCFullYear() === new Date().getUTCFullYear() ? "" : ` ${at.getUTCFullYear()}`;
  return `${day(ms)}${year} ${clock(ms)}`;
}

export function ago(ms: number, now: number = Date.now()): string {
  const seconds = (now - ms) / 1000;
  if (seconds < 0) return `in ${duration(Math.max(1, Math.round(-seconds)))}`;
  return seconds < 1 ? "now" : `${duration(Math.round(seconds))} ago`;
}

export const plural = (n: number, one: string, many: string = `${one}s`): string =>
  `${count(n)} ${n === 1 ? one : many}`;

/** `maxStoredBytes` → `max stored bytes` */
export const words = (name: string): string =>
  name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/_/g, " ")
    .replace(/\b([A-Z])(?=[a-z])/g, (letter) => letter.toLowerCase());

export function hex(data: Uint8Array, limit = 1024): string {
  const lines: string[] = [];
  for (let at = 0; at < Math.min(data.length, limit); at += 16) {
    const row = data.subarray(at, Math.min(at + 16, limit));
    const digits = Array.from(row, (value) => value.toString(16).padStart(2, "0")).join(" ");
    const text = Array.from(row, (value) =>
      value > 31 && value < 127 ? String.fromCharCode(value) : "·",
    ).join("");
    lines.push(`${at.toString(16).padStart(4, "0")}  ${digits.padEnd(47)}  ${text}`);
  }
  if (data.length > limit) lines.push(`+ ${count(data.length - limit)} bytes`);
  return lines.join("\n");
}

export const fromBase64 = (text: string): Uint8Array =>
  Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** A name with what cannot be seen spelled out, so that nobody takes it for another one: such characters turn texts round. */
export const visible = (name: string): string =>
  name.replace(UNSEEN, (letter) => `⟨${letter.charCodeAt(0).toString(16).padStart(4, "0")}⟩`);
