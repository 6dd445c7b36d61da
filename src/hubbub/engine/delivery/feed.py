"""A feed: one channel as this node follows it for its subscribers.

Events from the owner may be lost, duplicated or late. The feed delivers every message once and in
order: it knows the next serial, drops duplicates, and fetches missed messages. If they no longer
exist, it tells the subscribers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from hubbub.domain.asking import FeedEvent
from hubbub.domain.errors import HubbubError
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import Message
from hubbub.domain.names import kind_of, partition_of
from hubbub.domain.notices import Joined, Left, Occupancy, Presence
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.delivery.audience import Audience, AudienceHub
from hubbub.engine.delivery.fanout import Fanout
from hubbub.engine.delivery.feed_part import RoomFeeds
from hubbub.ports.bus import (
    Attach,
    Attachment,
    Bus,
    ChannelClosed,
    ChannelMatched,
    FollowedState,
    HeadAnnounced,
    MembersJoined,
    MembersLeft,
    MembersPresent,
    MessagePublished,
    OccupancyChanged,
)
from hubbub.ports.clock import Clock

CATCH_UP_PAGE = 500


class FeedHub(AudienceHub, Protocol):
    """The part of a hub that a feed uses."""

    def feed_began(self, feed: Feed, attachment: Attachment | None) -> None:
        """The feed is live: sessions whose pattern matches join it."""

    def feed_closed(self, feed: Feed) -> None:
        """The channel was closed: sessions that follow it by a pattern leave it."""


class _UnconfirmedRange(NamedTuple):
    """The range of serials seen in an epoch other than the feed's."""

    start: int
    """The first serial seen; messages after it must be delivered."""
    head: int

    def and_then(self, start: int, head: int) -> _UnconfirmedRange:
        return _UnconfirmedRange(min(self.start, start), max(self.head, head))


