"""Tests that end: time limits that hold on uvloop, and no process that outlives the run.

A signal, by which pytest-timeout interrupts a test, does not interrupt a coroutine on uvloop. A
coroutine is therefore cancelled at its time limit and fails with the place where it waited. Any
other test, and a fixture, that takes twice its time limit ends its xdist worker, with the stacks
of all threads; the worker is not replaced (`--max-worker-restart 0`), since xdist can wait for
ever where it replaces one.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import psutil
import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

_PR_SET_CHILD_SUBREAPER = 36


def cancel_when_late(item: pytest.Item) -> None:
    """Give a test that is a coroutine its time limit: that of its marker, or everybody's."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        marker = item.get_closest_marker("timeout")
        seconds = float(marker.args[0] if marker else item.config.getini("timeout"))
        item.obj = _limited(item.obj, seconds)


def _limited(test: Callable[..., Awaitable[None]], seconds: float) -> Callable[..., Any]:
    @functools.wraps(test)
    async def limited(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(seconds):
            await test(*args, **kwargs)

    return limited


def end_when_late(config: pytest.Config, seconds: float) -> None:
    """Have this process end after twice its time limit, whatever it does then."""
    stderr = config.stash[fault_handler_stderr_fd_key]  # not the one that is captured
    faulthandler.dump_traceback_later(2 * seconds, exit=True, file=stderr)


def adopt_orphans() -> None:
    """Processes whose parent ends, such as an xdist worker, become children of this one."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_what_is_left() -> list[str]:
    """End all processes below this one, and return their command lines."""
    left = psutil.Process().children(recursive=True)
    told = [line for process in left if (line := _command_line(process))]
    for process in left:
        process.kill()
    psutil.wait_procs(left, timeout=10)
    return told


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
