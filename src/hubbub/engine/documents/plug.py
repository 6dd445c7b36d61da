"""How documents plug in."""

from __future__ import annotations

from hubbub.domain.names import ChannelKind
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.channels.parts import OwnerParts
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.delivery.feed_part import RoomFeeds
from hubbub.engine.documents.feed import DocumentFeed
from hubbub.engine.documents.owner import DocumentOwner
from hubbub.engine.documents.requests import DocumentRequests
from hubbub.engine.documents.service import Documents
from hubbub.engine.documents.settings import DocumentSettings
from hubbub.engine.node import Node
from hubbub.ports.journal import Journal
from hubbub.ports.storage import Store

FEEDS = RoomFeeds({ChannelKind.DOCUMENT: DocumentFeed})


def at_node(node: Node, store: Store) -> tuple[object, ...]:
    limits = node.limits.of(DocumentSettings).limits
    service = Documents(node.bus, node.publisher, limits)
    return service, DocumentRequests(service)


def at_owner(parts: OwnerParts, access: AccessRegistry, journal: Journal) -> tuple[OwnerRoom, ...]:
    return (DocumentOwner(parts, parts.limits.of(DocumentSettings).limits, journal),)
