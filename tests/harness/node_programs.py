"""Programs of Node that tests talk to."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest


def need_node(folder: Path) -> str:
    """The program; skips where it, or the packages of the folder, are missing."""
    program = shutil.which("node")
    if program is None or not (folder / "node_modules").is_dir():
        pytest.skip("node or its packages are missing: sh scripts/node-packages.sh")
    return program


@contextlib.asynccontextmanager
async def node(script: Path, *arguments: object) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        need_node(script.parent),
        str(script),
        *map(str, arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=script.parent,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
