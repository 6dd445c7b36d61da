"""Sends events from the owner of channels to the nodes that follow them.

Messages and heads are sent once, since receivers detect what they miss; joins, leaves and counts
are sent like requests, since nothing else would reveal their loss."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from hubbub.cluster import datagrams
from hubbub.cluster.datagrams import FeedDatagram, Head, Heads
from hubbub.cluster.sending import Requests
from hubbub.cluster.service import Service
from hubbub.cluster.transport import Transport
from hubbub.domain.asking import FeedEvent, NodeLane
from hubbub.domain.errors import HubbubError
from hubbub.domain.names import PARTITIONS, partition_of
from hubbub.ports.bus import HeadAnnounced

TELL_LANES = PARTITIONS
"""The first of the lanes from owners to nodes; lanes of calls to owners have the numbers of the
partitions."""
HEADS_AT_ONCE = 500


class Emitter:
    """Sends the events of one node. `nodes` are all members."""

    def __init__(
        self,
        node: str,
        incarnation: str,
        transport: Transport,
        requests: Requests,
        nodes: Callable[[], Sequence[str]],
        service: Service,
    ) -> None:
        self._service = service
        self._node = node
        self._incarnation = incarnation
        self._transport = transport
        self._requests = requests
        self._nodes = nodes
        self._events = 0
        self._heads: dict[str, list[Head]] = {}
        self.closed = False

    def emit(self, nodes: Sequence[str], hub: str, channel: str, event: FeedEvent) -> None:
        for node in nodes:
            if node == self._node:
                self._service.sink.receive(hub, channel, event)
        others = [node for node in nodes if node != self._node]
        if not others:
            return
        if event.missed_shows:
            self._events += 1
            feed = FeedDatagram(self._node, self._incarnation, self._events, hub, channel, event)
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
        """Batched with all others of this turn of the event loop: there may be many thousands."""
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

    def _tell(self, node: str, partition: int, call: datagrams.Tell[FeedEvent]) -> None:
        """If the event is given up, the receiving node requests the whole state."""

        def conclude(value: Any, error: HubbubError | None) -> None:
            if error is not None and not self.closed and node in self._nodes():
                renew = datagrams.Renew((partition,))
                self._requests.send(node, NodeLane.HUB, renew, None, ignore)

        self._requests.send(node, TELL_LANES + partition, call, None, conclude)


def ignore(value: Any, error: HubbubError | None) -> None:
    """A reply that nobody waits for."""
