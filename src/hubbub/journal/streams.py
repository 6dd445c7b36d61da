"""Streams in the journal: clients' events, acknowledged when they are on disk.

The journal serves as the embedded hub's stream because both are the same: an append-only log that
the pipeline reads. A stored channel would also be delivered, retained and reclaimed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from hubbub.domain.errors import StreamUnavailable
from hubbub.domain.journal import STREAM_EVENT, JournalEvent
from hubbub.domain.services import StreamEvent

Write = Callable[[Sequence[JournalEvent]], Awaitable[bool]]


class JournalStreams:
    """Implements `ports.services.StreamSink`. Events that arrive during a sync share the next
    one."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._gathered: list[JournalEvent] = []
        self._synced: asyncio.Future[bool] | None = None
        self._task: asyncio.Task[None] | None = None

    async def submit(self, event: StreamEvent) -> None:
        self._gathered.append(_journal_event(event))
        if self._synced is None:
            self._synced = asyncio.get_running_loop().create_future()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        if not await asyncio.shield(self._synced):
            raise StreamUnavailable("the journal cannot be written right now; try again later")

    async def _run(self) -> None:
        try:
            while self._synced is not None:
                events, self._gathered = self._gathered, []
                synced, self._synced = self._synced, None
                synced.set_result(await self._write(events))
        finally:
            self._task = None


def _journal_event(event: StreamEvent) -> JournalEvent:
    return JournalEvent(
        STREAM_EVENT,
        event.submitted_at * 1000,
        event.hub,
        channel=event.channel,
        session=event.session_id,
        user=event.user_id,
        technology=event.technology,
        message_id=event.id,
        event=event.event,
        content_type=event.content_type,
        size=len(event.payload),
        payload=event.payload,
        published_at=event.submitted_at * 1000,
    )
