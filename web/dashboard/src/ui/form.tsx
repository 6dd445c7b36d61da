/** A form made of the schema that the hub gives of itself, beside the same as JSON. */

import { useEffect, useState } from "preact/hooks";
import { request } from "../core/api";
import { words } from "../core/format";
import { useLoad } from "../core/load";
import { Field, Show, Tabs } from "./parts";

export interface Schema {
  $ref?: string;
  type?: string;
  enum?: (string | number | null)[];
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  items?: Schema;
  required?: string[];
  default?: unknown;
  description?: string;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
}

type Schemas = Record<string, Schema>;
let schemas: Promise<Schemas> | null = null;

export function loadSchemas(): Promise<Schemas> {
  schemas ??= request("GET", "/openapi.json")
    .then((response) => response.json() as Promise<{ components: { schemas: Schemas } }>)
    .then((document) => document.components.schemas)
    .catch((error) => {
      schemas = null;
      throw error;
    });
  return schemas;
}

const LAST_PART = /[^/]+$/;

export function resolved(schema: Schema, all: Schemas): Schema {
  if (schema.$ref)
    return {
      ...all[LAST_PART.exec(schema.$ref)?.[0] ?? ""],
      ...(schema.default !== undefined && { default: schema.default }),
    };
  return schema;
}

interface Props {
  schema: string;
  value: Record<string, unknown>;
  onChange: (value: Record<string, unknown>) => void;
  /** Whether what stands there can be sent. */
  onValid?: (valid: boolean) => void;
  readOnly?: boolean;
}

export function SchemaForm({ schema, value, onChange, onValid, readOnly = false }: Props) {
  const [as, setAs] = useState<"form" | "json">("form");
  const loaded = useLoad(loadSchemas, []);
  return (
    <div>
      <div class="section-head">
        <Tabs
          label="Show as"
          of={[
            ["form", "Form"],
            ["json", "JSON"],
          ]}
          value={as}
          onChange={setAs}
        />
      </div>
      {as === "json" ? (
        <JsonField
          label={schema}
          value={value}
          onChange={(next) => onChange(next as Record<string, unknown>)}
          readOnly={readOnly}
          {...(onValid && { onValid })}
        />
      ) : (
        <Show of={loaded}>
          {(all) => (
            <Fields
              of={resolved({ $ref: schema }, all)}
              all={all}
              value={value}
              onChange={onChange}
              readOnly={readOnly}
            />
          )}
        </Show>
      )}
    </div>
  );
}

function Fields({
  of,
  all,
  value,
  onChange,
  readOnly,
}: {
  of: Schema;
  all: Schemas;
  value: Record<string, unknown>;
  onChange: (value: Record<string, unknown>) => void;
  readOnly: boolean;
}) {
  return (
    <div class="form">
      {ordered(of, all).map(([name, schema]) => (
        <Control
          key={name}
          name={name}
          schema={schema}
          all={all}
          value={value[name]}
          readOnly={readOnly}
          onChange={(next) => onChange({ ...value, [name]: next })}
        />
      ))}
    </div>
  );
}

/** What is switched on and off first, then single values, then what is larger. */
function ordered(of: Schema, all: Schemas): [string, Schema][] {
  const rank = (schema: Schema): number => {
    const kind = resolved(schema.anyOf?.find((each) => each.type !== "null") ?? schema, all);
    return kind.type === "boolean"
      ? 0
      : kind.enum || ["string", "integer", "number"].includes(kind.type ?? "")
        ? 1
        : kind.properties
          ? 2
          : 3;
  };
  return Object.entries(of.properties ?? {}).sort(([, a], [, b]) => rank(a) - rank(b));
}

interface ControlProps {
  name: string;
  schema: Schema;
  all: Schemas;
  value: unknown;
  onChange: (value: unknown) => void;
  readOnly: boolean;
}

