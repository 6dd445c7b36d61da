"""Delivery at the owner: a message that is as durable as it must be goes to everyone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hubbub.domain.messages import Message
from hubbub.engine.channels.announcements import Announcements
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.rooms import implementing
from hubbub.ports.bus import MessagePublished, OwnerBus
from hubbub.ports.clock import Clock
from hubbub.ports.journal import Journal


class Deliverer:
    """Serves all channels of one owner."""

    def __init__(
        self,
        bus: OwnerBus,
        announcements: Announcements,
        clock: Clock,
        journal: Journal,
        rooms: Sequence[OwnerRoom],
    ) -> None:
        self._bus = bus
        self._announcements = announcements
        self._clock = clock
        self._journal = journal
        self._stored = implementing(rooms, OwnerRoom.stored)
        self._pushed = implementing(rooms, OwnerRoom.pushed)

    def deliver(self, channel: Channel, message: Message) -> None:
        if self._journal.enabled:
            self._journal.published(message, channel.epoch, channel.rules.journal)
        if message.store and message.serial:
            for stored in self._stored:
                stored(channel, message)
        if message.push:
            self._push(channel, message)
        if channel.history is not None:
            channel.history.append(message)
        if channel.nodes:
            sink = self._bus.sink
            if sink is not None:
                sink.receive_message(channel.hub, channel.name, message, channel.epoch)
            else:
                self._announcements.tell(channel, MessagePublished(message, channel.epoch))
            if channel.watchers:
                channel.idle_since = self._clock.monotonic()
        else:
            channel.idle_since = self._clock.monotonic()

    def _push(self, channel: Channel, message: Message) -> None:
        """The options have done their part: nobody else sees them."""
        options: dict[str, Any] | None
        options, message.push_options = message.push_options, None
        if channel.rules.push:
            for pushed in self._pushed:
                pushed(message, options)
