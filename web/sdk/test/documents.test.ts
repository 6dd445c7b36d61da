import { readFileSync } from "node:fs";
import fc from "fast-check";
import { expect, test } from "vitest";
import { HubbubError, type Json } from "../src/index.ts";
import { apply, equal, find, type Operation, parsePath } from "../src/patch.ts";
import { type Effect, Replica } from "../src/replica.ts";

const vectors = JSON.parse(
  readFileSync(new URL("../../../spec/document-copies.json", import.meta.url), "utf8"),
);

// biome-ignore lint/suspicious/noExplicitAny: vectors are JSON
type Vector = any;

class Run {
  readonly replica: Replica;

  constructor({ saved = {} }: Vector) {
    let ids = 0;
    let producers = 0;
    this.replica = new Replica(
      () => `c${++ids}`,
      () => `p${++producers}`,
      saved.changes,
      saved.producer,
      saved.sequence,
    );
    if ("document" in saved) this.replica.load(saved.epoch, saved.version, saved.document);
  }

  step(action: Vector): Vector {
    const [[what, said]] = Object.entries<Vector>(action) as [[string, Vector]];
    const { replica } = this;
    const steps: Record<string, () => void> = {
      edit: () => void replica.edit(said.ops, said.guard),
      increment: () =>
        void replica.editBy((root) => [
          { op: "add", path: said.path, value: (number(root, said.path) as number) + 1 },
        ]),
      connected: () => replica.connected(),
      lost: () => replica.lost(),
      resend: () => replica.resend(),
      informed: () => replica.informed(said.epoch, said.version),
      updated: () => replica.updated(said),
      fetched: () =>
        replica.fetched({ ...said, updates: said.updates?.map((each: Vector) => ({ ...said, ...each })) }),
      answered: () => replica.answered(said.id, said.epoch, said.version),
      refused: () =>
        replica.refused(
          said.id,
          new HubbubError(said.code, "", { retry: said.code === "unavailable", details: said }),
        ),
    };
    try {
      steps[what]!();
    } catch (error) {
      return { error: (error as HubbubError).code };
    }
    return {
      effects: replica.effects().map(shown),
      view: replica.view,
      confirmed: [replica.epoch, replica.version],
      pending: replica.unconfirmed,
    };
  }
}

function number(root: Json, path: string): Json {
  try {
    return find(root, parsePath(path));
  } catch {
    return 0;
  }
}

function shown(effect: Effect): Vector {
  if (effect.effect !== "rejected") return effect;
  const { id, ops, error } = effect;
  return { effect: "rejected", id, ops, code: error instanceof HubbubError ? error.code : "function" };
}

test.each<[string, Vector]>(vectors.cases.map((each: Vector) => [each.name, each]))(
  "as every SDK: %s",
  (_, each) => {
    const run = new Run(each);
    for (const { do: action, ...expected } of each.steps)
      expect(run.step(action), JSON.stringify(action)).toEqual(expected);
  },
);

const json = fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.parse(JSON.stringify(value)) as Json);
const path = fc.array(fc.constantFrom("a", "b", "0", "1", "-", "__proto__", "x/y", "~"), { maxLength: 3 });
const text = path.map((segments) =>
  segments.map((each) => `/${each.replaceAll("~", "~0").replaceAll("/", "~1")}`).join(""),
);
const operation: fc.Arbitrary<Operation> = fc.oneof(
  fc.record({
    op: fc.constantFrom("add" as const, "replace" as const, "test" as const),
    path: text,
    value: json,
  }),
  fc.record({ op: fc.constant("remove" as const), path: text }),
  fc.record({ op: fc.constantFrom("move" as const, "copy" as const), path: text, from: text }),
);

test("no operation changes the value that it is applied to, and it fails only with a code", () => {
  fc.assert(
    fc.property(json, fc.array(operation, { maxLength: 4 }), (root, operations) => {
      const before = JSON.stringify(root);
      try {
        apply(root, operations);
      } catch (error) {
        expect(["patch_failed", "invalid_patch"]).toContain((error as HubbubError).code);
      }
      expect(JSON.stringify(root)).toBe(before);
    }),
  );
});

test("what was added is found there, and removing it leaves what was before", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom("a", "b", "__proto__"), json), json, (root, value) => {
      const added = apply(root as Json, [{ op: "add", path: "/new", value }]);
      expect(equal(find(added, ["new"]), value)).toBe(true);
      expect(equal(apply(added, [{ op: "remove", path: "/new" }]), root as Json)).toBe(true);
    }),
  );
});

test("what did not change is the same object", () => {
  const root = { a: { deep: [1] }, b: { n: 1 } } as Json;
  const next = apply(root, [{ op: "replace", path: "/b/n", value: 2 }]) as { a: Json };
  expect(next.a).toBe((root as { a: Json }).a);
});
