"""Followers of an owner's channels: the nodes, their present sessions, and their number.

After a takeover the owner knows no followers yet: the nodes report them, each in its own time.
Until they have had time, changes are not announced; then all followers receive the complete
presence, so that sessions lost with the previous owner do not remain in their lists."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from hubbub.domain.notices import Member
from hubbub.engine.channels.announcements import Announcements
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.channels.watching import Watching
from hubbub.ports.bus import (
    Detach,
    FollowedState,
    Join,
    Leave,
    MembersQuery,
    OccupancyQuery,
    Occupy,
    Statement,
)
from hubbub.ports.clock import Clock

Channels = Mapping[tuple[str, str], Channel]


class ChannelPresence(OwnerRoom):
    """Presence in all channels of one owner, which opens and closes them."""

    def __init__(
        self, channels: Channels, announcements: Announcements, watching: Watching, clock: Clock
    ) -> None:
        self._channels = channels
        self._watching = watching
        self._announcements = announcements
        self._clock = clock
        self._settling: dict[int, int] = {}
        """Partitions whose followers are not all known yet, with the number of takeovers to wait
        for."""
        self._unsettled: dict[Channel, None] = {}
        self.owner_requests = {MembersQuery: self._members, OccupancyQuery: self._occupancy}

    async def _members(self, query: MembersQuery) -> tuple[Member, ...]:
        channel = self._channels.get(query.place)
        return channel.present() if channel is not None else ()

    async def _occupancy(self, query: OccupancyQuery) -> int:
        channel = self._channels.get(query.place)
        return channel.occupancy() if channel is not None else 0

    def await_followers(self, partitions: Collection[int], seconds: float) -> None:
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

    def heed(self, node: str, statement: Statement) -> None:
        """Handles a node's statement about a channel."""
        channel = self._channels.get(statement.place)
        if channel is None:
            return
        if isinstance(statement, Join):
            self._join(node, channel, statement.members)
        elif isinstance(statement, Leave):
            self._leave(node, channel, statement.session_ids)
        elif isinstance(statement, Occupy):
            self._occupy(node, channel, statement.count)
        elif isinstance(statement, Detach) and node in channel.nodes:
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

    def _join(self, node: str, channel: Channel, members: Sequence[Member]) -> None:
        if channel.rules.presence:
            for member in members:
                if channel.join(node, member):
                    self._presence_changed(channel)

    def _leave(self, node: str, channel: Channel, session_ids: Sequence[str]) -> None:
        for session_id in session_ids:
            if channel.leave(node, session_id):
                self._presence_changed(channel)

    def _occupy(self, node: str, channel: Channel, count: int) -> None:
        if channel.rules.occupancy:
            if channel.counts is None:
                channel.counts = {}
            if channel.counts.get(node) != count:
                channel.counts[node] = count
                self._occupancy_changed(channel)

    def renew(self, node: str, channel: Channel, following: FollowedState) -> None:
        """Replaces everything that a node had reported about a channel."""
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
        self._join(node, channel, members)
        self._occupy(node, channel, count)
        if channel.partition in self._settling:
            self._unsettled[channel] = None
        else:
            self._announcements.everything(channel, (node,))  # it may have missed a change

    def lose_node(self, node: str) -> None:
        """A node crashed or left: its sessions are removed."""
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
