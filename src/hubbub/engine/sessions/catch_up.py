"""What a session missed: read from its channel's history, and sent in parts that it can take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import Message
from hubbub.domain.notices import Delivery, HistoryPage
from hubbub.domain.requests import ChannelRequest
from hubbub.engine.delivery.fanout import Fanout
from hubbub.engine.delivery.feed import Feed
from hubbub.engine.sessions.session import Session
from hubbub.ports.bus import Bus

REPLAY_PAGE = 200
REPLAY_PART_BYTES = 32 * 1024


class Replayer:
    """Serves all sessions of a node."""

    def __init__(self, bus: Bus, fanout: Fanout) -> None:
        self._bus = bus
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

    async def page_after(self, feed: Feed, serial: int) -> HistoryPage | None:
        """None where what follows is gone: the session must hear of a gap."""
        query = HistoryQuery(
            feed.hub.name, feed.channel, REPLAY_PAGE, after=serial, epoch=feed.epoch
        )
        page = await self._bus.history(query)
        return page if page.recovered and page.messages else None

    async def send_missed(self, session: Session, feed: Feed, page: HistoryPage) -> int:
        """Send what the feed has passed already; answers the serial up to which that is. History
        can be ahead of the feed, which brings the rest by itself.

        Goes out in parts, each when the client has read most of those before: a page can be many
        times the client's buffer, and live messages of its other channels come in between."""
        position, epoch = feed.position, page.epoch
        connection = session.connection
        missed = [message for message in page.messages if message.serial <= position]
        for part in _parts(missed):
            await connection.drain()
            units = [connection.encoder.encode_message(message, epoch) for message in part]
            connection.send(connection.encoder.pack(units))
            self._journal_replay(session, feed, part)
        await connection.drain()
        if len(missed) < len(page.messages):
            return position
        return missed[-1].serial if missed else page.head

    def send_retained(self, session: Session, feed: Feed, retained: Message) -> None:
        session.send(Delivery(retained, retained=True))
        self._journal_replay(session, feed, [retained])

    def _journal_replay(self, session: Session, feed: Feed, messages: list[Message]) -> None:
        deliveries = self._fanout.deliveries
        if deliveries is not None and feed.hub.rules_for(feed.channel).journal != "off":
            technology = session.connection.technology
            deliveries.replayed(feed.hub.name, feed.channel, technology, feed.epoch, messages)


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
