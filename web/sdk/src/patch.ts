/** JSON Patch as hubs apply it to documents: values are never changed, what did not change is shared. */

import { HubbubError } from "./errors.ts";
import type { Json } from "./types.ts";

export interface Operation {
  op: "add" | "remove" | "replace" | "move" | "copy" | "test";
  path: string;
  from?: string;
  value?: Json;
}

export type Path = string[];
type Members = { [name: string]: Json };

/** The leading `/` may be left out; `""` is the whole document. */
export function parsePath(text: string): Path {
  if (!text) return [];
  const parts = (text[0] === "/" ? text.slice(1) : text).split("/");
  if (/~(?![01])/.test(text))
    throw new HubbubError("invalid_patch", `the path '${text}' has a ~ that is neither ~0 nor ~1`);
  return parts.map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function failed(reason: string, words: string): HubbubError {
  return new HubbubError("patch_failed", words, { details: { reason } });
}

export function isIndex(segment: string): boolean {
  return /^(0|[1-9]\d{0,8})$/.test(segment);
}

function existing(segment: string, length: number): number {
  if (!/^(0|[1-9]\d*)$/.test(segment)) throw failed("index", `'${segment}' is no index of a list`);
  if (!isIndex(segment) || Number(segment) >= length)
    throw failed("missing", `the list has ${length} items, no ${segment}`);
  return Number(segment);
}

/** Where an item may be inserted; undefined: the segment is a name. */
function insertion(segment: string, length: number): number | undefined {
  if (segment === "-") return length;
  if (/^(0|[1-9]\d*)$/.test(segment)) {
    if (isIndex(segment) && Number(segment) <= length) return Number(segment);
    throw failed("index", `the list has ${length} items; ${segment} would leave a gap`);
  }
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(segment))
    throw failed("index", `'${segment}' is no index of a list`);
  return undefined;
}

/** Bytes, `{"$bytes": "…"}`, are a scalar. */
export function isMembers(value: Json): value is Members {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return typeof value.$bytes !== "string" || Object.keys(value).length !== 1;
}

/** What is at the path. Throws `patch_failed`. */
export function find(root: Json, path: Path): Json {
  let value = root;
  for (const segment of path) {
    if (Array.isArray(value)) value = value[existing(segment, value.length)]!;
    else if (isMembers(value) && Object.hasOwn(value, segment)) value = value[segment]!;
    else throw failed("missing", `there is nothing at '/${path.join("/")}'`);
  }
  return value;
}

/** The document with the operations applied: all of them, or it throws `patch_failed` or `invalid_patch`. */
export function apply(root: Json, operations: Operation[]): Json {
  operations.forEach((operation, opIndex) => {
    try {
      root = run(root, operation);
    } catch (error) {
      if (error instanceof HubbubError) error.details.opIndex = opIndex;
      throw error;
    }
  });
  return root;
}

function run(root: Json, { op, path: text, from, value }: Operation): Json {
  const path = parsePath(text);
  const needed = () => {
    if (value === undefined) throw new HubbubError("invalid_patch", `${op} has no value`);
    return value;
  };
  switch (op) {
    case "add":
      return place(root, path, needed());
    case "replace":
      find(root, path);
      return alter(root, path, needed());
    case "remove":
      if (!path.length) return {};
      find(root, path);
      return alter(root, path);
    case "test":
      if (!equal(find(root, path), needed())) throw failed("test", `the value at '${text}' is another one`);
      return root;
    case "copy":
      return place(root, path, find(root, parsePath(from ?? "")));
    case "move": {
      const source = parsePath(from ?? "");
      const moved = find(root, source);
      if (equal(source, path)) return root;
      if (source.every((segment, i) => path[i] === segment))
        throw failed("inside", `'${text}' lies inside of '${from}', which is to move there`);
      return place(alter(root, source), path, moved);
    }
    default:
      throw new HubbubError("invalid_patch", `there is no operation '${op}'`);
  }
}

/** A copy along the path, with another value at its end; without one, what is there is removed. */
function alter(value: Json, path: Path, end?: Json): Json {
  const [segment, ...rest] = path;
  if (segment === undefined) return end!;
  const last = !rest.length;
  if (Array.isArray(value)) {
    const index = Number(segment);
    if (last && end === undefined) return value.toSpliced(index, 1);
    return value.with(index, alter(value[index]!, rest, end));
  }
  const members = { ...(value as Members) };
  if (last && end === undefined) delete members[segment];
  else set(members, segment, last ? end! : alter(members[segment]!, rest, end));
  return members;
}

/** `__proto__` is a name like others. */
function set(members: Members, name: string, value: Json): void {
  Object.defineProperty(members, name, { value, writable: true, enumerable: true, configurable: true });
}

/** Add a value, with parents that are created or converted as the segments ask. */
function place(value: Json, path: Path, added: Json): Json {
  const [segment, ...rest] = path;
  if (segment === undefined) return added;
  if (Array.isArray(value)) {
    const index = insertion(segment, value.length);
    if (index === undefined) {
      const members: Members = {};
      for (const [i, item] of value.entries()) members[i] = item;
      return place(members, path, added);
    }
    if (!rest.length || index === value.length) return value.toSpliced(index, 0, nest(rest, added));
    return value.with(index, place(value[index]!, rest, added));
  }
  if (!isMembers(value)) return nest(path, added); // a scalar gives way
  const members = { ...value };
  const there = rest.length && Object.hasOwn(value, segment);
  set(members, segment, there ? place(value[segment]!, rest, added) : nest(rest, added));
  return members;
}

/** The value inside of parents that are made for it: a list where the next segment is `0` or `-`, else an object. */
function nest(path: Path, value: Json): Json {
  return path.reduceRight<Json>((inner, segment) => {
    if (segment === "0" || segment === "-") return [inner];
    const members: Members = {};
    set(members, segment, inner);
    return members;
  }, value);
}

export function equal(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (Array.isArray(a))
    return Array.isArray(b) && a.length === b.length && a.every((item, i) => equal(item, b[i]!));
  if (typeof a !== "object" || typeof b !== "object" || !a || !b || Array.isArray(b)) return false;
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length &&
    names.every((name) => Object.hasOwn(b, name) && equal(a[name]!, b[name]!))
  );
}

/** The lists of a document through whose positions the operations go. A list that they make themselves is none of them. */
export function listsIn(root: Json, operations: Operation[]): Path[] {
  const found = new Map<string, Path>();
  for (const { path, from } of operations) {
    for (const text of from === undefined ? [path] : [path, from]) {
      const segments = parsePath(text);
      let value: Json = root;
      for (const [at, segment] of segments.entries()) {
        if (Array.isArray(value)) {
          if (segment === "-") break;
          const list = segments.slice(0, at);
          found.set(JSON.stringify(list), list);
          if (!isIndex(segment) || Number(segment) >= value.length) break;
          value = value[Number(segment)]!;
        } else if (isMembers(value) && Object.hasOwn(value, segment)) value = value[segment]!;
        else break;
      }
    }
  }
  return [...found.values()];
}

/** Whether the operations change one of the lists themselves, or something above it. Inside of an item does not count. */
export function touches(operations: Operation[], lists: Path[]): boolean {
  for (const { op, path, from } of operations) {
    if (op === "test") continue;
    for (const text of op === "move" ? [path, from ?? ""] : [path]) {
      const segments = parsePath(text);
      const hit = lists.some((list) => {
        const shared = Math.min(segments.length, list.length);
        const within = segments.slice(0, shared).every((segment, i) => segment === list[i]);
        return within && segments.length <= list.length + 1;
      });
      if (hit) return true;
    }
  }
  return false;
}
