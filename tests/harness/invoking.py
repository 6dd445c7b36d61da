"""Commands that run in a thread beside the server that they administer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from click.testing import CliRunner

from harness.command import Ended
from harness.running_hub import RunningHub
from hubbub.cli.main import main

Run = Callable[..., Awaitable[Ended]]


async def invoke(*arguments: str, stdin: str | None = None, **env: str | None) -> Ended:
    """A command in a thread, beside the server. Only a clean exit is no exception."""
    runner = CliRunner(env=dict.fromkeys(("HUBBUB_CONFIG", "HUBBUB_HUB"), None) | env)
    result = await asyncio.to_thread(runner.invoke, main, arguments, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return Ended(result.exit_code, result.stdout, result.stderr)


def at(hub: RunningHub, token: str | None = None, name: str = "acme") -> dict[str, str | None]:
    return {"HUBBUB_URL": f"ws://{hub.address}", "HUBBUB_HUB": name, "HUBBUB_TOKEN": token}


async def answer(run: Run, *arguments: str) -> Any:
    """The JSON that a command prints for programs."""
    ended = await run(*arguments, "--json")
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


async def lines(run: Run, *arguments: str) -> list[Any]:
    ended = await run(*arguments, "--json")
    assert (ended.code, ended.err) == (0, "")
    return [json.loads(line) for line in ended.out.splitlines()]
