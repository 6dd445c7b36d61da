"""What the owner tells in passing: who came and went, how many are there, how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence

from hubbub.engine.channels.channel import Channel, State
from hubbub.ports.bus import (
    FeedEvent,
    HeadAnnounced,
    MembersJoined,
    MembersLeft,
    MembersPresent,
    OccupancyChanged,
)

Emit = Callable[[Sequence[str], str, str, FeedEvent], None]
"""Send a feed event to nodes: (nodes, hub, channel, event)."""

OCCUPANCY_INTERVAL_SECONDS = 0.2
ROUND = 10
"""How many times news is told until the heads of all channels were."""


class Announcements:
    """Gathers changes, so that a crowd that comes at once is told of as a crowd."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._presence: dict[Channel, None] = {}
        self._occupancy: set[Channel] = set()
        self.spoken: dict[Channel, None] = {}
        """Channels with messages since the last time that news was told."""
        self._spoken_before: dict[Channel, None] = {}
        self._round: list[Channel] = []
        """Channels whose turn is still to come."""
        self._part = 0

    def presence_changed(self, channel: Channel) -> None:
        """Told at the end of this turn of the loop."""
        if not self._presence:
            asyncio.get_running_loop().call_soon(self._tell_presence)
        self._presence[channel] = None

    def occupancy_changed(self, channel: Channel) -> None:
        """Told a few times a second at most: a counter needs no more."""
        if not self._occupancy:
            loop = asyncio.get_running_loop()
            loop.call_later(OCCUPANCY_INTERVAL_SECONDS, self._tell_occupancy)
        self._occupancy.add(channel)

    def heads(self, channels: Iterable[Channel]) -> None:
        """Tell every follower where its channels stand, so that a lost event is noticed."""
        for channel in channels:
            if channel.nodes and channel.state >= State.READY:
                self.head(channel)

    def head(self, channel: Channel) -> None:
        document = channel.document.stored if channel.document is not None else None
        self._tell(channel, HeadAnnounced(channel.epoch, channel.head, document))

    def news(self, channels: Collection[Channel]) -> None:
        """Tell the heads of channels that had messages lately, twice: one word may be lost. Of all
        others in turns, since two words may be."""
        told, self.spoken = self.spoken, {}
        self.heads(told | self._spoken_before)
        self._spoken_before = told
        if not self._round:
            self._round = list(channels)
            self._part = -(-len(self._round) // ROUND)
        self.heads(self._round[-self._part :])
        del self._round[-self._part :]

    def everything(self, channel: Channel, nodes: Sequence[str] | None = None) -> None:
        """Tell all followers, or some, who is there and how many, as a whole."""
        if nodes is None:
            channel.joined = channel.left = None
        told = channel.nodes if nodes is None else nodes
        if channel.rules.presence:
            event = MembersPresent(channel.present())
            self._emit(told, channel.hub, channel.name, event)
        if channel.rules.occupancy:
            count = OccupancyChanged(channel.occupancy())
            self._emit(told, channel.hub, channel.name, count)

    def _tell_presence(self) -> None:
        changed, self._presence = self._presence, {}
        for channel in changed:
            if channel.joined:
                joined, channel.joined = tuple(channel.joined.values()), None
                self._tell(channel, MembersJoined(joined))
            if channel.left:
                left, channel.left = tuple(channel.left.values()), None
                self._tell(channel, MembersLeft(left))

    def _tell_occupancy(self) -> None:
        changed, self._occupancy = self._occupancy, set()
        for channel in changed:
            self._tell(channel, OccupancyChanged(channel.occupancy()))

    def _tell(self, channel: Channel, event: FeedEvent) -> None:
        if channel.nodes:
            self._emit(channel.nodes, channel.hub, channel.name, event)
