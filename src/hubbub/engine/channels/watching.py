"""Patterns of all nodes at an owner: determines which nodes are told of a channel that opens.

A node that follows a channel only by patterns is one of its watchers: it receives the channel's
messages, and does not keep the channel open. Patterns are registered before a channel exists, so
that its first message reaches the watchers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from hubbub.domain.errors import TooManyMatches
from hubbub.domain.patterns import PatternSet
from hubbub.engine.channels.channel import Channel, State
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.ports.bus import (
    AskWatches,
    Attachment,
    ChannelClosed,
    ChannelMatched,
    Matches,
    OwnerBus,
    Watch,
    WatchPatterns,
)
from hubbub.ports.clock import Clock

_CHANNELS_IN_A_TURN = 2_000
"""Channels compared with a pattern in one turn of the event loop."""


class _Watched(msgspec.Struct, frozen=True):
    patterns: PatternSet
    version: int


class Watching(OwnerRoom):
    """The watchers of all channels of one owner, which opens and closes them."""

    def __init__(
        self,
        channels: Mapping[tuple[str, str], Channel],
        bus: OwnerBus,
        clock: Clock,
    ) -> None:
        self._channels = channels
        self._bus = bus
        self._clock = clock
        self._of_hub: dict[str, dict[str, _Watched]] = {}
        """Patterns by hub and node."""
        self._let_go: dict[str, int] = {}
        """When a channel of a hub was last closed, in milliseconds since 1970."""
        self._began = int(clock.now() * 1000)
        self.node_requests = {WatchPatterns: self._watch}

    # -- what nodes say -------------------------------------------------------------------------

    def learn(self, node: str, watch: Watch) -> bool:
        """Replaces the node's patterns; returns False if it has sent newer ones."""
        known = self._of_hub.get(watch.hub, {}).get(node)
        if known is not None and known.version >= watch.version:
            return known.version == watch.version
        nodes = self._of_hub.setdefault(watch.hub, {})
        nodes[node] = _Watched(PatternSet(watch.patterns), watch.version)
        return True

    async def joining(self) -> None:
        """Asks the other nodes for their patterns; a node that does not respond sends them after
        the owners changed."""
        answers = await self._bus.ask_all(AskWatches())
        for node, watches in answers.given.items():
            for watch in watches:
                self.learn(node, watch)

    async def _watch(self, node: str, request: WatchPatterns) -> Matches:
        """Raises `TooManyMatches`."""
        watch = request.watch
        current = self.learn(node, watch)
        wanted = PatternSet((watch.wanted,)) if watch.wanted else None
        found: list[str] = []
        for number, channel in enumerate(list(self._channels.values()), 1):
            if number % _CHANNELS_IN_A_TURN == 0:
                await asyncio.sleep(0)
            if channel.hub != watch.hub or channel.state is State.CLOSED:
                continue
            if current and node in channel.watchers and not self.matches(node, channel):
                self.drop(node, channel)
            if wanted is not None and wanted.matches(channel.name):
                found.append(channel.name)
        if len(found) > watch.most:
            raise TooManyMatches(
                f"{watch.wanted!r} matches more than {watch.most} channels; narrow the pattern"
            )
        return Matches(tuple(found), self._let_go.get(watch.hub, self._began))

    def forget(self, node: str) -> None:
        """Drops the patterns of a node that left."""
        for hub, nodes in list(self._of_hub.items()):
            nodes.pop(node, None)
            if not nodes:
                del self._of_hub[hub]

    def matches(self, node: str, channel: Channel) -> bool:
        """Whether a pattern of the node matches the channel."""
        watched = self._of_hub.get(channel.hub, {}).get(node)
        return watched is not None and watched.patterns.matches(channel.name)

    # -- the watchers of a channel --------------------------------------------------------------

    def add(self, node: str, channel: Channel) -> None:
        """The node follows the channel only by patterns."""
        if node not in channel.nodes:
            channel.nodes = (*channel.nodes, node)
        if node not in channel.watchers:
            channel.watchers = (*channel.watchers, node)

    def drop(self, node: str, channel: Channel) -> None:
        """The node no longer follows the channel."""
        channel.nodes = tuple(other for other in channel.nodes if other != node)
        channel.watchers = tuple(other for other in channel.watchers if other != node)

    def opened(self, channel: Channel) -> None:
        for node in self._of_hub.get(channel.hub, ()):
            if self.matches(node, channel):
                self.add(node, channel)

    def tell(self, channel: Channel, attachment: Attachment) -> None:
        """The channel's position is known: its watchers are told."""
        if channel.watchers:
            self._bus.emit(channel.watchers, channel.hub, channel.name, ChannelMatched(attachment))

    def closed(self, channel: Channel) -> None:
        """The channel was closed because it was unused."""
        self._let_go[channel.hub] = int(self._clock.now() * 1000)
        if channel.watchers:
            self._bus.emit(channel.watchers, channel.hub, channel.name, ChannelClosed())

    def took_over(self) -> None:
        """Channels may have been closed together with their previous owners."""
        self._began = int(self._clock.now() * 1000)
        self._let_go.clear()