class Feed(Audience):
    """A channel's audience, and the state of following the channel's owner."""

    __slots__ = (
        "_attaching",
        "_bus",
        "_catching_up",
        "_caught_up",
        "_early",
        "_notices",
        "_seen_head",
        "_unconfirmed",
        "_watchers",
        "attached",
        "direct",
        "occupancy",
        "part",
        "partition",
        "users",
    )

    hub: FeedHub

    def __init__(
        self,
        hub: FeedHub,
        channel: str,
        bus: Bus,
        fanout: Fanout,
        clock: Clock,
        access: AccessRegistry,
        rooms: RoomFeeds,
    ) -> None:
        super().__init__(hub, channel, fanout, clock, access)
        self._bus = bus
        self.partition = partition_of(hub.name, channel)
        self.occupancy: int | None = None
        self.attached = False
        self.direct = False
        """The owner knows that a session on this node follows the channel by name."""
        self.users = 0
        """The number of subscriptions in preparation; the feed stays while there are any."""
        self._attaching: dict[bool, asyncio.Task[Attachment]] = {}
        """Requests to the owner in progress, keyed by whether they are for patterns only."""
        self._catching_up: asyncio.Task[None] | None = None
        self._caught_up: asyncio.Event | None = None
        self._seen_head = 0
        self._watchers: list[list[FeedEvent]] = []
        """Callers that ask the owner for its state, with the events that arrived during the
        request."""
        self._unconfirmed: dict[str, _UnconfirmedRange] = {}
        """Ranges by epoch; each epoch may be the channel's new one, or a former one."""
        self._notices = rooms.notices
        make_part = rooms.parts.get(kind_of(channel))
        self.part = make_part(self, bus) if make_part is not None else None
        """The state that a room adds to channels of this kind."""
        self._early: tuple[str, int] | None = None
        """The last position received while the owner's response was on its way."""

    # -- following the owner --------------------------------------------------------------------

    async def attach(self, by_pattern: bool = False, missed: bool = False) -> None:
        """Starts to follow the channel; concurrent callers share one request. `missed`: messages
        published since the owner opened the channel should have been received here."""
        if self.attached and (self.direct or by_pattern):
            return
        attaching = self._attaching.get(by_pattern)
        if attaching is None:
            attaching = asyncio.get_running_loop().create_task(self.ask_owner(by_pattern))
            self._attaching[by_pattern] = attaching
        try:
            attachment = await asyncio.shield(attaching)
        finally:
            if self._attaching.get(by_pattern) is attaching and attaching.done():
                del self._attaching[by_pattern]
        if not self.attached:
            self.begin(attachment, min(attachment.opened, attachment.head) if missed else None)
        elif not (self.direct or by_pattern):
            self.renewed(attachment)
        self.direct = self.direct or not by_pattern

    async def ask_owner(self, by_pattern: bool) -> Attachment:
        """Tells the owner that this node follows the channel, by name or by a pattern."""
        if not by_pattern:
            return await self._bus.ask(Attach(self.hub.name, self.channel))
        following = FollowedState(self.hub.name, self.channel, (), 0, by_pattern=True)
        (answer,) = await self._bus.follow([following])
        if isinstance(answer, HubbubError):
            raise answer
        return answer

    def begin(self, attachment: Attachment, position: int | None = None) -> None:
        """Follows the channel from the position in the owner's response, or from an earlier one."""
        self.attached = True
        self.epoch = attachment.epoch
        self.position = attachment.head
        if self._early is not None and self._early[0] == self.epoch:
            self.position = max(self.position, self._early[1])
        if self.part is not None:
            self.part.begin(attachment)
        if position is not None:
            self.position = position
        self.hub.feed_began(self, attachment)
        self._compare(self.epoch, attachment.head)

    @property
    def hub_name(self) -> str:
        return self.hub.name

    @property
    def has_users(self) -> bool:
        return bool(self.users)

    @property
    def is_used(self) -> bool:
        return bool(self.subscribers or self.users)

    @property
    def holds_messages(self) -> bool:
        """Whether there are messages to catch up with."""
        return self.part is None or not self.part.replaces_messages

    def is_at_beginning(self) -> bool:
        """Whether the channel stores messages and the feed is before the first one: a channel gets
        its epoch with that message, so another epoch means no loss."""
        return not self.position and self.hub.rules_for(self.channel).store

    def renewed(self, attachment: Attachment) -> None:
        """The channel's owner (perhaps a new one) confirmed that this node follows it."""
        if not self.attached:
            return
        if self.part is not None:
            self.part.renewed(attachment)
        if not self.holds_messages:
            self.epoch = attachment.epoch
        elif attachment.epoch == self.epoch:
            self._compare(attachment.epoch, attachment.head)
        elif attachment.head or self._catching_up:
            # It began after this node lost the old owner.
            self._compare(attachment.epoch, attachment.head, start=0)
        else:
            # Nothing of the new epoch can be missed.
            self.reset(attachment.epoch, 0, recovered=self.is_at_beginning())

    def receive(self, event: FeedEvent) -> None:
        if not self.attached:
            if isinstance(event, MessagePublished) and event.message.serial:
                self._early = (event.epoch, event.message.serial)
            elif isinstance(event, ChannelMatched):
                self.begin(event.attachment)
            elif self.part is not None and isinstance(event, self.part.events):
                self.part.receive_early(event)
            return
        if isinstance(event, MessagePublished):
            self._receive_message(event.message, event.epoch)
        elif isinstance(event, HeadAnnounced):
            if self.holds_messages:
                self._compare(event.epoch, event.head)
            if self.part is not None:
                self.part.receive_head(event)
        elif self.part is not None and isinstance(event, self.part.events):
            self.part.receive(event)
        elif isinstance(event, ChannelMatched):
            self.renewed(event.attachment)
            self.hub.feed_began(self, event.attachment)
        elif isinstance(event, ChannelClosed):
            self.hub.feed_closed(self)
        elif type(event) in self._notices:
            self.say(self._notices[type(event)](self.channel, event))
        else:
            self._receive_attendance(event)

    def _receive_attendance(self, event: FeedEvent) -> None:
        for watcher in self._watchers:
            watcher.append(event)
        if isinstance(event, OccupancyChanged):
            if event.count != self.occupancy:
                self.occupancy = event.count
                self.say(Occupancy(self.channel, event.count))
        elif isinstance(event, MembersJoined):
            self.say(Joined(self.channel, event.members))
        elif isinstance(event, MembersLeft):
            self.say(Left(self.channel, event.members))
        elif isinstance(event, MembersPresent):
            self.say(Presence(self.channel, event.members))

    @contextmanager
    def watch(self) -> Iterator[list[FeedEvent]]:
        """Collects the owner's presence and occupancy events: the response to a request may be
        older than they are, and arrive later."""
        events: list[FeedEvent] = []
        self._watchers.append(events)
        try:
            yield events
        finally:
            self._watchers.remove(events)

    def follow_up(self, message: Message, epoch: str) -> bool:
        """Passes on the message that comes next, as nearly all do; False: nothing was done."""
        if (
            message.serial != self.position + 1
            or epoch != self.epoch
            or self._catching_up
            or not self.attached
        ):
            return False
        self.position += 1
        self.pass_on(message)
        return True

    def _receive_message(self, message: Message, epoch: str) -> None:
        serial = message.serial
        if serial == 0:
            self.pass_on(message)
        elif serial == self.position + 1 and epoch == self.epoch and not self._catching_up:
            self.position = serial
            self.pass_on(message)
        else:
            self._compare(epoch, serial, start=serial - 1)

    def _compare(self, epoch: str, head: int, start: int | None = None) -> None:
        """Compares the feed with the owner's `head`. A later serial or another epoch means missed
        messages, unless the event is a late one of a former epoch, which only the owner can tell.
        If that epoch is the new one, messages after `start` are new."""
        if epoch != self.epoch:
            first = head if start is None else start
            known = self._unconfirmed.get(epoch)
            self._unconfirmed[epoch] = (
                known.and_then(first, head) if known else _UnconfirmedRange(first, head)
            )
        elif head > self.position:
            self._seen_head = max(self._seen_head, head)
        else:
            return
        if not self._catching_up:
            self._catching_up = asyncio.get_running_loop().create_task(self._catch_up())

    async def reach(self, epoch: str, serial: int) -> None:
        """Fetches the missing messages up to a serial, if the owner is reachable and in this
        epoch."""
        self._compare(epoch, serial)
        if self._catching_up:
            self._caught_up = self._caught_up or asyncio.Event()
            await self._caught_up.wait()

    async def _catch_up(self) -> None:
        try:
            while self.is_used and (self._unconfirmed or self.position < self._seen_head):
                if not await self._fetch_next():
                    break
        except HubbubError:
            pass  # the next announcement of the head tries again
        finally:
            self._catching_up = None
            self._seen_head = 0
            self._unconfirmed.clear()
            if self._caught_up is not None:
                self._caught_up.set()
                self._caught_up = None

    async def _fetch_next(self) -> bool:
        """Asks the owner once. Returns whether to ask again."""
        seen, before = self._seen_head, self._unconfirmed
        self._unconfirmed = {}  # of what is heard while the owner is asked
        page = await self._bus.ask(
            HistoryQuery(
                self.hub.name,
                self.channel,
                CATCH_UP_PAGE,
                after=self.position,
                epoch=self.epoch,
            )
        )
        unconfirmed = before.get(page.epoch)  # all others were of former epochs
        since = self._unconfirmed.pop(page.epoch, None)
        if since is not None:
            unconfirmed = unconfirmed.and_then(*since) if unconfirmed else since
        if not page.recovered:
            start = page.head
            if unconfirmed is not None:
                start = min(unconfirmed.start, start)
            self.reset(page.epoch, start)
            self._seen_head = max(page.head, unconfirmed.head if unconfirmed else 0)
            return True
        if page.epoch != self.epoch:
            self.reset(page.epoch, self.position, recovered=True)
        if unconfirmed is not None:  # of which the page may be too old to tell
            self._seen_head = max(self._seen_head, unconfirmed.head)
        for message in page.messages:
            if message.serial == self.position + 1:
                self.position = message.serial
                self.pass_on(message)
        return bool(page.messages or self._unconfirmed) or self._seen_head > seen
