"""Builds the push service."""

from __future__ import annotations

from collections.abc import Mapping

from hubbub.engine.administration import Survey
from hubbub.engine.node import Node
from hubbub.engine.push.audience import PushAudience
from hubbub.engine.push.authorizing import Authorizations
from hubbub.engine.push.credentials import PushCredentials
from hubbub.engine.push.devices import PushDevices
from hubbub.engine.push.driver import PushDriver
from hubbub.engine.push.followings import PushFollowings
from hubbub.engine.push.limits import PushSettings
from hubbub.engine.push.sealing import Vault
from hubbub.engine.push.sending import PushSender
from hubbub.ports.outgoing import HttpSender
from hubbub.ports.storage import Store


def make_credentials(node: Node, store: Store) -> PushCredentials:
    return PushCredentials(store, Vault(lambda: node.tokens.sealing_keys), node.clock)


def make_push(
    settings: PushSettings,
    node: Node,
    terms: Mapping[int, int],
    store: Store,
    survey: Survey,
    credentials: PushCredentials,
    http2: HttpSender,
) -> PushDriver:
    """Builds the driver. `terms` are those of the partitions that this node owns."""
    directory, clock, gate = node.directory, node.clock, node.outgoing
    sender = PushSender(
        gate=gate,
        http2=http2,
        credentials=credentials,
        authorizations=Authorizations(gate, settings, clock),
        configuration_of=directory.get,
        settings=settings,
        clock=clock,
    )
    return PushDriver(
        store=store,
        clock=clock,
        configuration_of=directory.get,
        hubs=directory.names,
        owns=terms.__contains__,
        audience=PushAudience(
            node.feature(PushDevices),
            node.feature(PushFollowings),
            directory.get,
            survey.subscribed,
            clock,
        ),
        followings=node.feature(PushFollowings),
        credentials=credentials,
        sender=sender,
        settings=settings,
        journal=node.journal,
    )
