"""An audience: the subscribers of one channel on this node, in groups that receive the same
bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from typing import Protocol

from hubbub.domain.envelope import has_expired
from hubbub.domain.filters.filters import Screen
from hubbub.domain.filters.view import MessageView
from hubbub.domain.messages import Message
from hubbub.domain.notices import ChannelReset, Notice
from hubbub.domain.rules import Rules
from hubbub.engine.access.registry import AccessRegistry, Subscriber
from hubbub.engine.counters import HubCounters
from hubbub.engine.delivery.fanout import DeliveryQueue, Fanout, Group
from hubbub.engine.delivery.screening import Offer, ScreenedGroup, earlier
from hubbub.engine.delivery.tally import Tally
from hubbub.ports.clock import Clock
from hubbub.ports.connection import Connection, Pausable
from hubbub.ports.encoding import Encoder


class AudienceHub(Protocol):
    """The part of a hub that an audience uses."""

    name: str
    delivery_queue: DeliveryQueue
    counters: HubCounters
    channel_sizes: dict[int, int]
    """For each number of sessions above 0, how many channels have so many; maintained by the
    audiences."""
    shared_feeds: dict[Audience, None]
    """Audiences with more than one session, which register themselves."""

    def rules_for(self, channel: str) -> Rules:
        """The current rules of a channel."""


class Audience:
    """`position` is the serial of the last delivered message, in the channel's `epoch`."""

    __slots__ = (
        "_access",
        "_clock",
        "_fanout",
        "_left_out_after",
        "_placed",
        "channel",
        "epoch",
        "filtered",
        "groups",
        "hub",
        "observers",
        "position",
        "retained",
        "subscribers",
    )

    def __init__(
        self,
        hub: AudienceHub,
        channel: str,
        fanout: Fanout,
        clock: Clock,
        access: AccessRegistry,
    ) -> None:
        self.hub = hub
        self._fanout = fanout
        self._clock = clock
        self._access = access
        self.channel = channel
        self.epoch = ""
        self.position = 0
        self.retained: Message | None = None
        """The last delivered message with the flag `retain`."""
        self.groups: dict[Encoder, Group] = {}
        """Groups of subscribers without filters."""
        self.filtered: dict[tuple[Encoder, Screen], ScreenedGroup] = {}
        self._placed: dict[Connection, Group] = {}
        """The group of each subscriber with filters, or with another encoder for this channel than
        for others."""
        self.subscribers = 0
        self.observers = 0
        """Subscribers that follow the channel only by patterns."""
        self._left_out_after: int | None = None
        """The serial after which messages were skipped: because their time to live ended, or for a
        subscriber that joined a group since. None: the next message follows the last delivered
        one."""

    @property
    def occupants(self) -> int:
        """The number of sessions that follow the channel by name."""
        return self.subscribers - self.observers

    # -- speaking to subscribers ----------------------------------------------------------------

    def pass_on(self, message: Message) -> None:
        if message.retain:
            self.retained = message
        attributes = message.attributes
        if attributes is not None and attributes.ttl and self._left_out(message):
            return
        previous = None
        if self._left_out_after is not None and message.serial:
            previous, self._left_out_after = self._left_out_after, None
        for group in self.groups.values():
            unit = group.encoder.encode_message(message, self.epoch, previous)
            if not unit:
                continue  # nothing for this kind of client
            self._fanout.send(group, unit)
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
        """Whether the message's time to live ended, so that nobody receives it."""
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

    def reset(self, epoch: str, head: int, recovered: bool = False) -> None:
        """Continues from another position. Unless `recovered`, messages in between may be lost, and
        subscribers are told."""
        if self._fanout.deliveries is not None and self._journals and not recovered:
            first = self.position + 1 if epoch == self.epoch else None
            self._fanout.deliveries.missed(self.hub.name, self.channel, epoch, first, head)
        self.epoch = epoch
        self.position = head
        self._left_out_after = None
        self.say(ChannelReset(self.channel, epoch, head, recovered))

    def _every_group(self) -> Collection[Group]:
        if not self.filtered:
            return self.groups.values()
        return [*self.groups.values(), *self.filtered.values()]

    def say(self, notice: Notice) -> None:
        for group in self.groups.values():
            unit = group.encoder.encode(notice)
            if unit:
                self._fanout.send(group, unit)
        for screened in self.filtered.values():
            screened.offer(notice)
            self._fanout.schedule(screened)

    def hold_back(self, publisher: Pausable) -> None:
        """Delays a publisher if most subscribers lag far behind. A few that use another encoding
        have a group of their own, and delay nobody."""
        congested = [group for group in self._every_group() if group.congested]
        if sum(len(group.connections) for group in congested) * 2 > self.subscribers:
            for group in congested:
                group.hold_back(publisher)

    def admit(self, subscriber: Subscriber) -> None:
        """Raises `NotPermitted` if the subscriber may not receive messages of the channel now."""
        self._access.admit(self.hub.name, subscriber, self.channel)

    def add(self, subscriber: Subscriber, connection: Connection, sent: int | None = None) -> None:
        """Delivers to the subscriber's connection all messages after `position` that pass its
        filters. `sent` is the last serial sent to it, if that differs from the position. Raises
        `NotPermitted`."""
        self.admit(subscriber)
        group = self._group_for(connection, subscriber.screen(self.channel))
        group.add(connection, subscriber)
        self._follows(sent)
        self._resize(1)

    def remove(self, connection: Connection) -> None:
        group = self._group_of(connection)
        if group is not None:
            group.remove(connection)
            self._removed(connection, group)
            self._resize(-1)

    def _resize(self, more: int) -> None:
        before, sizes = self.subscribers, self.hub.channel_sizes
        self.subscribers = after = before + more
        if before:
            left = sizes[before] - 1
            if left:
                sizes[before] = left
            else:
                del sizes[before]
        if after:
            sizes[after] = sizes.get(after, 0) + 1
        if before == 1 and after == 2:
            self.hub.shared_feeds[self] = None
        elif before == 2 and after == 1:
            del self.hub.shared_feeds[self]

    def followers(self) -> Iterator[Subscriber | None]:
        groups = (*self.groups.values(), *self.filtered.values())
        return chain.from_iterable(group.connections.values() for group in groups)

    def rescreen(self, subscriber: Subscriber, connection: Connection) -> None:
        """Applies a subscriber's changed filters, or the connection's changed encoder for this
        channel; messages received before keep the earlier ones."""
        group, screen = self._group_of(connection), subscriber.screen(self.channel)
        if group is None:
            return
        if screen == _screen_of(group) and connection.encoder_in(self.channel) is group.encoder:
            return
        for data in group.take_out(connection):
            connection.send(data)
        self._removed(connection, group)
        self._group_for(connection, screen).add(connection, subscriber)
        if isinstance(group, ScreenedGroup):
            self._follows(group.skipped_after)

    def _follows(self, sent: int | None) -> None:
        """A subscriber joins a group after this serial was sent to it: the next message names that
        serial as the previous one."""
        if sent is not None and sent < self.position:
            self._left_out_after = earlier(self._left_out_after, sent)

    def _group_of(self, connection: Connection) -> Group | None:
        group = self._placed.get(connection) or self.groups.get(connection.encoder)
        return None if group is None or connection not in group.connections else group

    def _group_for(self, connection: Connection, screen: Screen | None) -> Group:
        encoder = connection.encoder_in(self.channel)
        if screen is None:
            found = self.groups.get(encoder)
            if found is None:
                tally = self._tally(connection.technology)
                found = self.groups[encoder] = Group(encoder, self.hub.delivery_queue, tally)
            if encoder is not connection.encoder:
                self._placed[connection] = found
            return found
        group = self.filtered.get((encoder, screen))
        if group is None:
            tally = self._tally(connection.technology)
            group = ScreenedGroup(encoder, self.hub.delivery_queue, tally, screen=screen)
            self.filtered[encoder, screen] = group
        self._placed[connection] = group
        return group

    def _removed(self, connection: Connection, group: Group) -> None:
        self._placed.pop(connection, None)
        if group.connections:
            return
        if isinstance(group, ScreenedGroup):
            del self.filtered[group.encoder, group.screen]
        else:
            del self.groups[group.encoder]

    # -- the journal ----------------------------------------------------------------------------

    @property
    def _journals(self) -> bool:
        return self.hub.rules_for(self.channel).journal != "off"

    def _tally(self, technology: str) -> Tally | None:
        """The tally of a technology, shared by its encodings; None: deliveries are not counted."""
        if self._fanout.deliveries is None or not self._journals:
            return None
        for group in self._every_group():
            if group.tally is not None and group.tally.technology == technology:
                return group.tally
        return self._fanout.deliveries.tally(self.hub.name, self.channel, technology)

    def rules_changed(self) -> None:
        """Starts or stops counting deliveries, as the current rules say."""
        journals = self._journals
        for group in self._every_group():
            if not journals:
                group.tally = None
            elif group.tally is None:
                technology = next(iter(group.connections)).technology
                group.tally = self._tally(technology)


def _screen_of(group: Group) -> Screen | None:
    return group.screen if isinstance(group, ScreenedGroup) else None
