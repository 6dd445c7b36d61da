// Builds the npm package into dist/: ESM with declarations, nothing bundled twice. `npm pack` takes it from there.

import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
rmSync(join(here, "dist"), { recursive: true, force: true });
await esbuild.build({
  absWorkingDir: here,
  entryPoints: [
    "src/index.ts",
    "src/commands.ts",
    "src/offline.ts",
    "src/protobuf.ts",
    "src/react.ts",
    "src/react-native.ts",
    "src/shared.ts",
    "src/sse.ts",
    "src/worker.ts",
  ],
  outdir: "dist",
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  external: ["react"],
});
const tsc = join(here, "..", "node_modules", ".bin", "tsc");
execFileSync(tsc, ["-p", "tsconfig.package.json"], { cwd: here, stdio: "inherit" });
