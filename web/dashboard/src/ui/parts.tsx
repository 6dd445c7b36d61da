/** The small parts that all pages are made of. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../core/api";
import { ago, moment } from "../core/format";
import type { Loaded } from "../core/load";
import { mayWrite } from "../core/session";

export function Ripples({ size = 24, rings = 3 }: { size?: number; rings?: number }) {
  const circles = Array.from({ length: rings }, (_, ring) => ((ring + 1) * 11) / rings);
  return (
    <svg class="ripples" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      <circle cx="12" cy="12" r="1.5" class="drop" />
      {circles.map((radius) => (
        <circle key={radius} cx="12" cy="12" r={radius} />
      ))}
    </svg>
  );
}

export function Head({
  title,
  children,
  back,
}: {
  title: string;
  children?: ComponentChildren;
  back?: [string, string];
}) {
  useEffect(() => {
    document.title = `${title} · Hubbub`;
  }, [title]);
  return (
    <header class="head">
      <div>
        {back && (
          <a class="back" href={back[1]}>
            ← {back[0]}
          </a>
        )}
        <h1 tabIndex={-1}>{title}</h1>
      </div>
      {children && <div class="tools">{children}</div>}
    </header>
  );
}

export function Section({
  title,
  children,
  tools,
  note,
}: {
  title: string;
  children: ComponentChildren;
  tools?: ComponentChildren;
  note?: ComponentChildren;
}) {
  return (
    <section class="section">
      <div class="section-head">
        <h2>{title}</h2>
        {tools && <div class="tools">{tools}</div>}
      </div>
      {note && <p class="note">{note}</p>}
      {children}
    </section>
  );
}

/** Says what is missing, and the command that changes it. */
export function Empty({ children, command }: { children: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <Ripples size={72} rings={4} />
      <p>{children}</p>
      {command && <code class="command">{command}</code>}
    </div>
  );
}

export function said(error: unknown): string {
  if (error instanceof ApiError) return `${error.message} (${error.code})`;
  return error instanceof Error ? error.message : String(error);
}

export function Trouble({ error, retry }: { error: unknown; retry?: () => void }) {
  return (
    <p class="trouble" role="alert">
      {said(error)}{" "}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </p>
  );
}

/** What was loaded, or why not. A hub that does not have the path says so in `missing`. */
export function Show<T>({
  of,
  missing,
  children,
}: {
  of: Loaded<T>;
  missing?: ComponentChildren;
  children: (value: T) => ComponentChildren;
}) {
  // What is gone is not shown as it was; what cannot be reached just now is.
  if (missing !== undefined && of.error instanceof ApiError && [404, 405, 501].includes(of.error.status))
    return <>{missing}</>;
  if (of.error && of.value === undefined) {
    return <Trouble error={of.error} retry={of.reload} />;
  }
  if (of.value === undefined) return <p class="note loading">Loading …</p>;
  return <>{children(of.value)}</>;
}

export function Time({ at }: { at: number | null | undefined }) {
  if (!at) return <span class="quiet">–</span>;
  return (
    <time dateTime={new Date(at).toISOString()} title={`${new Date(at).toISOString()}`}>
      {moment(at)}
    </time>
  );
}

export function Since({ at }: { at: number | null | undefined }) {
  if (!at) return <span class="quiet">–</span>;
  return (
    <time dateTime={new Date(at).toISOString()} title={moment(at)}>
      {ago(at)}
    </time>
  );
}

export function Tag({
  kind = "plain",
  children,
}: {
  kind?: "plain" | "good" | "warn" | "bad" | "in" | "out";
  children: ComponentChildren;
}) {
  return <span class={`tag ${kind}`}>{children}</span>;
}

export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value ?? <span class="quiet">–</span>}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Stat({
  label,
  value,
  sub,
  kind,
  href,
}: {
  label: string;
  value: ComponentChildren;
  sub?: ComponentChildren;
  kind?: string;
  href?: string;
}) {
  return (
    <div class={`stat ${kind ?? ""}`}>
      <span class="label">{href ? <a href={href}>{label}</a> : label}</span>
      <span class="value">{value}</span>
      {sub !== undefined && <span class="sub">{sub}</span>}
    </div>
  );
}

/** How much of a limit is used. */
export function Bar({ used, limit, label }: { used: number; limit: number; label: string }) {
  const share = limit > 0 ? Math.min(used / limit, 1) : 0;
  return <meter class="bar" min={0} max={1} high={0.9} optimum={0} value={share} aria-label={label} />;
}

