"""The life cycle of a server process: start, run, drain, end."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import sys
from collections.abc import Callable

import uvloop

from hubbub.server.garbage import GarbageCollection
from hubbub.server.settings import Settings
from hubbub.server.wiring import Server

logger = logging.getLogger(__name__)

SWITCH_SECONDS = 0.0005
"""The interpreter's switch interval. The event loop waits this long for the lock after each system
call: with Python's default of 5 ms a response took 100 ms beside a single busy thread."""


def run(settings: Settings, started: Callable[[Server], None]) -> None:
    """Runs until SIGTERM, SIGINT or an administrator's request; a second signal ends it at once."""
    raise_file_limit()
    sys.setswitchinterval(SWITCH_SECONDS)
    uvloop.run(_serve(settings, started))


async def _serve(settings: Settings, started: Callable[[Server], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = Server(settings, stop_requested=stop)
    garbage = GarbageCollection(server.announce_pause)
    garbage.start()
    await server.start()
    started(server)
    await stop.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
    logger.info("stopping: clients are told to reconnect, accepted messages are written")
    try:
        await asyncio.wait_for(server.stop(), settings.listener.shutdown_timeout)
    except TimeoutError:
        logger.warning("stopped before everything was drained")
    else:
        logger.info("stopped")
    finally:
        garbage.stop()


def raise_file_limit() -> None:
    """Raises the limit of open files to the maximum, since each connection is a file."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
