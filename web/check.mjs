// All checks of web/ that need Node: style, types, tests, sizes, a fresh build. `make web-check` runs it.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";

const workspaces = ["sdk", "dashboard"].filter((name) => existsSync(`${name}/tsconfig.json`));
const checks = [
  ["style", "biome", ["ci", "--colors=off", "."]],
  ...workspaces.map((name) => [`types of ${name}`, "tsc", ["-p", name]]),
  ["examples of the documentation", process.execPath, ["sdk/snippets.mjs"]],
  ["tests", "vitest", ["run", "--reporter=dot"]],
  ["package", process.execPath, ["sdk/package.mjs"]],
  ["reference in docs/", process.execPath, ["sdk/reference.mjs", "--check"]],
  ["package's exports", "publint", ["run", "sdk", "--strict", "--pack", "false"]],
  ["build", process.execPath, ["build.mjs", "--check"]],
];

function run([name, command, args]) {
  const began = performance.now();
  return new Promise((resolve) => {
    const path = `${process.cwd()}/node_modules/.bin:${process.env.PATH}`;
    const child = spawn(command, args, { env: { ...process.env, PATH: path, CI: "1" } });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (data) => {
        output += data;
      });
    }
    child.on("error", (error) => {
      output += error;
      resolve(false);
    });
    child.on("close", (code) => {
      const seconds = ((performance.now() - began) / 1000).toFixed(1);
      console.log(`web: ${name} ${code === 0 ? "passed" : "FAILED"} in ${seconds} s`);
      if (code !== 0 || name === "build") process.stdout.write(output);
      resolve(code === 0);
    });
  });
}

let passed = true;
for (const check of checks) passed = (await run(check)) && passed;
process.exitCode = passed ? 0 : 1;
