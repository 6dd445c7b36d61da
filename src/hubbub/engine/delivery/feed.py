"""A feed: one channel as this node follows it for its subscribers.

Events from the owner may be lost, doubled or late. The feed lets every message through once and
in order: it knows the serial that must come next, ignores what it has had, and fetches what it
missed. If that is gone, it says so to the subscribers instead of hiding it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from hubbub.domain.envelope import has_expired
from hubbub.domain.errors import HubbubError
from hubbub.domain.filters.filters import Screen
from hubbub.domain.filters.view import MessageView
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import Message
from hubbub.domain.names import is_document, partition_of
from hubbub.domain.notices import (
    ChannelReset,
    Joined,
    Left,
    Notice,
    NotificationInfo,
    NotificationNew,
    NotificationRead,
    Occupancy,
    Presence,
)
from hubbub.domain.notifications import NotificationState
from hubbub.domain.rules import Rules
from hubbub.engine.access.registry import AccessRegistry, Subscriber
from hubbub.engine.counters import HubCounters
from hubbub.engine.delivery.document_feed import DocumentFeed
from hubbub.engine.delivery.fanout import DeliveryQueue, Fanout, Group
from hubbub.engine.delivery.screening import Offer, ScreenedGroup, earlier
from hubbub.engine.delivery.tally import Tally
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
from hubbub.ports.connection import Connection, Pausable
from hubbub.ports.encoding import Encoder

CATCH_UP_PAGE = 500


class FeedHub(Protocol):
    """What a feed needs of its hub."""

    name: str
    delivery_queue: DeliveryQueue
    counters: HubCounters

    def rules_for(self, channel: str) -> Rules:
        """The rules of a channel as they are now."""

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


class Feed:
    """`position` is the serial of the last message that was passed on."""

    __slots__ = (
        "_access",
        "_attaching",
        "_bus",
        "_catching_up",
        "_caught_up",
        "_clock",
        "_early",
        "_fanout",
        "_left_out_after",
        "_screened",
        "_seen_head",
        "_unconfirmed",
        "_watchers",
        "attached",
        "channel",
        "direct",
        "document",
        "epoch",
        "filtered",
        "groups",
        "hub",
        "notifications",
        "observers",
        "occupancy",
        "partition",
        "position",
        "retained",
        "subscribers",
        "users",
    )

    def __init__(
        self,
        hub: FeedHub,
        channel: str,
        bus: Bus,
        fanout: Fanout,
        clock: Clock,
        access: AccessRegistry,
    ) -> None:
        self._access = access
        self.hub = hub
        self.channel = channel
        self.partition = partition_of(hub.name, channel)
        self.epoch = ""
        self.position = 0
        self.occupancy: int | None = None
        self.attached = False
        self.direct = False
        """The owner knows that somebody here follows the channel by its name."""
        self.retained: Message | None = None
        """The last message that was to be retained, among those that were passed on."""
        self.notifications: NotificationState | None = None
        """Of a notification channel, as subscribers have been told; the last one heard of while the
        owner's answer was on its way."""
        self.groups: dict[Encoder, Group] = {}
        """Subscribers without filters."""
        self.filtered: dict[tuple[Encoder, Screen], ScreenedGroup] = {}
        self._screened: dict[Connection, ScreenedGroup] = {}
        """The group of each subscriber with filters."""
        self.subscribers = 0
        self.observers = 0
        """Those of the subscribers who follow the channel by patterns only."""
        self.users = 0
        """How many are about to subscribe; the feed stays while there are any."""
        self._bus = bus
        self._fanout = fanout
        self._clock = clock
        self._left_out_after: int | None = None
        """The serial after which messages were left out: of all subscribers, since their time to
        live was over, or of one who has joined a group since. None: the next message follows the
        last one that was passed on."""
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

    @property
    def occupants(self) -> int:
        """Sessions that follow the channel by its name."""
        return self.subscribers - self.observers

    def _has_users(self) -> bool:
        return bool(self.users)

    def _is_used(self) -> bool:
        return bool(self.subscribers or self.users)

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
            self._reset(attachment.epoch, 0)  # nothing of the new epoch can be missed

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
            self._pass_on(message)
        elif serial == self.position + 1 and epoch == self.epoch and not self._catching_up:
            self.position = serial
            self._pass_on(message)
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
            if page.epoch != self.epoch and not self.position and self._stores:
                start = 0  # a channel that was empty gets its epoch with its first message
            self._reset(page.epoch, start)
            self._seen_head = max(page.head, unconfirmed.head if unconfirmed else 0)
            return True
        for message in page.messages:
            if message.serial == self.position + 1:
                self.position = message.serial
                self._pass_on(message)
        return bool(page.messages or self._unconfirmed) or self._seen_head > seen

    def _reset(self, epoch: str, head: int) -> None:
        """What lies between is lost, or never was: say so rather than hide a gap."""
        if self._fanout.deliveries is not None and self._journals:
            first = self.position + 1 if epoch == self.epoch else None
            self._fanout.deliveries.missed(self.hub.name, self.channel, epoch, first, head)
        self.epoch = epoch
        self.position = head
        self._left_out_after = None
        for group in self.filtered.values():
            group.reset()
        self.say(ChannelReset(self.channel, epoch, head))

    # -- speaking to subscribers ----------------------------------------------------------------

    def _pass_on(self, message: Message) -> None:
        if message.retain:
            self.retained = message
        attributes = message.attributes
        if attributes is not None and attributes.ttl and self._left_out(message):
            return
        previous = None
        if self._left_out_after is not None and message.serial:
            previous, self._left_out_after = self._left_out_after, None
        for group in self.groups.values():
            self._fanout.send(group, group.encoder.encode_message(message, self.epoch, previous))
            if group.tally is not None:
                group.note(message, self.epoch)
        if self.filtered:
            self._offer(message, previous)

    def _offer(self, message: Message, previous: int | None) -> None:
        tallies = {group.tally for group in self.groups.values() if group.tally is not None}
        view = MessageView(message, int(self._clock.now() * 1000))
        offer = Offer(view, self.epoch, previous, tallies)
        for group in self.filtered.values():
            group.offer(offer)
            self._fanout.schedule(group)

    def _left_out(self, message: Message) -> bool:
        """Whether the message's time to live is over, so that nobody gets it."""
        if not has_expired(message, int(self._clock.now() * 1000)):
            return False
        if message.serial and self._left_out_after is None:
            self._left_out_after = message.serial - 1
        groups = self._every_group()
        if groups:
            self.hub.counters.messages_expired += 1
        for tally in {group.tally for group in groups}:
            if tally is not None:
                tally.expired(self.epoch, [message])
        return True

    def _every_group(self) -> Collection[Group]:
        if not self.filtered:
            return self.groups.values()
        return [*self.groups.values(), *self.filtered.values()]

    def say(self, notice: Notice) -> None:
        for group in self._every_group():
            self._fanout.send(group, group.encoder.encode(notice))

    def hold_back(self, publisher: Pausable) -> None:
        """Let it wait if most of the subscribers are far behind: a few that take another encoding
        than all others have a group to themselves, and hold up nobody else."""
        congested = [group for group in self._every_group() if group.congested]
        if sum(len(group.connections) for group in congested) * 2 > self.subscribers:
            for group in congested:
                group.hold_back(publisher)

    def admit(self, subscriber: Subscriber) -> None:
        """That messages of the channel may be handed to the subscriber now. Raises
        `NotPermitted`."""
        self._access.admit(self.hub.name, subscriber, self.channel)

    def add(self, subscriber: Subscriber, connection: Connection, sent: int | None = None) -> None:
        """The subscriber's connection gets everything after `position` that passes its filters.
        `sent` is the last serial that it was sent, where that is not the position. Raises
        `NotPermitted`."""
        self.admit(subscriber)
        self._group_for(connection, subscriber.screen(self.channel)).add(connection)
        self._follows(sent)
        self.subscribers += 1

    def remove(self, connection: Connection) -> None:
        group = self._group_of(connection)
        if group is not None:
            group.remove(connection)
            self._removed(connection, group)
            self.subscribers -= 1

    def rescreen(self, subscriber: Subscriber, connection: Connection) -> None:
        """The subscriber's filters have changed: what was said before this still goes by those
        that it had."""
        group, screen = self._group_of(connection), subscriber.screen(self.channel)
        if group is None or screen == _screen_of(group):
            return
        for data in group.take_out(connection):
            connection.send(data)
        self._removed(connection, group)
        self._group_for(connection, screen).add(connection)
        if isinstance(group, ScreenedGroup):
            self._follows(group.skipped_after)

    def _follows(self, sent: int | None) -> None:
        """Somebody joins a group who was last sent this serial: the next message says that it
        follows that one."""
        if sent is not None and sent < self.position:
            self._left_out_after = earlier(self._left_out_after, sent)

    def _group_of(self, connection: Connection) -> Group | None:
        group = self._screened.get(connection) or self.groups.get(connection.encoder)
        return None if group is None or connection not in group.connections else group

    def _group_for(self, connection: Connection, screen: Screen | None) -> Group:
        encoder = connection.encoder
        if screen is None:
            found = self.groups.get(encoder)
            if found is None:
                tally = self._tally(connection.technology)
                found = self.groups[encoder] = Group(encoder, self.hub.delivery_queue, tally)
            return found
        group = self.filtered.get((encoder, screen))
        if group is None:
            tally = self._tally(connection.technology)
            group = ScreenedGroup(encoder, self.hub.delivery_queue, tally, screen=screen)
            self.filtered[encoder, screen] = group
        self._screened[connection] = group
        return group

    def _removed(self, connection: Connection, group: Group) -> None:
        self._screened.pop(connection, None)
        if group.connections:
            return
        if isinstance(group, ScreenedGroup):
            del self.filtered[group.encoder, group.screen]
        else:
            del self.groups[group.encoder]

    # -- the journal ----------------------------------------------------------------------------

    @property
    def _stores(self) -> bool:
        return self.hub.rules_for(self.channel).store

    @property
    def _journals(self) -> bool:
        return self.hub.rules_for(self.channel).journal != "off"

    def _tally(self, technology: str) -> Tally | None:
        """One for each technology, whatever the encodings; None: deliveries are not counted."""
        if self._fanout.deliveries is None or not self._journals:
            return None
        for group in self._every_group():
            if group.tally is not None and group.tally.technology == technology:
                return group.tally
        return self._fanout.deliveries.tally(self.hub.name, self.channel, technology)

    def rules_changed(self) -> None:
        """Begin or end to count deliveries, as the rules want it now."""
        journals = self._journals
        for group in self._every_group():
            if not journals:
                group.tally = None
            elif group.tally is None:
                technology = next(iter(group.connections)).technology
                group.tally = self._tally(technology)


def _screen_of(group: Group) -> Screen | None:
    return group.screen if isinstance(group, ScreenedGroup) else None
