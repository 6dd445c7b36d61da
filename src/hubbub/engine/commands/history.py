"""Commands that read stored messages. The filters of the asking session apply."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from hubbub.domain.commands.attributes import is_number, read_required_text, read_text
from hubbub.domain.commands.mapping import from_message
from hubbub.domain.commands.objects import (
    MAX_MSG_RETRIEVAL,
    HChannel,
    number_of,
    write_message,
)
from hubbub.domain.commands.status import CommandRefused, not_available
from hubbub.domain.filters.filters import NO_FILTERS, Filters
from hubbub.domain.filters.view import MessageView
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import Message
from hubbub.domain.threads import MAX_PAGE, Thread, ThreadsQuery
from hubbub.engine.commands.asking import Asker
from hubbub.engine.commands.parameters import channel_in, page_in, required_object, valid_object
from hubbub.engine.commands.records import ChannelRecords
from hubbub.engine.hub import Hub
from hubbub.ports.bus import Bus
from hubbub.ports.clock import Clock

DEFAULT_LAST: Final = 10
MAX_LAST: Final = 1000
ANSWER_BYTES: Final = 4 * 1024 * 1024
"""Payloads in one answer; further messages are left out."""
SCANNED: Final = 100_000
"""Of the newest messages of a channel that one command looks at."""
_PAGE: Final = 200


class HistoryCommands:
    def __init__(self, bus: Bus, clock: Clock, records: ChannelRecords) -> None:
        self._bus = bus
        self._clock = clock
        self._records = records

    async def last_messages(self, asker: Asker, params: Any) -> Any:
        """The newest N that pass the filters, the newest `published` first."""
        given = required_object(params)
        channel = channel_in(asker, given)
        self._records.check(asker, channel)
        await asker.hub.consent(asker.identity, channel)
        wanted = _wanted(given, await self._records.read(asker.hub, channel))
        answer = _Answer(self._now(), filters_of(asker), wanted)
        async for message in self.backwards(asker.hub, channel):
            if answer.full:
                break
            answer.offer(message)
        found = sorted(answer.messages, key=lambda each: -(from_message(each).published or 0))
        return await self._written(asker.hub, found)

    async def relevant_messages(self, asker: Asker, params: Any) -> Any:
        """Those whose relevance is not over, the newest first."""
        given = valid_object(params)
        channel = channel_in(asker, given)
        self._records.check(asker, channel)
        await asker.hub.consent(asker.identity, channel)
        limit, after = page_in(given)
        now = self._now()
        answer = _Answer(now, filters_of(asker), limit)
        skipping = after is not None
        async for message in self.backwards(asker.hub, channel):
            if answer.full:
                break
            until = message.attributes.relevant_until if message.attributes else None
            if not skipping and until is not None and until >= now:
                answer.offer(message)
            skipping = skipping and message.id != after
        return await self._written(asker.hub, answer.messages)

    async def thread(self, asker: Asker, params: Any) -> Any:
        """The messages of one conversation, the oldest first, if its first one passes."""
        given = valid_object(params)
        channel = channel_in(asker, given)
        convid = read_required_text(given, "convid")
        self._records.check(asker, channel)
        await asker.hub.consent(asker.identity, channel)
        limit, after = page_in(given)
        filters, answer = filters_of(asker), _Answer(self._now(), NO_FILTERS, limit)
        skipping, first = after is not None, True
        async for message in self._conversation(asker.hub, channel, convid):
            if first and not filters.passes(MessageView(message, self._now())):
                return []
            first = False
            if not skipping and not answer.offer(message):
                break
            skipping = skipping and message.id != after
        if skipping:
            raise _nowhere(after)
        return await self._written(asker.hub, answer.messages)

    async def threads(self, asker: Asker, params: Any) -> Any:
        """Conversations in the order of their first messages, which the filters test."""
        given = valid_object(params)
        channel = channel_in(asker, given)
        status = read_text(given, "status")
        self._records.check(asker, channel)
        await asker.hub.consent(asker.identity, channel)
        limit, after = page_in(given)
        start = 0 if after is None else await self._first_serial(asker.hub, channel, after)
        filters, now = filters_of(asker), self._now()
        found: list[str] = []
        async for thread in self._threads(asker.hub, channel, start, status):
            if filters.passes(MessageView(thread.first, now)):
                found.append(thread.conversation_id)
            if len(found) == limit:
                break
        return found

    # -- pages ----------------------------------------------------------------------------------

    async def backwards(self, hub: Hub, channel: str) -> AsyncIterator[Message]:
        """The newest messages, the newest first."""
        before: int | None = None
        for _ in range(0, SCANNED, _PAGE):
            page = await self._bus.history(HistoryQuery(hub.name, channel, _PAGE, before=before))
            for message in reversed(page.messages):
                yield message
            if not page.more or not page.messages:
                return
            before = page.messages[0].serial

    async def _conversation(self, hub: Hub, channel: str, convid: str) -> AsyncIterator[Message]:
        after = 0
        while True:
            query = HistoryQuery(hub.name, channel, _PAGE, after=after, conversation=convid)
            page = await self._bus.history(query)
            for message in page.messages:
                yield message
            if not page.more or not page.messages:
                return
            after = page.messages[-1].serial

    async def _first_serial(self, hub: Hub, channel: str, convid: str) -> int:
        async for message in self._conversation(hub, channel, convid):
            return message.serial
        raise _nowhere(convid)

    async def _threads(
        self, hub: Hub, channel: str, after: int, status: str | None
    ) -> AsyncIterator[Thread]:
        for _ in range(0, SCANNED, MAX_PAGE):
            query = ThreadsQuery(hub.name, channel, MAX_PAGE, after, status)
            page = await self._bus.threads(query)
            for thread in page.threads:
                yield thread
            if not page.more or not page.threads:
                return
            after = page.threads[-1].first.serial

    async def _written(self, hub: Hub, messages: list[Message]) -> list[dict[str, Any]]:
        await hub.take_turn(sum(len(message.payload) for message in messages))
        return [write_message(from_message(message)) for message in messages]

    def _now(self) -> int:
        return int(self._clock.now() * 1000)


class _Answer:
    """The messages that pass, as many as were asked for and fit."""

    def __init__(self, now: int, filters: Filters, limit: int) -> None:
        self._now = now
        self._filters = filters
        self._limit = limit
        self._room = ANSWER_BYTES
        self.messages: list[Message] = []

    @property
    def full(self) -> bool:
        return len(self.messages) >= self._limit or self._room <= 0

    def offer(self, message: Message) -> bool:
        """Whether there is room for another one."""
        if not self.full and self._filters.passes(MessageView(message, self._now)):
            self.messages.append(message)
            self._room -= len(message.payload)
        return not self.full


def filters_of(asker: Asker) -> Filters:
    """Those of the session; over HTTP there are none."""
    return NO_FILTERS if asker.session is None else asker.session.filters


def _nowhere(after: object) -> CommandRefused:
    """A page behind what retention or an erasure took away is neither the first nor the last."""
    return not_available(f"after is {after!r}, which is not stored any more; begin without it")


def _wanted(params: dict[str, Any], record: HChannel | None) -> int:
    given: Any = params.get("nbLastMsg")
    if given is None:
        given = number_of(((record and record.headers) or {}).get(MAX_MSG_RETRIEVAL))
    if not is_number(given) or given < 1:
        return DEFAULT_LAST
    return int(min(given, MAX_LAST))