export function Tabs<K extends string>({
  of,
  value,
  onChange,
  label,
}: {
  of: readonly (readonly [K, string])[];
  value: K;
  onChange: (key: K) => void;
  label: string;
}) {
  return (
    <div class="tabs" role="group" aria-label={label}>
      {of.map(([key, name]) => (
        <button type="button" key={key} aria-pressed={key === value} onClick={() => onChange(key)}>
          {name}
        </button>
      ))}
    </div>
  );
}

/** A button that does something once, shows that it is under way, and tells what went wrong. */
export function Act({
  children,
  act,
  kind,
  done,
  ask,
  disabled,
  own = false,
}: {
  children: ComponentChildren;
  act: () => Promise<unknown>;
  kind?: "bad" | "main";
  done?: string;
  /** A question to confirm first. */
  ask?: string;
  disabled?: boolean;
  /** Not an act of administration: viewers may do it, too. */
  own?: boolean;
}) {
  const allowed = own || mayWrite.value;
  const [busy, setBusy] = useState(false);
  const run = async (): Promise<void> => {
    if (ask && !(await confirmed(ask))) return;
    setBusy(true);
    try {
      await act();
      if (done) tell(done);
    } catch (error) {
      tell(said(error), "bad");
    } finally {
      setBusy(false);
    }
  };
  return (
    <button
      type="button"
      class={kind ?? ""}
      disabled={busy || disabled || !allowed}
      title={allowed ? undefined : "A viewer cannot change anything"}
      onClick={run}
    >
      {children}
    </button>
  );
}

// -- what was done ----------------------------------------------------------------------------------

interface Told {
  id: number;
  text: string;
  kind: "good" | "bad";
}

const told = signal<Told[]>([]);
let lastTold = 0;
const SHOWN_MS = 6000;

export function tell(text: string, kind: "good" | "bad" = "good"): void {
  lastTold += 1;
  const id = lastTold;
  told.value = [...told.value.slice(-3), { id, text, kind }];
  setTimeout(
    () => {
      told.value = told.value.filter((each) => each.id !== id);
    },
    kind === "bad" ? 2 * SHOWN_MS : SHOWN_MS,
  );
}

export function Told() {
  return (
    <div class="told" role="status">
      {told.value.map((each) => (
        <p key={each.id} class={each.kind}>
          {each.text}
        </p>
      ))}
    </div>
  );
}

// -- dialogs ----------------------------------------------------------------------------------------

export function Dialog({
  title,
  onClose,
  children,
  wide,
}: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    box.current?.showModal();
  }, []);
  const cancelled = (event: Event): void => {
    event.preventDefault();
    onClose();
  };
  return (
    <dialog ref={box} class={wide ? "wide" : ""} aria-label={title} onCancel={cancelled}>
      <div class="dialog-head">
        <h2>{title}</h2>
        <button type="button" class="plain" aria-label="Close" onClick={onClose}>
          ✕
        </button>
      </div>
      {children}
    </dialog>
  );
}

const question = signal<{ text: string; answer: (yes: boolean) => void } | null>(null);

export function confirmed(text: string): Promise<boolean> {
  return new Promise((resolve) => {
    question.value = {
      text,
      answer: (yes) => {
        question.value = null;
        resolve(yes);
      },
    };
  });
}

export function Question() {
  const asked = question.value;
  if (!asked) return null;
  return (
    <Dialog title="Are you sure?" onClose={() => asked.answer(false)}>
      <p>{asked.text}</p>
      <div class="tools end">
        <button type="button" onClick={() => asked.answer(false)}>
          Cancel
        </button>
        <button type="button" class="bad" onClick={() => asked.answer(true)}>
          Yes, do it
        </button>
      </div>
    </Dialog>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const copy = (): void => {
    navigator.clipboard.writeText(text).then(
      () => tell("Copied"),
      () => tell("The browser does not allow copying", "bad"),
    );
  };
  return (
    <button type="button" onClick={copy}>
      {label}
    </button>
  );
}

export function Field({
  label,
  children,
  hint,
}: {
  label: string;
  children: ComponentChildren;
  hint?: ComponentChildren;
}) {
  return (
    <div class="field">
      {/* biome-ignore lint/a11y/noLabelWithoutControl: the control is among the children */}
      <label>
        <span>{label}</span>
        {children}
      </label>
      {hint && <small>{hint}</small>}
    </div>
  );
}
