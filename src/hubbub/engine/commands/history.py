"""Commands that read stored messages. The filters of the sender's session apply."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from hubbub.domain.commands.attributes import read_required_text, read_text
from hubbub.domain.commands.mapping import from_message, published_of
from hubbub.domain.commands.objects import (
    MAX_MSG_RETRIEVAL,
    HChannel,
    number_of,
    write_message,
)
from hubbub.domain.commands.status import CommandRefused, not_available
from hubbub.domain.filters.filters import NO_FILTERS, Filters
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import Message
from hubbub.domain.threads import MAX_PAGE, Thread, ThreadsQuery
from hubbub.engine.commands.asking import Asker
from hubbub.engine.commands.parameters import channel_in, page_in, required_object, valid_object
from hubbub.engine.commands.records import ChannelRecords
from hubbub.engine.delivery.screening import Screening
from hubbub.engine.hub import Hub
from hubbub.engine.large_work import TURN_BYTES
from hubbub.ports.bus import Bus
from hubbub.ports.clock import Clock

DEFAULT_LAST: Final = 10
MAX_LAST: Final = 1000
ANSWER_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of the payloads in one result; further messages are left out."""
SCANNED: Final = 100_000
"""Maximum number of messages that one command reads, from the newest on."""
_PAGE: Final = 200
_MESSAGE_BYTES: Final = 500
"""Cost of encoding a message besides its payload, in bytes."""


