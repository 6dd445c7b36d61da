// The dashboard: a shell, and a chunk of code for each page, loaded when it is first shown.

import { readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
export const inputs = [
  "dashboard/build.mjs",
  "dashboard/index.html",
  "dashboard/package.json",
  "dashboard/src",
  "dashboard/style.css",
];

/** The SDK is a file of the hub's own, which is not packed a second time. */
const sdk = "/sdk/hubbub.js";
const servedSdk = {
  name: "served-sdk",
  setup(build) {
    build.onResolve({ filter: /^@hubbub\/client/ }, () => ({ path: sdk, external: true }));
  },
};

/** The charts in a file of their own, which the pipeline's report holds; no page of the dashboard loads it. */
const report = "report.js";

async function bundle(options) {
  return esbuild.build({
    absWorkingDir: here,
    outdir: "out",
    entryNames: "[name]",
    chunkNames: "[name]-[hash]",
    bundle: true,
    minify: true,
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    charset: "utf8",
    legalComments: "none",
    metafile: true,
    plugins: [servedSdk],
    write: false,
    logLevel: "error",
    ...options,
  });
}

const bundlePages = () => bundle({ entryPoints: ["src/main.tsx"], splitting: true, format: "esm" });
const bundleReport = () => bundle({ entryPoints: ["src/report.tsx"], format: "iife" });

export async function build() {
  const result = await bundlePages();
  const { outputFiles: charts } = await bundleReport();
  const css = await readFile(join(here, "style.css"), "utf8");
  const style = await esbuild.transform(css, { loader: "css", minify: true, charset: "utf8" });
  const shell = [...needsOf(result.metafile)("main.js")].filter((name) => name !== "main.js").sort();
  const preload = shell.map((name) => `<link rel="modulepreload" href="/dashboard/${name}">`).join("\n    ");
  const page = await readFile(join(here, "index.html"), "utf8");
  const files = new Map([
    ["index.html", page.replace("<!-- preload -->", preload)],
    ["style.css", style.code],
  ]);
  for (const file of [...result.outputFiles, ...charts]) files.set(basename(file.path), file.text);
  return files;
}

/** The chunks that a chunk cannot do without, itself among them. */
function needsOf(metafile) {
  const outputs = new Map(Object.entries(metafile.outputs).map(([path, output]) => [basename(path), output]));
  return function needs(name, found = new Set()) {
    if (found.has(name)) return found;
    found.add(name);
    for (const each of outputs.get(name).imports) {
      if (each.kind === "import-statement" && !each.external) needs(basename(each.path), found);
    }
    return found;
  };
}

/** What the shell loads before any page, then each page with what it alone needs, then what all of it takes. */
export async function limits(files, gzipped) {
  const { metafile } = await bundlePages();
  const outputs = Object.entries(metafile.outputs).map(([path, output]) => [basename(path), output]);
  const served = gzipped(await readFile(join(here, "../../src/hubbub/web", sdk)));
  const size = (names) => [...names].reduce((sum, name) => sum + gzipped(files.get(name)), 0);
  const needs = needsOf(metafile);
  const shell = needs("main.js");
  const pages = outputs
    .filter(([name, output]) => output.entryPoint && name !== "main.js")
    .map(([name]) => [
      name.replace(/-\w+\.js$/, ""),
      size([...needs(name)].filter((each) => !shell.has(each))),
    ])
    .map(([name, bytes]) => [`page ${name}`, bytes, 25]);
  return [
    ["shell", size([...shell, "index.html", "style.css"]), 45],
    ...pages,
    ["SDK, for the inspector", served, 25],
    [
      "all",
      served + size([...files.keys()].filter((name) => name !== report && /\.(js|css|html)$/.test(name))),
      140,
    ],
    ["charts of the pipeline's report", size([report]), 40],
  ];
}
