"""How the counters that survive a restart plug in."""

from __future__ import annotations

from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.channels.parts import OwnerParts
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.delivery.feed_part import RoomFeeds
from hubbub.engine.metering.recorder import Metering
from hubbub.engine.metering.service import KeptCounters
from hubbub.engine.node import Node
from hubbub.ports.journal import Journal
from hubbub.ports.storage import Store

FEEDS = RoomFeeds()


def at_node(node: Node, store: Store) -> tuple[object, ...]:
    return Metering(node, store), KeptCounters(store, node.clock)


def at_owner(parts: OwnerParts, access: AccessRegistry, journal: Journal) -> tuple[OwnerRoom, ...]:
    return ()
