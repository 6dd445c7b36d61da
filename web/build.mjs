// Builds the workspaces into src/hubbub/web/: node build.mjs [--check] [WORKSPACE…]
// A workspace's build.mjs exports `inputs` (files and folders, below web/) and `build()`, which answers its files by name,
// and `limits()`, gzipped bytes by name beside what is allowed. With --check nothing is written: what is committed must be
// what the sources make, byte for byte.

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "..", "src", "hubbub", "web");
const shared = ["build.mjs", "package-lock.json", "package.json", "tsconfig.base.json"];
const compressed = /\.(js|css|html|svg|json)$/;

async function filesBelow(path) {
  if (!(await stat(join(here, path))).isDirectory()) return [path];
  const names = (await readdir(join(here, path))).filter(
    (name) => name !== "node_modules" && name !== "dist",
  );
  return (await Promise.all(names.map((name) => filesBelow(`${path}/${name}`)))).flat();
}

/** The hash that tests/unit/test_web_build.py computes, too: names and contents in the order of names. */
async function hashOf(inputs) {
  const names = (await Promise.all([...shared, ...inputs].map(filesBelow))).flat();
  const hash = createHash("sha256");
  for (const name of [...new Set(names)].sort()) {
    const content = await readFile(join(here, name));
    hash.update(`${name}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex");
}

function brotli(content) {
  return brotliCompressSync(content, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length },
  });
}

async function outputOf(workspace) {
  const { inputs, build } = await import(`./${workspace}/build.mjs`);
  const { version } = JSON.parse(await readFile(join(here, workspace, "package.json"), "utf8"));
  const files = new Map();
  const described = {};
  for (const [name, text] of [...(await build())].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const content = Buffer.from(text);
    files.set(name, content);
    if (compressed.test(name)) files.set(`${name}.br`, brotli(content));
    described[name] = { integrity: `sha384-${createHash("sha384").update(content).digest("base64")}` };
  }
  const manifest = {
    version,
    inputs: [...shared, ...inputs],
    sources: await hashOf(inputs),
    files: described,
  };
  files.set("manifest.json", Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`));
  return files;
}

async function write(workspace, files) {
  const folder = join(target, workspace);
  await rm(folder, { recursive: true, force: true });
  for (const [name, content] of files) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
}

async function differences(workspace, files) {
  const folder = join(target, workspace);
  const there = existsSync(folder) ? await readdir(folder, { recursive: true, withFileTypes: true }) : [];
  const stale = there
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .filter((name) => !files.has(name));
  for (const [name, content] of files) {
    const path = join(folder, name);
    if (!existsSync(path) || !content.equals(await readFile(path))) stale.push(name);
  }
  return stale.map((name) => `${workspace}/${name}`);
}

export function gzipped(text) {
  return gzipSync(text, { level: 9 }).length;
}

/** Sizes that are over their limits, in words; all of them are printed. */
async function oversized(workspace, files) {
  const { limits } = await import(`./${workspace}/build.mjs`);
  const tooLarge = [];
  for (const [name, size, limit] of await limits(files, gzipped)) {
    const words = `${workspace}: ${name} ${(size / 1024).toFixed(2)} KB of ${limit} KB gzipped`;
    console.log(words);
    if (size > limit * 1024) tooLarge.push(words);
  }
  return tooLarge;
}

async function main(args) {
  const checking = args.includes("--check");
  const named = args.filter((arg) => !arg.startsWith("--"));
  const wrong = [];
  for (const workspace of named.length ? named : ["sdk", "dashboard"]) {
    if (!existsSync(join(here, workspace, "build.mjs"))) continue;
    const files = await outputOf(workspace);
    if (checking) {
      const stale = await differences(workspace, files);
      if (stale.length) wrong.push(`not what the sources make, run \`make web\`: ${stale.join(", ")}`);
    } else await write(workspace, files);
    wrong.push(...(await oversized(workspace, files)).map((words) => `too large: ${words}`));
  }
  for (const words of wrong) console.error(words);
  process.exitCode = wrong.length ? 1 : 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv.slice(2));
