"""Patterns of all nodes at an owner: which nodes are told of a channel that is opened.

A node that follows a channel by patterns only is one of its watchers: it gets what is said there,
and does not keep the channel open. What the nodes are subscribed to is known before a channel
comes into being, so its first message finds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from hubbub.domain.errors import TooManyMatches
from hubbub.domain.patterns import PatternSet
from hubbub.engine.channels.announcements import Emit
from hubbub.engine.channels.channel import Channel, State
from hubbub.ports.bus import Attachment, ChannelClosed, ChannelMatched, Matches, Watch
from hubbub.ports.clock import Clock

_CHANNELS_IN_A_TURN = 2_000
"""Channels that are compared with a pattern in one turn of the loop."""


class _Watched(msgspec.Struct, frozen=True):
    patterns: PatternSet
    version: int


class Watching:
    """Of all channels of one owner, which opens and closes them."""

    def __init__(
        self, channels: Mapping[tuple[str, str], Channel], emit: Emit, clock: Clock
    ) -> None:
        self._channels = channels
        self._emit = emit
        self._clock = clock
        self._of_hub: dict[str, dict[str, _Watched]] = {}
        """By hub and node."""
        self._let_go: dict[str, int] = {}
        """When a channel of a hub was closed last, in milliseconds since 1970."""
        self._began = int(clock.now() * 1000)

    # -- what nodes say -------------------------------------------------------------------------

    def learn(self, node: str, watch: Watch) -> bool:
        """These are the node's patterns now; False where it has said something newer."""
        known = self._of_hub.get(watch.hub, {}).get(node)
        if known is not None and known.version >= watch.version:
            return known.version == watch.version
        nodes = self._of_hub.setdefault(watch.hub, {})
        nodes[node] = _Watched(PatternSet(watch.patterns), watch.version)
        return True

    async def watch(self, node: str, watch: Watch) -> Matches:
        """Raises `TooManyMatches`."""
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
        """The node is gone."""
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
        """The node follows the channel by patterns only."""
        if node not in channel.nodes:
            channel.nodes = (*channel.nodes, node)
        if node not in channel.watchers:
            channel.watchers = (*channel.watchers, node)

    def drop(self, node: str, channel: Channel) -> None:
        """The node does not follow the channel any more."""
        channel.nodes = tuple(other for other in channel.nodes if other != node)
        channel.watchers = tuple(other for other in channel.watchers if other != node)

    def opened(self, channel: Channel) -> None:
        for node in self._of_hub.get(channel.hub, ()):
            if self.matches(node, channel):
                self.add(node, channel)

    def tell(self, channel: Channel, attachment: Attachment) -> None:
        """It is known where the channel stands."""
        if channel.watchers:
            self._emit(channel.watchers, channel.hub, channel.name, ChannelMatched(attachment))

    def closed(self, channel: Channel) -> None:
        """Nobody used the channel."""
        self._let_go[channel.hub] = int(self._clock.now() * 1000)
        if channel.watchers:
            self._emit(channel.watchers, channel.hub, channel.name, ChannelClosed())

    def took_over(self) -> None:
        """Channels that others owned may have gone with them."""
        self._began = int(self._clock.now() * 1000)
        self._let_go.clear()
