"""The parts of the communication service, put together."""

from __future__ import annotations

from hubbub.connectors.adapters.dial import CheckedDial
from hubbub.connectors.resolving import Resolver
from hubbub.domain.callbacks import Reach
from hubbub.domain.communication.peers import Address
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.communication.driver import CommunicationDriver
from hubbub.engine.communication.http_inputs import HttpInputs
from hubbub.engine.communication.hub_channels import ChannelsOfHub
from hubbub.engine.communication.hub_communication import CommunicationParts
from hubbub.engine.node import Node
from hubbub.engine.outward.attempts import OutwardAttempts
from hubbub.engine.push.driver import PushDriver
from hubbub.engine.push.reaching import DevicesOfHub
from hubbub.engine.webhooks.limits import WebhookLimits
from hubbub.ports.adapters import AdapterContext
from hubbub.ports.storage import Store
from hubbub.server.adapters import make_adapter_kinds
from hubbub.server.settings.adapters import Adapters


def make_communication(
    node: Node,
    owner: ChannelOwner,
    store: Store,
    push: PushDriver,
    limits: WebhookLimits,
    settings: Adapters,
) -> CommunicationDriver:
    """The driver, which the owner asks from now on."""
    files = settings.files
    resolver = Resolver()

    def make_context(hub: str, name: str, address: Address | None) -> AdapterContext:
        def reach() -> Reach:
            return node.directory.get(hub).settings.callback_addresses

        return AdapterContext(
            hub=hub,
            name=name,
            outgoing=node.outgoing,
            dial=CheckedDial(resolver, hub, reach),
            channels=ChannelsOfHub(node, hub),
            devices=DevicesOfHub(hub, node.devices, push),
            clock=node.clock,
            reach_of_hub=reach,
            files=None if files is None else files / hub,
            address=address,
        )

    kinds = make_adapter_kinds(settings)
    take_in = node.communication.take_in
    node.communication.http_inputs = HttpInputs(kinds, make_context, take_in)
    parts = CommunicationParts(
        store=store,
        clock=node.clock,
        journal=node.journal,
        directory=node.directory,
        access=node.access,
        outgoing=node.outgoing,
        attempts=OutwardAttempts(node.outgoing, node.clock, limits),
        publish=owner.publish,
        terms=owner.terms,
        kinds=kinds,
        make_context=make_context,
        next_id=lambda hub: node.hub(hub).next_message_id(),
    )
    driver = CommunicationDriver(parts, limits.stop_seconds, resolver.close)
    owner.communication = driver
    return driver
