// What the hub serves under /sdk, and the sizes of what an application bundles.

import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
export const inputs = ["sdk/build.mjs", "sdk/package.json", "sdk/src"];

const options = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  write: false,
  logLevel: "error",
};

/** Files of their own besides the main one: their parts of it come from `hubbub.js`, which the page has loaded already. */
const besides = { commands: 2, protobuf: 4.5, offline: 5, shared: 3, react: 2 };

const fromMain = {
  name: "from-main",
  setup(build) {
    build.onResolve({ filter: /^\.\/(index|internals)\.ts$/ }, () => ({
      path: "./hubbub.js",
      external: true,
    }));
  },
};

/** One file, in which a module that is loaded later would cost a wrapper around all that it shares with the others. */
const atOnce = {
  name: "at-once",
  setup(build) {
    const contents =
      'import { serverSentEvents } from "./sse.ts"; export const loadStreams = async () => serverSentEvents();';
    build.onLoad({ filter: /\/streams\.ts$/ }, ({ path }) => ({
      contents,
      resolveDir: dirname(path),
      loader: "ts",
    }));
  },
};

/** Properties that no other file reads, and that are not on the wire. */
const inside =
  /^(tracker|recovering|requested|noteGap|confirmAll|confirmPattern|failAll|catchUp|fetchFailed|resend|conflicted|began|renewable|acknowledge|joined|listenTo|deliver|editBy|informed|judge|recover|tries|prepare|expires|reset|confirm|unconfirmed|updated|effects|numbered)$/;
/** The same of the codec for protobuf. */
const insideProtobuf =
  /^(byNumber|fields|repeated|optional|asked|told|kind|varint|block|finish|skip|double|tag|message|number|name)$/;

async function bundle(more) {
  const result = await esbuild.build({ ...options, ...more });
  return result.outputFiles[0].text;
}

function bundleText(contents, more) {
  return bundle({ stdin: { contents, resolveDir: here, loader: "ts" }, ...more });
}

function beside(name) {
  const mangleProps = name === "protobuf" ? { mangleProps: insideProtobuf } : {};
  return bundle({
    entryPoints: [`src/${name}.ts`],
    plugins: [fromMain],
    external: ["react"],
    ...mangleProps,
  });
}

export async function build() {
  const main = 'export * from "./src/index.ts"; export * from "./src/internals.ts";';
  const files = new Map([["hubbub.js", await bundleText(main, { plugins: [atOnce], mangleProps: inside })]]);
  for (const name of Object.keys(besides)) {
    if (name === "react") continue; // pages with React have a bundler
    files.set(`${name}.js`, await beside(name));
  }
  files.set("hubbub-worker.js", await bundle({ entryPoints: ["src/worker.ts"], plugins: [atOnce] }));
  return files;
}

/** What an application with a bundler loads for `connect`: at once, and when no WebSocket gets through. */
async function split(gzipped) {
  const stdin = { contents: 'export { connect } from "./src/index.ts";', resolveDir: here, loader: "ts" };
  const { outputFiles } = await esbuild.build({ ...options, stdin, splitting: true, outdir: "dist" });
  const sizes = outputFiles.map(({ path, text }) => [/sse-\w+\.js$/.test(path), gzipped(text)]);
  const sum = (later) => sizes.reduce((all, [is, size]) => all + (is === later ? size : 0), 0);
  return { atOnce: sum(false), later: sum(true) };
}

/** Name, gzipped bytes, KB allowed. */
export async function limits(files, gzipped) {
  const entries = Object.entries(besides);
  const { atOnce, later } = await split(gzipped);
  return [
    ["connect and channels", atOnce, 12],
    ["server-sent events, where no WebSocket gets through", later, 3],
    ["hubbub.js", gzipped(files.get("hubbub.js")), 20],
    ...(await Promise.all(entries.map(async ([name, limit]) => [name, gzipped(await beside(name)), limit]))),
  ];
}
