// Type-checks every code block and every table cell of code in docs/javascript.md as printed, and the example for React,
// against the SDK's sources. `make web-check` runs it.

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..");
const page = readFileSync(join(root, "docs", "javascript.md"), "utf8");
const folder = join(here, "dist", "snippets");

/** What the page's examples take as given. */
const given = `
import type * as sdk from "@hubbub/client";
declare global {
  interface Board { cards: sdk.Json[]; n: number }
  const client: sdk.Client, channel: sdk.Channel, subscription: sdk.Subscription<sdk.Json>, message: sdk.Message;
  const connect: typeof sdk.connect, subscribe: sdk.Channel["subscribe"], publish: sdk.Channel["publish"];
  const url: string, hub: string, token: string, since: sdk.Position, lastPosition: sdk.Position;
  const d: sdk.Json, data: sdk.Json, card: sdk.Json, list: Element;
  const f: (message: unknown) => void;
  function show(text: string): void;
  function work(job: sdk.Article<sdk.Json>): void;
  function render(board: Board): void;
  function badge(unread: number): void;
}
`;
const modules = `
declare module "http://localhost:8000/sdk/hubbub.js" { export * from "@hubbub/client"; }
declare module "ws" { export const WebSocket: import("@hubbub/client").SocketClass; }
declare module "react-native" { export const AppState: import("@hubbub/client/react-native").AppState; }
declare module "@react-native-community/netinfo" {
  const NetInfo: NonNullable<Parameters<typeof import("@hubbub/client/react-native").reactNative>[1]>;
  export default NetInfo;
}
`;
const react =
  'import { HubbubProvider, useChannel, useConnection, usePresence } from "@hubbub/client/react"; import { useState } from "react";\n';

/** By the line of the page. */
const snippets = new Map();
const lineOf = (index) => page.slice(0, index).split("\n").length;
for (const { index, 1: kind, 2: text } of page.matchAll(/^```(\w+)[^\n]*\n(.*?)^```/gms)) {
  const script = kind === "html" ? /<script type="module">\n(.*?)<\/script>/s.exec(text)[1] : text;
  const type = kind === "html" ? "js" : kind === "tsx" ? "tsx" : "ts"; // pages have no types: their form alone is checked
  snippets.set(
    `line${lineOf(index)}.${type}`,
    `${kind === "tsx" ? react : ""}${script.replace(/"\/sdk\/(\w+)\.js"/, '"@hubbub/client/$1"')}\nexport {};\n`,
  );
}
const tables = page.slice(page.indexOf("## Coming from"));
for (const { index, 1: cell } of tables.matchAll(/^\| .* \| (.*) \|$/gm)) {
  const codes = [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code.replace("…", '""'));
  const text = codes.map((code) => `${code.startsWith(".") ? 'client.channel("c")' : ""}${code};\n`).join("");
  if (text) snippets.set(`line${lineOf(page.length - tables.length + index)}.ts`, `${text}export {};\n`);
}
if (snippets.size < 20) throw new Error(`only ${snippets.size} examples were found in docs/javascript.md`);

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, "given.d.ts"), given);
writeFileSync(join(folder, "modules.d.ts"), modules);
for (const [name, text] of snippets) writeFileSync(join(folder, name), text);
cpSync(join(root, "examples", "react", "App.tsx"), join(folder, "App.tsx"));
const paths = { "@hubbub/client": ["../../src/index.ts"], "@hubbub/client/*": ["../../src/*.ts"] };
const compilerOptions = {
  noEmit: true,
  jsx: "react-jsx",
  types: ["node"],
  noUnusedLocals: false,
  noUnusedParameters: false,
  allowJs: true,
  paths,
};
const include = ["*.ts", "*.tsx", "*.js"];
writeFileSync(
  join(folder, "tsconfig.json"),
  JSON.stringify({ extends: "../../../tsconfig.base.json", compilerOptions, include, exclude: [] }),
);
const { status, stdout } = spawnSync("tsc", ["-p", folder], { encoding: "utf8" });
rmSync(folder, { recursive: true });
process.stdout.write(`${stdout}${snippets.size} examples of docs/javascript.md and examples/react\n`);
process.exitCode = status ?? 1;
