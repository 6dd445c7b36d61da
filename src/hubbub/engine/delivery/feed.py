"""A feed: one channel as this node follows it for its subscribers.

Events from the owner may be lost, doubled or late. The feed lets every message through once and
in order: it knows the serial that must come next, ignores what it has had, and fetches what it
missed. If that is gone, it says so to the subscribers instead of hiding it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from hubbub.domain.errors import HubbubError
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import Message
from hubbub.domain.names import is_document, partition_of
from hubbub.domain.notices import (
    Joined,
    Left,
    NotificationInfo,
    NotificationNew,
    NotificationRead,
    Occupancy,
    Presence,
)
from hubbub.domain.notifications import NotificationState
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.delivery.audience import Audience, AudienceHub
from hubbub.engine.delivery.document_feed import DocumentFeed
from hubbub.engine.delivery.fanout import Fanout
from hubbub.ports.bus import (
    Attachment,
    Bus,
    ChannelClosed,
    ChannelMatched,
    DocumentChanged,
    FeedEvent,
    Following,
    HeadAnnounced,
    MembersJoined,
    MembersLeft,
    MembersPresent,
    MessagePublished,
    NotificationsChanged,
    OccupancyChanged,
)
from hubbub.ports.clock import Clock

CATCH_UP_PAGE = 500


class FeedHub(AudienceHub, Protocol):
    """What a feed needs of its hub."""

    def feed_began(self, feed: Feed, attachment: Attachment | None) -> None:
        """The feed follows its owner from here on: whose pattern matches joins it."""

    def feed_closed(self, feed: Feed) -> None:
        """The channel has gone: who follows it by a pattern leaves it."""


class _UnconfirmedRange(NamedTuple):
    """How far an epoch was heard of that is not the feed's."""

    start: int
    """Where it was first heard of: what comes after that must be passed on."""
    head: int

    def and_then(self, start: int, head: int) -> _UnconfirmedRange:
        return _UnconfirmedRange(min(self.start, start), max(self.head, head))


