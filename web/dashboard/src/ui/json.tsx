/** JSON as a tree, payloads in the form that they have, and what changed between two values. Text only: nothing of it is markup. */

import { useState } from "preact/hooks";
import { count, fromBase64, hex, plural, visible } from "../core/format";

const MOST_CHILDREN = 200;
const MOST_LETTERS = 2000;

export function Json({
  value,
  name,
  depth = 0,
  open = 2,
}: {
  value: unknown;
  name?: string;
  depth?: number;
  open?: number;
}) {
  const [shown, setShown] = useState(MOST_CHILDREN);
  if (value instanceof Uint8Array) {
    return (
      <div class="leaf">
        {name !== undefined && <Key name={name} />}
        <span class="quiet">{plural(value.length, "byte")}</span>
        <pre class="hex">{hex(value)}</pre>
      </div>
    );
  }
  if (value === null || typeof value !== "object") {
    return (
      <div class="leaf">
        {name !== undefined && <Key name={name} />}
        <Scalar value={value} />
      </div>
    );
  }
  const list = Array.isArray(value);
  const entries = Object.entries(value);
  if (entries.length === 0) {
    return (
      <div class="leaf">
        {name !== undefined && <Key name={name} />}
        <span class="quiet">{list ? "[ ]" : "{ }"}</span>
      </div>
    );
  }
  return (
    <details class="json" open={depth < open}>
      <summary>
        {name !== undefined && <Key name={name} />}
        <span class="quiet">{list ? `[${count(entries.length)}]` : `{${count(entries.length)}}`}</span>
      </summary>
      <div class="branch">
        {entries.slice(0, shown).map(([key, child]) => (
          <Json key={key} name={key} value={child} depth={depth + 1} open={open} />
        ))}
        {entries.length > shown && (
          <button type="button" class="plain" onClick={() => setShown(shown + MOST_CHILDREN)}>
            + {count(entries.length - shown)}
          </button>
        )}
      </div>
    </details>
  );
}

const Key = ({ name }: { name: string }) => <span class="key">{visible(name)}: </span>;

function Scalar({ value }: { value: unknown }) {
  const [whole, setWhole] = useState(false);
  if (typeof value !== "string") return <span class={`scalar ${typeof value}`}>{String(value)}</span>;
  const cut = !whole && value.length > MOST_LETTERS;
  return (
    <span class="scalar string">
      {visible(JSON.stringify(cut ? value.slice(0, MOST_LETTERS) : value))}
      {cut && (
        <button type="button" class="plain" onClick={() => setWhole(true)}>
          + {count(value.length - MOST_LETTERS)}
        </button>
      )}
    </span>
  );
}

export interface Payload {
  json?: unknown;
  text?: string;
  base64?: string;
  bytes?: Uint8Array;
}

export function PayloadView({ of, open = 1 }: { of: Payload | null | undefined; open?: number }) {
  if (!of) return <span class="quiet">–</span>;
  const bytes = of.base64 === undefined ? of.bytes : fromBase64(of.base64);
  if (bytes) return <pre class="hex">{hex(bytes)}</pre>;
  if (of.text !== undefined) return <pre class="text">{of.text}</pre>;
  return <Json value={of.json} open={open} />;
}

/** A value in one line, as far as it goes: `channel: "news", channels: Array(2)`. */
export function outline(value: unknown): string {
  if (!isObject(value)) return visible(short(value));
  const parts = Object.entries(value).map(([name, each]) => `${name}: ${short(each)}`);
  return visible(parts.join(", ").slice(0, MOST_OUTLINED));
}

const MOST_OUTLINED = 300;

function short(value: unknown): string {
  if (value instanceof Uint8Array) return plural(value.length, "byte");
  if (Array.isArray(value)) return `Array(${count(value.length)})`;
  if (isObject(value)) return Object.keys(value).length === 0 ? "{}" : "{…}";
  return JSON.stringify(value)?.slice(0, MOST_OUTLINED) ?? "";
}

/** In one line, for a row of a table. */
export function brief(of: Payload | null | undefined): string {
  if (!of) return "";
  if (of.bytes) return `${count(of.bytes.length)} bytes`;
  if (of.base64 !== undefined) return `${count(Math.floor((of.base64.length * 3) / 4))} bytes`;
  return (of.text ?? JSON.stringify(of.json) ?? "").slice(0, 200);
}

// -- differences ------------------------------------------------------------------------------------

export interface Change {
  path: string;
  before?: unknown;
  after?: unknown;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === "object" && !Array.isArray(value);

/** The leaves that differ. Lists are compared as a whole. */
export function changes(before: unknown, after: unknown, path = ""): Change[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  if (
    (isObject(before) || before == null) &&
    (isObject(after) || after == null) &&
    (before != null || after != null)
  ) {
    const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
    return names.flatMap((name) =>
      changes(
        (before as Record<string, unknown> | null)?.[name],
        (after as Record<string, unknown> | null)?.[name],
        path ? `${path}.${name}` : name,
      ),
    );
  }
  return [{ path, before, after }];
}

const told = (value: unknown): string => (value === undefined ? "" : JSON.stringify(value));

export function Diff({ before, after }: { before: unknown; after: unknown }) {
  const found = changes(before, after);
  if (found.length === 0) return <p class="note">Nothing differs.</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keys
    <div class="scroll" role="region" aria-label="Differences" tabIndex={0}>
      <table class="diff">
        <thead>
          <tr>
            <th>field</th>
            <th>before</th>
            <th>after</th>
          </tr>
        </thead>
        <tbody>
          {found.map((each) => (
            <tr key={each.path}>
              <th scope="row">{each.path || "(all)"}</th>
              <td class="before">{each.before !== undefined && <del>{told(each.before)}</del>}</td>
              <td class="after">{each.after !== undefined && <ins>{told(each.after)}</ins>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
