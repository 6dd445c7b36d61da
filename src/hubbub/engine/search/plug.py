"""How search plugs in."""

from __future__ import annotations

from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.channels.parts import OwnerParts
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.delivery.feed_part import RoomFeeds
from hubbub.engine.node import Node
from hubbub.engine.search.indexing import SearchIndexing
from hubbub.engine.search.requests import SearchRequests
from hubbub.engine.search.service import SearchService
from hubbub.ports.journal import Journal
from hubbub.ports.storage import Store

FEEDS = RoomFeeds()


def at_node(node: Node, store: Store) -> tuple[object, ...]:
    service = SearchService(store, node.bus, node.clock)
    return service, SearchRequests(service)


def at_owner(parts: OwnerParts, access: AccessRegistry, journal: Journal) -> tuple[OwnerRoom, ...]:
    return (SearchIndexing(parts.store, parts.terms, parts.configuration_of),)
