"""How notifications plug in."""

from __future__ import annotations

from hubbub.domain.names import ChannelKind
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.channels.parts import OwnerParts
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.delivery.feed_part import RoomFeeds
from hubbub.engine.node import Node
from hubbub.engine.notifications.feed import NotificationFeed
from hubbub.engine.notifications.owner import NotificationOwner
from hubbub.engine.notifications.requests import NotificationRequests
from hubbub.engine.notifications.service import NotificationService
from hubbub.ports.journal import Journal
from hubbub.ports.storage import Store

FEEDS = RoomFeeds({ChannelKind.NOTIFICATION: NotificationFeed})


def at_node(node: Node, store: Store) -> tuple[object, ...]:
    service = NotificationService(node.bus, node.clock, node.limits, node.access, node.publisher)
    return service, NotificationRequests(service)


def at_owner(parts: OwnerParts, access: AccessRegistry, journal: Journal) -> tuple[OwnerRoom, ...]:
    return (NotificationOwner(parts, journal),)
