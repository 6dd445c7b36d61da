"""The way from the owner of channels to the nodes that follow them.

Messages and heads are sent once, since receivers find out what they miss; joins, leaves and counts
are sent like requests, since nobody would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from hubbub.cluster import datagrams
from hubbub.cluster.datagrams import Feed, Head, Heads
from hubbub.cluster.sending import Requests
from hubbub.cluster.service import Service
from hubbub.cluster.transport import Transport
from hubbub.domain.errors import HubbubError
from hubbub.domain.names import PARTITIONS, partition_of
from hubbub.ports.bus import DocumentChanged, FeedEvent, HeadAnnounced, MessagePublished

HUB_LANE = -1
"""The lane of what concerns a whole hub; those of calls to owners are numbered like the
partitions."""
TELL_LANES = PARTITIONS
"""The first of the lanes from owners to nodes."""
HEADS_AT_ONCE = 500


class Emitter:
    """Of one node. `nodes` are all members."""

    def __init__(
        self,
        node: str,
        incarnation: str,
        transport: Transport,
        requests: Requests,
        nodes: Callable[[], Sequence[str]],
    ) -> None:
        self._node = node
        self._incarnation = incarnation
        self._transport = transport
        self._requests = requests
        self._nodes = nodes
        self._events = 0
        self._heads: dict[str, list[Head]] = {}
        self.closed = False
        self.service: Service

    def emit(self, nodes: Sequence[str], hub: str, channel: str, event: FeedEvent) -> None:
        for node in nodes:
            if node == self._node:
                self.service.sink.receive(hub, channel, event)
        others = [node for node in nodes if node != self._node]
        if not others:
            return
        if isinstance(event, MessagePublished | DocumentChanged):
            self._events += 1
            feed = Feed(self._node, self._incarnation, self._events, hub, channel, event)
            data = datagrams.encode(feed)
            for node in others:
                self._transport.send(node, data)
        elif isinstance(event, HeadAnnounced):
            head = Head(hub, channel, event.epoch, event.head, event.document)
            for node in others:
                self._announce(node, head)
        else:
            partition = partition_of(hub, channel)
            for node in others:
                self._tell(node, partition, datagrams.Tell(hub, channel, event))

    def _announce(self, node: str, head: Head) -> None:
        """Together with all others of this turn of the loop: there can be many thousands."""
        if not self._heads:
            asyncio.get_running_loop().call_soon(self._announce_now)
        self._heads.setdefault(node, []).append(head)

    def _announce_now(self) -> None:
        waiting, self._heads = self._heads, {}
        for node, heads in waiting.items():
            for at in range(0, len(heads), HEADS_AT_ONCE):
                part = tuple(heads[at : at + HEADS_AT_ONCE])
                data = datagrams.encode(Heads(self._node, self._incarnation, part))
                self._transport.send(node, data)

    def _tell(self, node: str, partition: int, call: datagrams.Tell) -> None:
        """If it is given up, the node asks again how everything stands."""

        def conclude(value: Any, error: HubbubError | None) -> None:
            if error is not None and not self.closed and node in self._nodes():
                renew = datagrams.Renew((partition,))
                self._requests.send(node, HUB_LANE, renew, None, ignore)

        self._requests.send(node, TELL_LANES + partition, call, None, conclude)


def ignore(value: Any, error: HubbubError | None) -> None:
    """Nobody waits for the answer."""
