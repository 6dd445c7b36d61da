// Writes docs/javascript-reference.md from the declarations of dist/ (package.mjs): node sdk/reference.mjs [--check]

import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "..", "..", "docs", "javascript-reference.md");
const { exports } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));

function textOf(module) {
  return readFileSync(join(here, "dist", `${module}.d.ts`), "utf8");
}

/** Top-level declarations by name: their doc comments and their text, without what is internal. */
function declarations(module) {
  const found = new Map();
  const lines = textOf(module).split("\n");
  for (let i = 0; i < lines.length; i++) {
    const named =
      /^(?:export )?(?:declare )?(?:abstract )?(?:interface|class|function|type|const) (\w+)/.exec(lines[i]);
    if (!named) continue;
    let first = i;
    while (first > 0 && /^( \*|\/\*\*)/.test(lines[first - 1])) first--;
    let last = i;
    const open = () =>
      lines
        .slice(i, last + 1)
        .join("\n")
        .replace(/\/\*.*?\*\//gs, "");
    while (
      last < lines.length - 1 &&
      (count(open(), /[{(]/g) > count(open(), /[})]/g) || !/[;}]$/.test(lines[last]))
    )
      last++;
    found.set(named[1], [
      ...(found.get(named[1]) ?? []),
      { first, text: lines.slice(first, last + 1).join("\n") },
    ]);
    i = last;
  }
  return found;
}

const count = (text, what) => text.match(what)?.length ?? 0;

/** Names that an entry exports, with the module that declares each. */
function exported(module) {
  const names = [];
  for (const [, list, from] of textOf(module).matchAll(
    /export (?:type )?(\*|\{[^}]*\}) from "\.\/([\w-]+)\.(?:ts|js)"/g,
  )) {
    if (list === "*") names.push(...exported(from));
    else
      for (const name of list.slice(1, -1).split(",")) {
        if (name.trim()) names.push([name.trim().replace(/^type /, ""), from]);
      }
  }
  for (const [, name] of textOf(module).matchAll(
    /^export (?:declare )?(?:abstract )?(?:interface|class|function|type|const) (\w+)/gm,
  ))
    names.push([name, module]);
  return names;
}

function cleaned(text) {
  return text
    .replace(/^ *\/\*\* @internal \*\/\n.*\n/gm, "")
    .replace(/^ *(#private|private .*);\n/gm, "")
    .replace(/^(\s*)export (declare )?/gm, "$1")
    .replace(/^declare /gm, "");
}

function entry(path, types) {
  const module = types.replace(/^.*\/|\.d\.ts$/g, "");
  const names = new Map(exported(module));
  const parts = [`## ${path.replace(/^\./, "@hubbub/client")}\n`];
  for (const name of [...names.keys()].sort((a, b) => a.localeCompare(b, "en"))) {
    const found = declarations(names.get(name)).get(name);
    if (found)
      parts.push(`### ${name}\n\n\`\`\`ts\n${cleaned(found.map(({ text }) => text).join("\n"))}\n\`\`\`\n`);
  }
  return parts.join("\n");
}

const entries = Object.entries(exports).filter(([path, { types }]) => types && path !== "./worker");
const text = `<!-- Written by web/sdk/reference.mjs from the declarations of the package. -->

# JavaScript reference

What each entry of the package exports, as TypeScript sees it. [JavaScript and TypeScript](javascript.md) is the place to begin.

${entries.map(([path, { types }]) => entry(path, types)).join("\n")}`;

if (!process.argv.includes("--check")) writeFileSync(target, text);
else if (readFileSync(target, "utf8") !== text) {
  console.error("docs/javascript-reference.md is not what the declarations say: make web-reference");
  process.exitCode = 1;
}
