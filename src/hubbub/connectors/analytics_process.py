"""Reads analytics in a short-lived process, so that the hub needs neither Arrow nor its memory."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

import msgspec

from hubbub.domain.analytics import Rows, RowsQuery
from hubbub.domain.errors import Overloaded, Unavailable
from hubbub.ports.analytics import Analytics
from hubbub.processes import module_command

logger = logging.getLogger(__name__)

AT_ONCE = 2
WAITING = 16
TIMEOUT_SECONDS = 20.0


class _Answer(msgspec.Struct):
    rows: Rows | None = None
    error: str = ""


class AnalyticsProcess(Analytics):
    """A few processes at once; those who ask meanwhile wait, and not too many of them."""

    def __init__(self, warehouse: Path) -> None:
        self._warehouse = warehouse
        self._places = asyncio.Semaphore(AT_ONCE)
        self._asking = 0

    async def rows(self, query: RowsQuery) -> Rows:
        if self._asking >= AT_ONCE + WAITING:
            raise Overloaded("too many questions about analytics at once; ask again in a moment")
        self._asking += 1
        try:
            async with self._places:
                said = await self._ask(query)
        finally:
            self._asking -= 1
        try:
            answer = msgspec.json.decode(said, type=_Answer)
        except msgspec.DecodeError:
            raise Unavailable(
                "the tables cannot be read: the process that reads them failed; see the hub's log"
            ) from None
        if answer.rows is None:
            raise Unavailable(answer.error)
        return answer.rows

    async def _ask(self, query: RowsQuery) -> bytes:
        process = await asyncio.create_subprocess_exec(
            *module_command(
                "hubbub.pipeline.answering",
                str(self._warehouse),
                msgspec.json.encode(query).decode(),
            ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            said, complaints = await asyncio.wait_for(process.communicate(), TIMEOUT_SECONDS)
        except TimeoutError:
            raise Unavailable(
                f"the table was not read within {TIMEOUT_SECONDS:.0f} s; ask for less of it"
            ) from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            logger.error("reading analytics failed: %s", complaints.decode("utf-8", "replace"))
        return said
