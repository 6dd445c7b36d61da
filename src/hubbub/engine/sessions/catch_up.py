"""Messages that a session missed: read from the channel's history, and sent in parts that fit into
the client's buffer."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

from hubbub.domain.cursors import runs_of
from hubbub.domain.envelope import has_expired
from hubbub.domain.filters.view import MessageView
from hubbub.domain.history import HistoryQuery, for_returning
from hubbub.domain.messages import Message
from hubbub.domain.notices import HistoryPage, MessageDelivery
from hubbub.domain.permissions import Identity, could_subscribe_since
from hubbub.domain.requests import SubscribeItem
from hubbub.engine.delivery.fanout import Fanout
from hubbub.engine.delivery.feed import Feed
from hubbub.engine.delivery.screening import Screening
from hubbub.engine.hub import Hub, SessionState
from hubbub.engine.sessions.plans import Missed, PlanMemory
from hubbub.ports.bus import Bus
from hubbub.ports.clock import Clock

REPLAY_PAGE = 200
REPLAY_PART_BYTES = 32 * 1024


@dataclass(slots=True, eq=False)
class CatchUp:
    """The progress of a session's replay of a channel."""

    session: SessionState
    feed: Feed
    reached: int
    """The serial up to which the replay is complete."""
    sent: int = field(init=False)
    """The last serial sent to the session, or the one after which it began."""

    def __post_init__(self) -> None:
        self.sent = self.reached


class Replayer:
    """Serves all sessions of a node."""

    def __init__(self, bus: Bus, fanout: Fanout, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self._fanout = fanout

    async def missed(
        self, hub: Hub, reader: Identity, wanted: SubscribeItem, room: PlanMemory
    ) -> Missed | None:
        """The missed messages that `reader` may see; None if none were requested."""
        if wanted.serial is None and wanted.timestamp is None:
            return None
        query = HistoryQuery(
            hub.name,
            wanted.channel,
            REPLAY_PAGE,
            after=wanted.serial,
            after_time=wanted.timestamp if wanted.serial is None else None,
            epoch=wanted.epoch or None,
        )
        async with room.reading:
            page = shown_to(hub, reader, query, await self._bus.ask(query))
            return Missed.from_page(page, room)

    async def page_after(self, feed: Feed, serial: int) -> HistoryPage | None:
        """The next page; None if messages after the serial no longer exist, which the session must
        be told."""
        query = HistoryQuery(
            feed.hub.name, feed.channel, REPLAY_PAGE, after=serial, epoch=feed.epoch
        )
        page = await self._bus.ask(query)
        return page if page.recovered and page.messages else None

    async def send(self, replay: CatchUp, page: HistoryPage) -> None:
        """Sends the messages of the page that the feed has passed and the session's filters accept,
        as far as the client's buffer has room beside live messages. History may be ahead of the
        feed, which delivers the rest. Raises `NotPermitted` if the session has lost access. Nothing
        is awaited after the filters were evaluated."""
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

    async def _refused(self, replay: CatchUp, page: HistoryPage) -> Container[int]:
        """The serials of messages that the session's filters reject."""
        screen = replay.session.screen(replay.feed.channel)
        if screen is None:
            return ()
        now, slices = int(self._clock.now() * 1000), replay.session.hub.slices
        passed = await Screening(screen, now, slices).passing(page.messages)
        return {message.serial for message in page.messages} - {each.serial for each in passed}

    def send_retained(self, session: SessionState, feed: Feed, retained: Message) -> None:
        """Sends the retained message unless it expired or the session's filters reject it."""
        kept, _ = self._split([retained])
        screen = session.screen(feed.channel)
        view = MessageView(retained, int(self._clock.now() * 1000))
        if kept and (screen is None or screen.passes(view)):
            session.send(MessageDelivery(retained, retained=True))
            self._journal_replay(session, feed, kept, [])

    def _split(self, messages: list[Message]) -> tuple[list[Message], list[Message]]:
        """The messages that may be delivered now, and the expired ones."""
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


def shown_to(hub: Hub, reader: Identity, query: HistoryQuery, page: HistoryPage) -> HistoryPage:
    """The owner's answer as far as it is meant for a reader who may subscribe."""
    rules = hub.rules_for(query.channel)
    if not rules.only_for_returning:
        return page
    since = could_subscribe_since(reader, query.channel, rules, hub.user_channels)
    return for_returning(page, query.after, query.epoch, since)


def _parts(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Parts of about equal size, with at least one message each."""
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