function Control({ name, schema: given, all, value, onChange, readOnly }: ControlProps) {
  const options = given.anyOf?.map((each) => resolved(each, all));
  const optional = options?.some((each) => each.type === "null") ?? false;
  const schema = resolved(options?.find((each) => each.type !== "null") ?? given, all);
  const now = value === undefined ? (given.default ?? schema.default) : value;
  const label = words(name);
  const hint = given.description ?? schema.description;
  if (schema.type === "boolean" && optional) {
    return (
      <Field label={label} hint={hint}>
        <select
          value={now == null ? "" : String(now)}
          disabled={readOnly}
          onChange={(event) =>
            onChange(event.currentTarget.value === "" ? null : event.currentTarget.value === "true")
          }
        >
          <option value="">default</option>
          <option value="true">on</option>
          <option value="false">off</option>
        </select>
      </Field>
    );
  }
  if (schema.type === "boolean") {
    return (
      <label class="check">
        <input
          type="checkbox"
          checked={now === true}
          disabled={readOnly}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
        <span>
          {label}
          {hint && <small>{hint}</small>}
        </span>
      </label>
    );
  }
  if (schema.enum) {
    return (
      <Field label={label} hint={hint}>
        <select
          value={now == null ? "" : String(now)}
          disabled={readOnly}
          onChange={(event) => onChange(event.currentTarget.value === "" ? null : event.currentTarget.value)}
        >
          {optional && <option value="">–</option>}
          {schema.enum.map((each) => (
            <option key={String(each)} value={String(each)}>
              {String(each)}
            </option>
          ))}
        </select>
      </Field>
    );
  }
  if (schema.type === "integer" || schema.type === "number") {
    return (
      <Field label={label} hint={hint}>
        <input
          type="number"
          min={schema.minimum}
          max={schema.maximum}
          step={schema.type === "integer" ? 1 : "any"}
          value={now == null ? "" : String(now)}
          disabled={readOnly}
          onInput={(event) =>
            onChange(
              event.currentTarget.value === "" ? (optional ? null : 0) : event.currentTarget.valueAsNumber,
            )
          }
        />
      </Field>
    );
  }
  if (schema.type === "string" && !(options && options.length > 2)) {
    return (
      <Field label={label} hint={hint}>
        <input
          type="text"
          maxLength={schema.maxLength}
          value={now == null ? "" : String(now)}
          disabled={readOnly}
          onInput={(event) =>
            onChange(event.currentTarget.value === "" && optional ? null : event.currentTarget.value)
          }
        />
      </Field>
    );
  }
  if (schema.properties) {
    return (
      <fieldset class="whole group">
        <legend>{label}</legend>
        <Fields
          of={schema}
          all={all}
          value={(now ?? {}) as Record<string, unknown>}
          onChange={onChange}
          readOnly={readOnly}
        />
      </fieldset>
    );
  }
  return (
    <div class="whole">
      <JsonField label={label} rows={3} value={now ?? null} onChange={onChange} readOnly={readOnly} />
    </div>
  );
}

export function JsonField({
  label,
  value,
  onChange,
  readOnly = false,
  onValid,
  rows = 8,
}: {
  label: string;
  value: unknown;
  onChange: (value: unknown) => void;
  readOnly?: boolean;
  onValid?: (valid: boolean) => void;
  rows?: number;
}) {
  const [text, setText] = useState(() => JSON.stringify(value, null, 2));
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    try {
      if (JSON.stringify(JSON.parse(text)) === JSON.stringify(value)) return;
    } catch {
      if (wrong) return;
    }
    setText(JSON.stringify(value, null, 2));
  }, [value]);
  const edited = (next: string): void => {
    setText(next);
    try {
      onChange(JSON.parse(next));
      setWrong("");
      onValid?.(true);
    } catch (error) {
      setWrong((error as Error).message);
      onValid?.(false);
    }
  };
  return (
    <Field label={label} hint={wrong && <span role="alert">{`Not JSON: ${wrong}`}</span>}>
      <textarea
        rows={rows}
        spellcheck={false}
        aria-invalid={wrong !== ""}
        value={text}
        readOnly={readOnly}
        onInput={(event) => edited(event.currentTarget.value)}
      />
    </Field>
  );
}
