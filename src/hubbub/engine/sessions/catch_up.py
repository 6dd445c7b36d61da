"""What a session missed: read from its channel's history, and sent in parts that it can take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hubbub.domain.cursors import runs_of
from hubbub.domain.documents.changes import DocumentQuery, DocumentUpdate
from hubbub.domain.envelope import has_expired
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import Message
from hubbub.domain.names import is_document
from hubbub.domain.notices import Delivery, HistoryPage
from hubbub.domain.requests import ChannelRequest
from hubbub.engine.delivery.fanout import Fanout
from hubbub.engine.delivery.feed import Feed
from hubbub.engine.hub import SessionState
from hubbub.ports.bus import Bus
from hubbub.ports.clock import Clock

REPLAY_PAGE = 200
REPLAY_PART_BYTES = 32 * 1024


class Replayer:
    """Serves all sessions of a node."""

    def __init__(self, bus: Bus, fanout: Fanout, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self._fanout = fanout

    async def missed(self, hub: str, wanted: ChannelRequest) -> HistoryPage | None:
        """The first part of it; None where nothing was asked for."""
        if wanted.serial is None and wanted.timestamp is None:
            return None
        return await self._bus.history(
            HistoryQuery(
                hub,
                wanted.channel,
                REPLAY_PAGE,
                after=wanted.serial,
                after_time=wanted.timestamp if wanted.serial is None else None,
                epoch=wanted.epoch or None,
            )
        )

    async def missed_updates(self, hub: str, wanted: ChannelRequest) -> tuple[DocumentUpdate, ...]:
        """What changed in the channel's document since the version that the session has; nothing
        where it did not say, or where the document itself is shorter."""
        since, found = wanted.document_version, list[DocumentUpdate]()
        if since is None or not is_document(wanted.channel):
            return ()
        more = True
        while more:
            query = DocumentQuery(
                hub, wanted.channel, since=since, epoch=wanted.document_epoch or None
            )
            answer = await self._bus.document(query)
            found += answer.updates
            more = answer.more and bool(answer.updates)
            since = found[-1].version if found else since
        return tuple(found)

    async def page_after(self, feed: Feed, serial: int) -> HistoryPage | None:
        """None where what follows is gone: the session must hear of a gap."""
        query = HistoryQuery(
            feed.hub.name, feed.channel, REPLAY_PAGE, after=serial, epoch=feed.epoch
        )
        page = await self._bus.history(query)
        return page if page.recovered and page.messages else None

    async def send_missed(self, session: SessionState, feed: Feed, page: HistoryPage) -> int:
        """Send what the feed has passed already; answers the serial up to which that is. History
        can be ahead of the feed, which brings the rest by itself.

        Goes out in parts, each when the client has read most of those before: a page can be many
        times the client's buffer, and live messages of its other channels come in between."""
        position, epoch = feed.position, page.epoch
        connection = session.connection
        missed = [message for message in page.messages if message.serial <= position]
        before = missed[0].serial - 1 if missed else 0
        for part in _parts(missed):
            await connection.drain()
            feed.admit(session)  # a session that lost access while it waited gets no more
            kept, expired = self._split(part)
            units = []
            for message in kept:
                previous = None if message.serial == before + 1 else before
                units.append(connection.encoder.encode_message(message, epoch, previous))
                before = message.serial
            if units:
                connection.send(connection.encoder.pack(units))
            self._journal_replay(session, feed, kept, expired)
        await connection.drain()
        if len(missed) < len(page.messages):
            return position
        return missed[-1].serial if missed else page.head

    def send_retained(self, session: SessionState, feed: Feed, retained: Message) -> None:
        """Unless its time to live is over by now."""
        kept, _ = self._split([retained])
        if kept:
            session.send(Delivery(retained, retained=True))
            self._journal_replay(session, feed, kept, [])

    def _split(self, messages: list[Message]) -> tuple[list[Message], list[Message]]:
        """Those that may be delivered now, and those whose time to live is over."""
        now = int(self._clock.now() * 1000)
        expired = [message for message in messages if has_expired(message, now)]
        if not expired:
            return messages, expired
        return [message for message in messages if not has_expired(message, now)], expired

    def _journal_replay(
        self, session: SessionState, feed: Feed, sent: list[Message], expired: list[Message]
    ) -> None:
        feed.hub.counters.messages_expired += len(expired)
        deliveries = self._fanout.deliveries
        if deliveries is None or feed.hub.rules_for(feed.channel).journal == "off":
            return
        place = feed.hub.name, feed.channel, session.connection.technology, feed.epoch
        if sent:
            deliveries.replayed(*place, sent)
        for start, end in runs_of([message.serial for message in expired]):
            deliveries.expired(*place, [m for m in expired if start <= m.serial <= end])


def _parts(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Pieces of about the same size, of at least one message each."""
    part: list[Message] = []
    size = 0
    for message in messages:
        part.append(message)
        size += len(message.payload)
        if size >= REPLAY_PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
