/** One kind of named settings of a hub: a list, and an editor that never overwrites what somebody else changed. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import {
  ApiError,
  get,
  getVersioned,
  type Page,
  put,
  putVersioned,
  remove,
  type Versioned,
} from "../core/api";
import { count, visible } from "../core/format";
import { useLoad } from "../core/load";
import { go, link, route } from "../core/router";
import { hub, mayWrite, ofHub } from "../core/session";
import { SchemaForm } from "../ui/form";
import { Diff } from "../ui/json";
import { Act, Dialog, Empty, Section, Show, tell } from "../ui/parts";
import { type Column, PAGE_ROWS, Table, useRows } from "../ui/table";

type Value = Record<string, unknown>;

interface Named {
  name: string;
  version: number;
  value: Value;
}

interface Kind {
  /** Of the path, such as `rules`. */
  kind: string;
  schema: string;
  one: string;
  fresh: Value;
  /** Where the list is shown. */
  page: string;
  query: Record<string, string>;
  column?: [string, (value: Value) => string];
  /** Items that have no version: of another shape, and written whatever is there. */
  rowOf?: (item: Record<string, unknown>) => Named;
  /** Shown below the form of one that is stored. */
  more?: (name: string) => ComponentChildren;
  /** What saving would do. */
  tryOut?: (at: string, value: Value) => Promise<string>;
  /** What the list is for, where it is empty. */
  none?: string;
}

export function SettingsTable(kind: Kind) {
  const open = route.value.parts[0] === kind.kind ? route.value.parts[1] : undefined;
  const q = route.value.query.get("q") ?? "";
  const rows = useRows<Named>(
    (cursor, signal) =>
      get<Page<Named>>(ofHub(`/${kind.kind}`), { limit: PAGE_ROWS, cursor, prefix: q }, signal).then(
        (page) =>
          kind.rowOf
            ? { ...page, items: page.items.map((item) => kind.rowOf?.({ ...item }) as Named) }
            : page,
      ),
    [hub.value, kind.kind, q],
  );
  const [name, setName] = useState("");
  const columns: Column<Named>[] = [
    {
      head: kind.one,
      cell: (row) => <a href={link(kind.page, [kind.kind, row.name], kind.query)}>{visible(row.name)}</a>,
    },
    ...(kind.column
      ? [{ head: kind.column[0], width: "minmax(0, 2fr)", cell: (row: Named) => kind.column?.[1](row.value) }]
      : []),
    ...(kind.rowOf
      ? []
      : [
          {
            head: "version",
            number: true,
            rank: 2 as const,
            width: "80px",
            cell: (row: Named) => count(row.version),
          },
        ]),
  ];
  const close = (): void => go(link(kind.page, [], kind.query));
  return (
    <Section
      title={`${kind.one[0]?.toUpperCase()}${kind.one.slice(1)}${kind.one.endsWith("s") ? "" : "s"}`}
      tools={
        mayWrite.value && (
          <form
            class="tools"
            onSubmit={(event) => {
              event.preventDefault();
              if (name) go(link(kind.page, [kind.kind, name], kind.query));
            }}
          >
            <input
              placeholder="name"
              aria-label={`Name of a new ${kind.one}`}
              value={name}
              onInput={(event) => setName(event.currentTarget.value)}
            />
            <button type="submit" disabled={name === ""}>
              New
            </button>
          </form>
        )
      }
    >
      <Table
        label={kind.one}
        of={rows}
        columns={columns}
        id={(row) => row.name}
        height={12}
        empty={<Empty>{kind.none ?? "None yet."} Name one above and choose New.</Empty>}
      />
      {open !== undefined && (
        <Dialog wide title={`${kind.one} ${visible(open)}`} onClose={close}>
          <Editor
            {...kind}
            name={open}
            done={() => {
              close();
              rows.reload();
            }}
          />
        </Dialog>
      )}
    </Section>
  );
}

function Editor({
  kind,
  schema,
  fresh,
  name,
  done,
  rowOf,
  more,
  tryOut,
}: Kind & { name: string; done: () => void }) {
  const at = `${ofHub(`/${kind}`)}/${encodeURIComponent(name)}`;
  const found = useLoad<Versioned<Value> & { stored: boolean }>(
    () =>
      getVersioned<Value>(at).then(
        (versioned) => ({ ...versioned, stored: true }),
        (error) => {
          if (error instanceof ApiError && error.status === 404) return { value: fresh, stored: false };
          throw error;
        },
      ),
    [at],
  );
  return (
    <Show of={found}>
      {(stored) => (
        <>
          <VersionedForm
            at={at}
            schema={schema}
            stored={stored}
            done={done}
            deletable={stored.stored}
            unversioned={rowOf !== undefined}
            {...(tryOut && { tryOut })}
          />
          {stored.stored && more?.(name)}
        </>
      )}
    </Show>
  );
}

/** Saves only over the version that was read. If another one is there, both are shown side by side. */
export function VersionedForm({
  at,
  schema,
  stored,
  done,
  deletable = false,
  unversioned = false,
  tryOut,
  readOnly = !mayWrite.value,
}: {
  at: string;
  schema: string;
  stored: Versioned<Value>;
  done: () => void;
  deletable?: boolean;
  unversioned?: boolean;
  tryOut?: NonNullable<Kind["tryOut"]>;
  readOnly?: boolean;
}) {
  const [value, setValue] = useState(stored.value);
  const [base, setBase] = useState(stored);
  const [valid, setValid] = useState(true);
  const [theirs, setTheirs] = useState<Versioned<Value> | null>(null);
  const changed = JSON.stringify(value) !== JSON.stringify(base.value) || base.etag === undefined;
  const [effect, setEffect] = useState("");
  const save = async (): Promise<void> => {
    try {
      if (unversioned) await put(at, value);
      else await putVersioned<Value>(at, value, base.etag);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 412) throw error;
      setTheirs(await getVersioned<Value>(at));
      return;
    }
    tell("Saved");
    done();
  };
  return (
    <div>
      {theirs && (
        <div class="trouble" role="alert">
          <p>Somebody else changed this meanwhile. What is stored now, against what you have here:</p>
          <Diff before={theirs.value} after={value} />
          <div class="tools end">
            <button
              type="button"
              onClick={() => {
                setValue(theirs.value);
                setBase(theirs);
                setTheirs(null);
              }}
            >
              Take theirs
            </button>
            <button
              type="button"
              class="bad"
              onClick={() => {
                setBase(theirs);
                setTheirs(null);
              }}
            >
              Keep mine, then save
            </button>
          </div>
        </div>
      )}
      <SchemaForm schema={schema} value={value} onChange={setValue} onValid={setValid} readOnly={readOnly} />
      {effect && (
        <p class="note gap" role="status">
          {effect}
        </p>
      )}
      <div class="tools end">
        {tryOut && (
          <Act disabled={!valid || theirs !== null} act={() => tryOut(at, value).then(setEffect)}>
            What would it touch?
          </Act>
        )}
        {deletable && (
          <Act kind="bad" ask="Delete it?" done="Deleted" act={() => remove(at).then(done)}>
            Delete
          </Act>
        )}
        <Act kind="main" act={save} disabled={!valid || !changed || theirs !== null}>
          Save
        </Act>
      </div>
    </div>
  );
}