class Feed(Audience):
    """The audience of a channel, and the way in which it follows the channel's owner."""

    __slots__ = (
        "_attaching",
        "_bus",
        "_catching_up",
        "_caught_up",
        "_early",
        "_seen_head",
        "_unconfirmed",
        "_watchers",
        "attached",
        "direct",
        "document",
        "notifications",
        "occupancy",
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
    ) -> None:
        super().__init__(hub, channel, fanout, clock, access)
        self._bus = bus
        self.partition = partition_of(hub.name, channel)
        self.occupancy: int | None = None
        self.attached = False
        self.direct = False
        """The owner knows that somebody here follows the channel by its name."""
        self.notifications: NotificationState | None = None
        """Of a notification channel, as subscribers have been told; the last one heard of while the
        owner's answer was on its way."""
        self.users = 0
        """How many are about to subscribe; the feed stays while there are any."""
        self._attaching: dict[bool, asyncio.Task[Attachment]] = {}
        """Questions to the owner that are under way, by whether they are for patterns only."""
        self._catching_up: asyncio.Task[None] | None = None
        self._caught_up: asyncio.Event | None = None
        self._seen_head = 0
        self._watchers: list[list[FeedEvent]] = []
        """Of those who ask the owner for its state: what came while the answer was on its way."""
        self._unconfirmed: dict[str, _UnconfirmedRange] = {}
        """Of other epochs, each of which may be the channel's new one, or a former one."""
        self.document = (
            DocumentFeed(hub.name, channel, bus, self.say, self._is_used, self._has_users)
            if is_document(channel)
            else None
        )
        self._early: tuple[str, int] | None = None
        """The last position that was heard of while the owner's answer was on its way."""

    # -- following the owner --------------------------------------------------------------------

    async def attach(self, by_pattern: bool = False, missed: bool = False) -> None:
        """Begin to follow the channel; whoever comes meanwhile waits for the same answer.
        `missed`: what was said since its owner opened it should have been heard here."""
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
        """Tell the owner that somebody here follows the channel, by its name or by a pattern."""
        if not by_pattern:
            return await self._bus.attach(self.hub.name, self.channel)
        following = Following(self.hub.name, self.channel, (), 0, by_pattern=True)
        (answer,) = await self._bus.follow([following])
        if isinstance(answer, HubbubError):
            raise answer
        return answer

    def begin(self, attachment: Attachment, position: int | None = None) -> None:
        """The owner said where the channel stands: follow it from there, or from an earlier
        position."""
        self.attached = True
        self.epoch = attachment.epoch
        self.position = attachment.head
        self.notifications, early = attachment.notifications, self.notifications
        if early is not None:
            self._receive_notifications(NotificationsChanged(early))
        if self._early is not None and self._early[0] == self.epoch:
            self.position = max(self.position, self._early[1])
        if self.document is not None and attachment.document is not None:
            self.document.begin(attachment.document)
        if position is not None:
            self.position = position
        self.hub.feed_began(self, attachment)
        self._compare(self.epoch, attachment.head)

    def _has_users(self) -> bool:
        return bool(self.users)

    def _is_used(self) -> bool:
        return bool(self.subscribers or self.users)

    def is_at_beginning(self) -> bool:
        """Whether the channel stores and the feed stands before its first message: a channel gets
        its epoch with that message, so that another epoch means no loss."""
        return not self.position and self.hub.rules_for(self.channel).store

    def renewed(self, attachment: Attachment) -> None:
        """The channel's owner, a new one perhaps, was told again that this node follows it."""
        if not self.attached:
            return
        if self.document is not None and attachment.document is not None:
            self.document.compare(attachment.document)
        if attachment.notifications is not None:
            self.epoch = attachment.epoch
            self._receive_notifications(NotificationsChanged(attachment.notifications))
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
            elif isinstance(event, NotificationsChanged):
                self.notifications = event.state
            elif isinstance(event, DocumentChanged) and self.document is not None:
                self.document.receive_early(event)
            elif isinstance(event, ChannelMatched):
                self.begin(event.attachment)
            return
        if isinstance(event, MessagePublished):
            self._receive_message(event.message, event.epoch)
        elif isinstance(event, HeadAnnounced):
            if self.notifications is None:
                self._compare(event.epoch, event.head)
            if self.document is not None and event.document is not None:
                self.document.compare(event.document)
        elif isinstance(event, DocumentChanged):
            if self.document is not None:
                self.document.receive(event)
        elif isinstance(event, NotificationsChanged):
            self._receive_notifications(event)
        elif isinstance(event, ChannelMatched):
            self.renewed(event.attachment)
            self.hub.feed_began(self, event.attachment)
        elif isinstance(event, ChannelClosed):
            self.hub.feed_closed(self)
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

    def _receive_notifications(self, event: NotificationsChanged) -> None:
        """Pass on what changed. What was missed before shows in the revision: subscribers fetch
        it."""
        known, state = self.notifications, event.state
        if known is None or (known.epoch == state.epoch and known.revision >= state.revision):
            return
        self.notifications = state
        for revision, notification in enumerate(
            event.created, state.revision - len(event.created) + 1
        ):
            self.say(NotificationNew(self.channel, revision, notification))
        mark = event.read
        if mark is not None:
            self.say(
                NotificationRead(
                    self.channel, state.revision, mark.read_at, mark.ids, mark.up_to, mark.read_by
                )
            )
        self.say(NotificationInfo(self.channel, state))

    @contextmanager
    def watch(self) -> Iterator[list[FeedEvent]]:
        """Gathers what the owner tells about presence and occupancy: its answer to a question can
        be older than that, and arrive later."""
        events: list[FeedEvent] = []
        self._watchers.append(events)
        try:
            yield events
        finally:
            self._watchers.remove(events)

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
        """The owner is at `head`. Behind it, or in another epoch, something was missed; unless
        the event is a late one of a former epoch, which only the owner can tell. If that epoch is
        the new one, what comes after `start` is news."""
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
        """Fetch what is missing up to a serial, if the owner can be asked and says that it is in
        this epoch."""
        self._compare(epoch, serial)
        if self._catching_up:
            self._caught_up = self._caught_up or asyncio.Event()
            await self._caught_up.wait()

    async def _catch_up(self) -> None:
        try:
            while self._is_used() and (self._unconfirmed or self.position < self._seen_head):
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
        """Ask the owner once. Answers whether there is reason to ask again."""
        seen, before = self._seen_head, self._unconfirmed
        self._unconfirmed = {}  # of what is heard while the owner is asked
        page = await self._bus.history(
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
        for message in page.messages:
            if message.serial == self.position + 1:
                self.position = message.serial
                self.pass_on(message)
        return bool(page.messages or self._unconfirmed) or self._seen_head > seen
