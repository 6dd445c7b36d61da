"""Reads analytics in a short-lived process, so that the hub needs neither Arrow nor its memory."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from hubbub.domain.analytics import Rows, RowsQuery
from hubbub.domain.errors import Unavailable
from hubbub.fair_slots import FairPlaces
from hubbub.ports.analytics import Analytics
from hubbub.processes import module_command

logger = logging.getLogger(__name__)

AT_ONCE = 2
"""Each of them takes 110 MB. One tenant has one of them at most."""
WAITING = 16
TIMEOUT_SECONDS = 20.0
NICENESS = 10
"""Added to the hub's own: answering takes a core for a second, on which the hub may run, too."""


class _AnalyticsAnswer(msgspec.Struct):
    rows: Rows | None = None
    error: str = ""


class AnalyticsProcess(Analytics):
    """Runs a few processes concurrently and queues a few queries, in fair shares between hubs."""

    def __init__(self, warehouse: Path) -> None:
        self._warehouse = warehouse
        self._places = FairPlaces(AT_ONCE, WAITING, "questions about analytics")

    async def rows(self, query: RowsQuery) -> Rows:
        async with self._places.slot(query.hub or "*"):
            said = await self._ask(query)
        try:
            answer = msgspec.json.decode(said, type=_AnalyticsAnswer)
        except msgspec.DecodeError:
            raise Unavailable(
                "the tables cannot be read: the process that reads them failed; see the hub's log"
            ) from None
        if answer.rows is None:
            raise Unavailable(answer.error)
        return answer.rows

    async def _ask(self, query: RowsQuery) -> bytes:
        async with _running(str(self._warehouse), msgspec.json.encode(query).decode()) as process:
            try:
                said, complaints = await asyncio.wait_for(process.communicate(), TIMEOUT_SECONDS)
            except TimeoutError:
                raise Unavailable(
                    f"the table was not read within {TIMEOUT_SECONDS:.0f} s; ask for less of it"
                ) from None
        if process.returncode:
            logger.error("reading analytics failed: %s", complaints.decode("utf-8", "replace"))
        return said


@contextlib.asynccontextmanager
async def _running(*arguments: str) -> AsyncIterator[Process]:
    """The process that answers. It ends with the block, also where the asker leaves while it is
    being started."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *module_command("hubbub.pipeline.answering", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    )
    try:
        process = await asyncio.shield(starting)
        with contextlib.suppress(ProcessLookupError):
            niceness = os.getpriority(os.PRIO_PROCESS, 0) + NICENESS
            os.setpriority(os.PRIO_PROCESS, process.pid, niceness)
        yield process
    finally:
        process = await starting
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()
