"""No test keeps a run from its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]

STUBBORN = """
import asyncio, contextlib, pytest

async def stubborn():
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(100)

async def test_that_leaves_something_behind():
    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    {ending}
"""


def outcome(folder: Path, ending: str) -> str:
    (folder / "tests").mkdir()
    (folder / "tests" / "test_one.py").write_text(STUBBORN.format(ending=ending))
    options = ["-o", "asyncio_mode=auto", "-o", "timeout=1", "-o", "timeout_func_only=false"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", f"--rootdir={folder}", *options, folder],
        cwd=folder, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
    )  # fmt: skip
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


def test_what_a_test_leaves_behind_ends_the_process(tmp_path: Path) -> None:
    assert "Timeout (0:00:02)!" in outcome(tmp_path, "pass")


def test_the_limit_holds_after_a_failure(tmp_path: Path) -> None:
    assert "Timeout (0:00:02)!" in outcome(tmp_path, "assert False")
