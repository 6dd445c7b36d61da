"""What a session missed: read from its channel's history, and sent in parts that it can take."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

from hubbub.domain.cursors import runs_of
from hubbub.domain.documents.changes import CATCH_UP_BYTES, DocumentQuery, DocumentUpdate
from hubbub.domain.envelope import has_expired
from hubbub.domain.filters.view import MessageView
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import Message
from hubbub.domain.names import is_document
from hubbub.domain.notices import Delivery, HistoryPage
from hubbub.domain.requests import ChannelRequest
from hubbub.engine.delivery.fanout import Fanout
from hubbub.engine.delivery.feed import Feed
from hubbub.engine.delivery.screening import screened
from hubbub.engine.hub import SessionState
from hubbub.engine.sessions.plans import Missed, Room
from hubbub.ports.bus import Bus
from hubbub.ports.clock import Clock

REPLAY_PAGE = 200
REPLAY_PART_BYTES = 32 * 1024


@dataclass(slots=True, eq=False)
class Replay:
    """How far a session has caught up with a channel."""

    session: SessionState
    feed: Feed
    reached: int
    """The serial up to which nothing is left to send."""
    sent: int = field(init=False)
    """The last serial that the session was sent, or after which it began."""

    def __post_init__(self) -> None:
        self.sent = self.reached


class Replayer:
    """Serves all sessions of a node."""

    def __init__(self, bus: Bus, fanout: Fanout, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self._fanout = fanout

    async def missed(self, hub: str, wanted: ChannelRequest, room: Room) -> Missed | None:
        """None where nothing was asked for."""
        if wanted.serial is None and wanted.timestamp is None:
            return None
        query = HistoryQuery(
            hub,
            wanted.channel,
            REPLAY_PAGE,
            after=wanted.serial,
            after_time=wanted.timestamp if wanted.serial is None else None,
            epoch=wanted.epoch or None,
        )
        async with room.reading:
            return Missed.from_page(await self._bus.history(query), room)

    async def missed_updates(
        self, hub: str, wanted: ChannelRequest, room: Room
    ) -> tuple[DocumentUpdate, ...]:
        """What changed in the channel's document since the version that the session has; nothing
        where it did not say, where the document itself is shorter, or where there is no room: the
        session reads the document then."""
        if wanted.document_version is None or not is_document(wanted.channel):
            return ()
        async with room.reading:
            updates = await self._updates(hub, wanted, wanted.document_version)
            return updates if room.take(sum(len(update.ops) for update in updates)) else ()

    async def _updates(
        self, hub: str, wanted: ChannelRequest, since: int
    ) -> tuple[DocumentUpdate, ...]:
        found, more = list[DocumentUpdate](), True
        while more:
            query = DocumentQuery(
                hub,
                wanted.channel,
                since=since,
                epoch=wanted.document_epoch or None,
                least_bytes=CATCH_UP_BYTES,
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

    async def send(self, replay: Replay, page: HistoryPage) -> None:
        """Send of the page what the feed has passed already and the session's filters let through,
        as far as the client's buffer has room beside live messages. History can be ahead of the
        feed, which brings the rest by itself. Raises `NotPermitted` where the session has lost
        access. Nothing waits after the filters were evaluated."""
        feed, connection = replay.feed, replay.session.connection
        refused = await self._refused(replay, page)
        if page.epoch != feed.epoch:
            return
        position = feed.position
        missed = [message for message in page.messages if message.serial <= position]
        for part in _parts(missed):
            if connection.full:
                return
            feed.admit(replay.session)
            kept, expired = self._split(part)
            if refused:
                kept = [message for message in kept if message.serial not in refused]
            units = []
            for message in kept:
                previous = None if message.serial == replay.sent + 1 else replay.sent
                units.append(connection.encoder.encode_message(message, page.epoch, previous))
                replay.sent = message.serial
            replay.reached = part[-1].serial
            if units:
                connection.send(connection.encoder.pack(units))
            self._journal_replay(replay.session, feed, kept, expired)
        if not page.messages:
            replay.reached = page.head
        elif len(missed) < len(page.messages):
            replay.reached = position

    async def _refused(self, replay: Replay, page: HistoryPage) -> Container[int]:
        """The serials of what does not pass the session's filters."""
        screen = replay.session.screen(replay.feed.channel)
        if screen is None:
            return ()
        passed = await screened(screen, page.messages, int(self._clock.now() * 1000))
        return {message.serial for message in page.messages} - {each.serial for each in passed}

    def send_retained(self, session: SessionState, feed: Feed, retained: Message) -> None:
        """Unless its time to live is over by now, or the session's filters leave it out."""
        kept, _ = self._split([retained])
        screen = session.screen(feed.channel)
        view = MessageView(retained, int(self._clock.now() * 1000))
        if kept and (screen is None or screen.passes(view)):
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
