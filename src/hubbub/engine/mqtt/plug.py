"""How devices plug in."""

from __future__ import annotations

from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.channels.parts import OwnerParts
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.delivery.feed_part import RoomFeeds
from hubbub.engine.mqtt.devices import ConnectedDevices
from hubbub.engine.mqtt.filters import FilterRequests
from hubbub.engine.mqtt.kept import KeptSessions
from hubbub.engine.node import Node
from hubbub.ports.journal import Journal
from hubbub.ports.storage import Store

FEEDS = RoomFeeds()


def at_node(node: Node, store: Store) -> tuple[object, ...]:
    return (
        ConnectedDevices(node.bus),
        KeptSessions(store, node.clock, node.tasks, node.directory.get),
        FilterRequests(node.subscriptions, store, node.clock, node.limits),
    )


def at_owner(parts: OwnerParts, access: AccessRegistry, journal: Journal) -> tuple[OwnerRoom, ...]:
    return ()
