"""The features of a hub: the rooms of an owner and of a node, and what each of them needs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.channels.parts import OwnerParts
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.channels.threads import HistoryReader
from hubbub.engine.commands.requests import CommandRequests
from hubbub.engine.commands.routing import ClientRouter
from hubbub.engine.commands.service import Commands
from hubbub.engine.commands.user_subscriptions import UserSubscriptions
from hubbub.engine.communication.service import Communication
from hubbub.engine.communication.subscriptions import PeerSubscriptions
from hubbub.engine.delivery.feed_part import RoomFeeds
from hubbub.engine.node import Node
from hubbub.engine.outward.limits import WebhookLimits
from hubbub.engine.push.devices import PushDevices
from hubbub.engine.push.followings import PushFollowings
from hubbub.engine.search.service import SearchService
from hubbub.engine.services.calls import Services
from hubbub.engine.services.consent import Consent
from hubbub.engine.services.requests import ServiceRequests
from hubbub.engine.storing.hooks import StoringHooks
from hubbub.engine.topic_creation import TopicMaker
from hubbub.engine.topics.durable import DurableSubscriptions
from hubbub.engine.topics.requests import TopicRequests
from hubbub.engine.topics.service import Topics
from hubbub.engine.webhooks.service import Webhooks
from hubbub.ports.journal import Journal
from hubbub.ports.plugins import Plugins
from hubbub.ports.storage import Store
from hubbub.rooms import modules

PLUGS = tuple(modules("engine", "plug"))
"""How the rooms of `hubbub.rooms` plug in."""


def owner_rooms(
    parts: OwnerParts,
    access: AccessRegistry,
    journal: Journal,
) -> tuple[OwnerRoom, ...]:
    """Constructs the features of an owner that concern nothing but its channels."""
    return (
        DurableSubscriptions(parts, access, journal),
        HistoryReader(parts.store, parts.terms),
        *chain.from_iterable(plug.at_owner(parts, access, journal) for plug in PLUGS),
    )


class NodeRooms:
    """Constructs the features of a node."""

    feeds = RoomFeeds().joined(plug.FEEDS for plug in PLUGS)

    def __init__(
        self,
        store: Store,
        maker: TopicMaker,
        services: Services,
        consent: Consent,
        webhooks: WebhookLimits,
        hooks: StoringHooks,
        plugins: Plugins | None,
    ) -> None:
        self._store = store
        self._maker = maker
        self._services = services
        self._consent = consent
        self._webhooks = webhooks
        self._hooks = hooks
        self._plugins = plugins

    def construct(self, node: Node) -> Iterator[object]:
        store, maker, bus, clock = self._store, self._maker, node.bus, node.clock
        limits, publisher = node.limits, node.publisher
        topics = Topics(bus, store, clock, publisher, maker, node.access)
        webhooks = Webhooks(
            bus, store, clock, topics, maker, node.directory, self._webhooks, node.outgoing
        )
        followings = PushFollowings(store, node.access, clock)
        router = ClientRouter(bus, clock, node.hubs)
        commands = Commands(
            store=store,
            bus=bus,
            clock=clock,
            directory=node.directory,
            publisher=publisher,
            filters=node.filters,
            limits=limits,
            router=router,
            hooks=self._hooks,
            plugins=self._plugins,
            search=partial(node.feature, SearchService),
        )
        if self._plugins is not None:
            self._hooks.serve(lambda call: commands.host(node.hub(call.hub), call.sender))
        yield from (
            topics,
            webhooks,
            followings,
            commands,
            router,
            self._services,
            Communication(bus, store),
            PeerSubscriptions(store, webhooks, maker, clock),
            PushDevices(store, node.tokens),
            TopicRequests(topics),
            ServiceRequests(self._services, self._consent, limits.session_calls),
            CommandRequests(commands, limits.session_calls),
            UserSubscriptions(store, node.subscriptions, node.hubs, node.tasks),
        )
        for plug in PLUGS:
            yield from plug.at_node(node, store)
