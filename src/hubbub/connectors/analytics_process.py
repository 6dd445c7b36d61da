"""Reads analytics in a short-lived process, so that the hub needs neither Arrow nor its memory."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import DEVNULL, Popen

import msgspec

from hubbub.domain.analytics import Rows, RowsQuery
from hubbub.domain.errors import Unavailable
from hubbub.fair_slots import FairPlaces
from hubbub.ports.analytics import Analytics
from hubbub.processes import ChildProcess, module_command

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
        asked = msgspec.json.encode(query).decode()
        async with _running(str(self._warehouse), asked) as process:
            try:
                await asyncio.wait_for(process.gone(), TIMEOUT_SECONDS)
            except TimeoutError:
                raise Unavailable(
                    f"the table was not read within {TIMEOUT_SECONDS:.0f} s; ask for less of it"
                ) from None
        complaints, _, answer = process.said.strip().rpartition(b"\n")
        if process.exit_status:
            logger.error(
                "reading analytics failed: %s", (complaints + answer).decode("utf-8", "replace")
            )
        return bytes(answer)


class _AnswerProcess(ChildProcess):
    """The process of one query. It writes lines for the log, and then its answer as the last
    line."""

    def __init__(self) -> None:
        super().__init__()
        self.said = bytearray()

    def data_received(self, data: bytes) -> None:
        self.said += data

    @property
    def exit_status(self) -> int | None:
        """None until `gone` returned."""
        return self._process.returncode

    def kill(self) -> None:
        """Does nothing to a process that has ended."""
        self._process.kill()


@contextlib.asynccontextmanager
async def _running(*arguments: str) -> AsyncIterator[_AnswerProcess]:
    """The process that answers. It ends with the block."""

    def make(output: socket.socket) -> Popen[bytes]:
        command = module_command("hubbub.pipeline.answering", *arguments)
        return Popen(command, stdin=DEVNULL, stdout=output.fileno(), stderr=output.fileno())  # noqa: S603

    process = _AnswerProcess()
    await process.spawn(make)
    try:
        with contextlib.suppress(ProcessLookupError):
            niceness = os.getpriority(os.PRIO_PROCESS, 0) + NICENESS
            os.setpriority(os.PRIO_PROCESS, process.pid, niceness)
        yield process
    finally:
        process.kill()
        await process.gone()
