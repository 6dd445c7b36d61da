"""Tests that end: time limits that hold on uvloop, and no process that outlives the run.

A signal, by which pytest-timeout interrupts a test, does not interrupt a coroutine on uvloop. A
coroutine is therefore cancelled at its time limit and fails with the place where it waited. What
goes on even then, such as a fixture, ends its xdist worker after twice the time limit, with the
stacks of all threads; the worker is not replaced (`--max-worker-restart 0`), since xdist can wait
for ever where it replaces one.
"""

from __future__ import annotations

import asyncio
import faulthandler
import functools
import inspect
import os
from collections.abc import Awaitable, Callable
from typing import Any

import psutil
import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

_MARK = "PYTEST_RUN_MARK"


def cancel_when_late(item: pytest.Item) -> None:
    """Give a test that is a coroutine its time limit: that of its marker, or everybody's."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        item.obj = _limited(item.obj, seconds_of(item))


def seconds_of(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0] if marker else item.config.getini("timeout"))


def _limited(test: Callable[..., Awaitable[None]], seconds: float) -> Callable[..., Any]:
    @functools.wraps(test)
    async def limited(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(seconds):
            await test(*args, **kwargs)

    return limited


def end_when_late(config: pytest.Config, seconds: float) -> None:
    """Ends this process after twice its time limit, whatever it does."""
    stderr = config.stash[fault_handler_stderr_fd_key]  # not the one that is captured
    faulthandler.dump_traceback_later(2 * seconds, exit=True, file=stderr)


def mark_processes() -> None:
    """Marks all later child processes, so that they are found even after their parent has ended."""
    os.environ[_MARK] = str(os.getpid())


def kill_what_is_left() -> list[str]:
    """End all processes with the mark but this one, and return their command lines."""
    mark = os.environ[_MARK]
    left = [one for one in psutil.process_iter() if one.pid != os.getpid() and _mark(one) == mark]
    told = [" ".join(process.cmdline()) for process in left]
    for process in left:
        process.kill()
    return told


def _mark(process: psutil.Process) -> str | None:
    try:
        mark: str | None = process.environ().get(_MARK)
        return mark
    except psutil.Error:
        return None
