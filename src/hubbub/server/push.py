"""The parts of push, put together."""

from __future__ import annotations

from hubbub.engine.administration import Survey
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.node import Node
from hubbub.engine.push.audience import Audience
from hubbub.engine.push.authorizing import Authorizations
from hubbub.engine.push.credentials import PushCredentials
from hubbub.engine.push.driver import PushDriver
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
    owner: ChannelOwner,
    store: Store,
    survey: Survey,
    credentials: PushCredentials,
    http2: HttpSender,
) -> PushDriver:
    """The driver, which the owner hands messages to from now on."""
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
    driver = PushDriver(
        store=store,
        clock=clock,
        configuration_of=directory.get,
        hubs=directory.names,
        owns=owner.terms.__contains__,
        audience=Audience(node.devices, node.followings, directory.get, survey.subscribed, clock),
        followings=node.followings,
        credentials=credentials,
        sender=sender,
        settings=settings,
        journal=node.journal,
    )
    owner.push = driver
    return driver