class HistoryCommands:
    def __init__(self, bus: Bus, clock: Clock, records: ChannelRecords) -> None:
        self._bus = bus
        self._clock = clock
        self._records = records

    async def last_messages(self, asker: Asker, params: Any) -> Any:
        """The N messages with the newest `published` that pass the filters, the newest first.
        Clients may give `published`: it decides among the messages that are read to find N, which
        are at least `_PAGE`."""
        given = required_object(params)
        channel = channel_in(asker, given)
        self._records.check(asker, channel)
        await asker.hub.consent(asker.identity, channel)
        wanted = _wanted(given, await self._records.read(asker.hub, channel))
        answer = _HistoryAnswer(self._screening(asker, channel), max(wanted, _PAGE))
        read = 0
        async for message in self.backwards(asker.hub, channel):
            if answer.full or (read >= _PAGE and len(answer.messages) >= wanted):
                break
            await answer.offer(message)
            read += 1
        found = sorted(answer.messages, key=published_of, reverse=True)
        return await self._written(asker.hub, found[:wanted])

    async def relevant_messages(self, asker: Asker, params: Any) -> Any:
        """Messages that are still relevant, the newest first."""
        given = valid_object(params)
        channel = channel_in(asker, given)
        self._records.check(asker, channel)
        await asker.hub.consent(asker.identity, channel)
        limit, after = page_in(given)
        now = self._now()
        answer = _HistoryAnswer(self._screening(asker, channel), limit)
        skipping = after is not None
        async for message in self.backwards(asker.hub, channel):
            if answer.full:
                break
            until = message.attributes.relevant_until if message.attributes else None
            if not skipping and until is not None and until >= now:
                await answer.offer(message)
            skipping = skipping and message.id != after
        return await self._written(asker.hub, answer.messages)

    async def thread(self, asker: Asker, params: Any) -> Any:
        """The messages of one conversation, the oldest first, if the first one passes the
        filters."""
        given = valid_object(params)
        channel = channel_in(asker, given)
        convid = read_required_text(given, "convid")
        self._records.check(asker, channel)
        await asker.hub.consent(asker.identity, channel)
        limit, after = page_in(given)
        screening = self._screening(asker, channel)
        answer = _HistoryAnswer(Screening(None, self._now(), asker.hub.slices), limit)
        skipping, first = after is not None, True
        async for message in self._conversation(asker.hub, channel, convid):
            if first and not await screening.passes(message):
                return []
            first = False
            if not skipping and not await answer.offer(message):
                break
            skipping = skipping and message.id != after
        if skipping:
            raise _nowhere(after)
        return await self._written(asker.hub, answer.messages)

    async def threads(self, asker: Asker, params: Any) -> Any:
        """Conversations ordered by their first messages, to which the filters apply."""
        given = valid_object(params)
        channel = channel_in(asker, given)
        status = read_text(given, "status")
        self._records.check(asker, channel)
        await asker.hub.consent(asker.identity, channel)
        limit, after = page_in(given)
        start = 0 if after is None else await self._first_serial(asker.hub, channel, after)
        screening = self._screening(asker, channel)
        found: list[str] = []
        async for thread in self._threads(asker.hub, channel, start, status):
            if await screening.passes(thread.first):
                found.append(thread.conversation_id)
            if len(found) == limit:
                break
        return found

    # -- pages ----------------------------------------------------------------------------------

    async def backwards(self, hub: Hub, channel: str) -> AsyncIterator[Message]:
        """Pages of messages from the newest on."""
        if hub.rules_for(channel).only_for_returning:
            return
        before: int | None = None
        for _ in range(0, SCANNED, _PAGE):
            page = await self._bus.ask(HistoryQuery(hub.name, channel, _PAGE, before=before))
            for message in reversed(page.messages):
                yield message
            if not page.more or not page.messages:
                return
            before = page.messages[0].serial

    async def _conversation(self, hub: Hub, channel: str, convid: str) -> AsyncIterator[Message]:
        after = 0
        while True:
            query = HistoryQuery(hub.name, channel, _PAGE, after=after, conversation=convid)
            page = await self._bus.ask(query)
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
            page = await self._bus.ask(query)
            for thread in page.threads:
                yield thread
            if not page.more or not page.threads:
                return
            after = page.threads[-1].first.serial

    async def _written(self, hub: Hub, messages: list[Message]) -> list[dict[str, Any]]:
        """Encodes the messages, in slices if they are many or large."""
        written: list[dict[str, Any]] = []
        left = TURN_BYTES
        for message in messages:
            if left <= 0:
                await hub.slices.next()
                left = TURN_BYTES
            left -= _MESSAGE_BYTES + len(message.payload)
            written.append(write_message(from_message(message)))
        return written

    def _screening(self, asker: Asker, channel: str) -> Screening:
        """The filters of the sender's session."""
        screen = filters_of(asker).for_channel(channel)
        return Screening(screen, self._now(), asker.hub.slices)

    def _now(self) -> int:
        return int(self._clock.now() * 1000)


class _HistoryAnswer:
    """Collects messages that pass, up to the requested number and the size limit."""

    def __init__(self, screening: Screening, limit: int) -> None:
        self._screening = screening
        self._limit = limit
        self._room = ANSWER_BYTES
        self.messages: list[Message] = []

    @property
    def full(self) -> bool:
        return len(self.messages) >= self._limit or self._room <= 0

    async def offer(self, message: Message) -> bool:
        """Returns whether there is room for another message."""
        if not self.full and await self._screening.passes(message):
            self.messages.append(message)
            self._room -= len(message.payload)
        return not self.full


def filters_of(asker: Asker) -> Filters:
    """The filters of the session; none over HTTP."""
    return NO_FILTERS if asker.session is None else asker.session.filters


def _nowhere(after: object) -> CommandRefused:
    """Whether a page lies beyond messages that retention or an erasure deleted."""
    return not_available(f"after is {after!r}, which is not stored any more; begin without it")


def _wanted(params: dict[str, Any], record: HChannel | None) -> int:
    given: Any = params.get("nbLastMsg")
    if given is None:
        given = ((record and record.headers) or {}).get(MAX_MSG_RETRIEVAL)
    number = number_of(given)
    return DEFAULT_LAST if number is None or number < 1 else int(min(number, MAX_LAST))
