"""Who follows the channels of an owner: the nodes, their sessions that are present, and how many.

After the owner has taken channels over from another, it knows nobody yet: the nodes tell it, each
in its own time. Until they had time to, changes are gathered in silence; then all followers hear
who is there, as a whole, so that whoever went with the owner before is not left in their lists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from hubbub.domain.notices import Member
from hubbub.engine.channels.announcements import Announcements
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.watching import Watching
from hubbub.ports.bus import Following
from hubbub.ports.clock import Clock

Channels = Mapping[tuple[str, str], Channel]


class Attendance:
    """Of all channels of one owner, which opens and closes them."""

    def __init__(
        self, channels: Channels, announcements: Announcements, watching: Watching, clock: Clock
    ) -> None:
        self._channels = channels
        self._watching = watching
        self._announcements = announcements
        self._clock = clock
        self._settling: dict[int, int] = {}
        """Partitions whose followers are not all known yet, with how many takeovers to wait for."""
        self._unsettled: dict[Channel, None] = {}

    def settle(self, partitions: Collection[int], seconds: float) -> None:
        """These were taken over: their followers tell who they are within so many seconds."""
        for partition in partitions:
            self._settling[partition] = self._settling.get(partition, 0) + 1
        asyncio.get_running_loop().call_later(seconds, self._settled, list(partitions))

    def _settled(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            self._settling[partition] -= 1
            if not self._settling[partition]:
                del self._settling[partition]
        settled = [c for c in self._unsettled if c.partition not in self._settling]
        for channel in settled:
            del self._unsettled[channel]
            if self._channels.get((channel.hub, channel.name)) is channel:
                self._announcements.everything(channel)

    def attach(self, node: str, channel: Channel) -> None:
        if node not in channel.nodes:
            channel.nodes = (*channel.nodes, node)
        elif node in channel.watchers:
            channel.watchers = tuple(other for other in channel.watchers if other != node)

    def detach(self, node: str, hub: str, name: str) -> None:
        channel = self._channels.get((hub, name))
        if channel is not None and node in channel.nodes:
            self._detach(node, channel)

    def _detach(self, node: str, channel: Channel) -> None:
        if not self._watching.matches(node, channel):
            self._watching.drop(node, channel)
        elif node not in channel.watchers:
            channel.watchers = (*channel.watchers, node)
        channel.idle_since = self._clock.monotonic()
        self._uncount(node, channel)

    def _uncount(self, node: str, channel: Channel) -> None:
        if channel.counts is not None and channel.counts.pop(node, 0):
            self._occupancy_changed(channel)

    def join(self, node: str, hub: str, name: str, members: Sequence[Member]) -> None:
        channel = self._channels.get((hub, name))
        if channel is not None and channel.rules.presence:
            for member in members:
                if channel.join(node, member):
                    self._presence_changed(channel)

    def leave(self, node: str, hub: str, name: str, session_ids: Sequence[str]) -> None:
        channel = self._channels.get((hub, name))
        if channel is not None:
            self._leave(node, channel, session_ids)

    def _leave(self, node: str, channel: Channel, session_ids: Sequence[str]) -> None:
        for session_id in session_ids:
            if channel.leave(node, session_id):
                self._presence_changed(channel)

    def occupy(self, node: str, hub: str, name: str, count: int) -> None:
        channel = self._channels.get((hub, name))
        if channel is not None and channel.rules.occupancy:
            if channel.counts is None:
                channel.counts = {}
            if channel.counts.get(node) != count:
                channel.counts[node] = count
                self._occupancy_changed(channel)

    def renew(self, node: str, channel: Channel, following: Following) -> None:
        """All that a node has to say about a channel; what it said before and does not say again
        holds no longer."""
        members, count = following.members, following.count
        if following.by_pattern:
            self._watching.add(node, channel)
            self._leave(node, channel, channel.session_ids(node))
            self._uncount(node, channel)
            return
        self.attach(node, channel)
        if not (channel.rules.presence or channel.rules.occupancy):
            return
        present = {member.session_id for member in members}
        gone = [each for each in channel.session_ids(node) if each not in present]
        self._leave(node, channel, gone)
        self.join(node, channel.hub, channel.name, members)
        self.occupy(node, channel.hub, channel.name, count)
        if channel.partition in self._settling:
            self._unsettled[channel] = None
        else:
            self._announcements.everything(channel, (node,))  # it may have missed a change

    def lose_node(self, node: str) -> None:
        """A node is gone, with all its sessions."""
        self._watching.forget(node)
        for channel in list(self._channels.values()):
            if node in channel.nodes:
                self._detach(node, channel)
            if channel.members:
                self._leave(node, channel, channel.session_ids(node))

    def _presence_changed(self, channel: Channel) -> None:
        if channel.partition in self._settling:
            self._unsettled[channel] = None
        else:
            self._announcements.presence_changed(channel)

    def _occupancy_changed(self, channel: Channel) -> None:
        if channel.partition in self._settling:
            self._unsettled[channel] = None
        else:
            self._announcements.occupancy_changed(channel)
