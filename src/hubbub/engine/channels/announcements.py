"""Unacknowledged announcements of the owner: presence, occupancy and heads of channels."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence

from hubbub.domain.asking import FeedEvent
from hubbub.engine.channels.channel import Channel, State
from hubbub.ports.bus import (
    HeadAnnounced,
    MembersJoined,
    MembersLeft,
    MembersPresent,
    OccupancyChanged,
)

Emit = Callable[[Sequence[str], str, str, FeedEvent], None]
"""Sends a feed event to nodes: (nodes, hub, channel, event)."""

OCCUPANCY_INTERVAL_SECONDS = 0.2
ROUND = 10
"""Calls of `news` until the heads of all channels were announced."""


class Announcements:
    """Batches changes, so that many joins at once are announced together."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._presence: dict[Channel, None] = {}
        self._occupancy: set[Channel] = set()
        self._announces = False
        """Whether followers may miss what they are sent."""
        self._spoken: dict[Channel, None] = {}
        """Channels with messages since the last time that news was told."""
        self._spoken_before: dict[Channel, None] = {}
        self._round: list[Channel] = []
        """Channels whose turn in this round is still to come."""
        self._part = 0

    def tell(self, channel: Channel, event: FeedEvent) -> None:
        """Send an event to all followers. If it may be lost, the head of the channel is announced
        soon."""
        if self._announces:
            self._spoken[channel] = None
        if channel.nodes:
            self._emit(channel.nodes, channel.hub, channel.name, event)

    def presence_changed(self, channel: Channel) -> None:
        """Announced at the end of this turn of the event loop."""
        if not self._presence:
            asyncio.get_running_loop().call_soon(self._tell_presence)
        self._presence[channel] = None

    def occupancy_changed(self, channel: Channel) -> None:
        """Announced at most a few times a second, which suffices for a counter."""
        if not self._occupancy:
            loop = asyncio.get_running_loop()
            loop.call_later(OCCUPANCY_INTERVAL_SECONDS, self._tell_occupancy)
        self._occupancy.add(channel)

    def heads(self, channels: Iterable[Channel]) -> None:
        """Announces the heads of channels to every follower, so that a lost event is noticed."""
        for channel in channels:
            if channel.nodes and channel.state >= State.READY:
                self.head(channel)

    def head(self, channel: Channel) -> None:
        event = HeadAnnounced(channel.epoch, channel.head)
        for state in channel.states:
            event = state.announce(event)
        self._emit_to_followers(channel, event)

    def news(self, channels: Collection[Channel]) -> None:
        """Called every second where followers may miss what they are sent. Tell the heads of
        channels that had messages lately, twice: one announcement may be lost. Of all others in
        turns, since two may be."""
        self._announces = True
        told, self._spoken = self._spoken, {}
        self.heads(told | self._spoken_before)
        self._spoken_before = told
        if not self._round:
            self._round = list(channels)
            self._part = -(-len(self._round) // ROUND)
        self.heads(self._round[-self._part :])
        del self._round[-self._part :]

    def everything(self, channel: Channel, nodes: Sequence[str] | None = None) -> None:
        """Announces complete presence and occupancy to all followers, or to some."""
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
                self._emit_to_followers(channel, MembersJoined(joined))
            if channel.left:
                left, channel.left = tuple(channel.left.values()), None
                self._emit_to_followers(channel, MembersLeft(left))

    def _tell_occupancy(self) -> None:
        changed, self._occupancy = self._occupancy, set()
        for channel in changed:
            self._emit_to_followers(channel, OccupancyChanged(channel.occupancy()))

    def _emit_to_followers(self, channel: Channel, event: FeedEvent) -> None:
        if channel.nodes:
            self._emit(channel.nodes, channel.hub, channel.name, event)
