"""Builds the communication service."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from msgspec.structs import replace

from hubbub.connectors.adapters import included
from hubbub.connectors.adapters.dial import CheckedDial
from hubbub.connectors.adapters.operator_files import load_folder
from hubbub.connectors.resolving import Resolver
from hubbub.domain.callbacks import Reach
from hubbub.domain.communication.peers import Address
from hubbub.engine.communication.driver import CommunicationDriver
from hubbub.engine.communication.http_inputs import HttpInputs
from hubbub.engine.communication.hub_channels import ChannelsOfHub
from hubbub.engine.communication.hub_communication import CommunicationParts
from hubbub.engine.communication.service import Communication
from hubbub.engine.node import Node
from hubbub.engine.outward.attempts import OutwardAttempts
from hubbub.engine.outward.limits import WebhookLimits
from hubbub.engine.push.devices import PushDevices
from hubbub.engine.push.driver import PushDriver
from hubbub.engine.push.reaching import DevicesOfHub
from hubbub.ports.adapters import AdapterContext, AdapterKinds, declared
from hubbub.ports.storage import Store
from hubbub.server.settings.adapters import AdapterFolders

logger = logging.getLogger(__name__)

_ANY_NUMBER = 10**9


def make_communication(
    node: Node,
    terms: Mapping[int, int],
    store: Store,
    push: PushDriver,
    limits: WebhookLimits,
    settings: AdapterFolders,
) -> CommunicationDriver:
    """Builds the driver. `terms` are those of the partitions that this node owns."""
    files = settings.files
    if settings.give_up_after is not None:
        forever = {"retries": _ANY_NUMBER, "refused_retries": _ANY_NUMBER}
        limits = replace(limits, give_up_seconds=settings.give_up_after, **forever)
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
            devices=DevicesOfHub(hub, node.feature(PushDevices), push),
            clock=node.clock,
            reach_of_hub=reach,
            files=None if files is None else files / hub,
            address=address,
        )

    kinds = _make_adapter_kinds(settings)
    take_in = node.feature(Communication).take_in
    node.feature(Communication).http_inputs = HttpInputs(kinds, make_context, take_in)
    parts = CommunicationParts(
        store=store,
        clock=node.clock,
        journal=node.journal,
        directory=node.directory,
        access=node.access,
        outgoing=node.outgoing,
        attempts=OutwardAttempts(node.outgoing, node.clock, limits),
        publish=node.bus.publish,
        terms=terms,
        kinds=kinds,
        make_context=make_context,
        next_id=lambda hub: node.hub(hub).next_message_id(),
    )
    return CommunicationDriver(parts, limits.stop_seconds, resolver.close)


def _make_adapter_kinds(settings: AdapterFolders) -> AdapterKinds:
    """Blocks while it loads the operator's files. Files that cannot be loaded are logged, and the
    server starts without them."""
    assert included.MODULES
    kinds = declared()
    if settings.path is not None:
        try:
            load_folder(settings.path, kinds)
        except OSError as error:
            logger.error("adapters.path %s cannot be read: %s", settings.path, error.strerror)
    return kinds
