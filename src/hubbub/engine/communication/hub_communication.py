"""The communication of one hub at the owner of its log: the parts, put together, configured and
stopped together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from hubbub.domain.errors import HubbubError
from hubbub.domain.rules import ADAPTERS, HubConfiguration
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.communication.callbacks import CallbackOutput, callback_kind
from hubbub.engine.communication.committing import AGAIN_SECONDS, Committer, Publish
from hubbub.engine.communication.exchange import Exchange
from hubbub.engine.communication.inputs import Inputs
from hubbub.engine.communication.instances import Instances, MakeContext
from hubbub.engine.communication.intake import Intake
from hubbub.engine.communication.journalling import CommunicationJournal
from hubbub.engine.communication.knowledge import PeerKnowledge
from hubbub.engine.communication.logins import Logins
from hubbub.engine.communication.shipping import Lanes
from hubbub.engine.directory import Directory
from hubbub.engine.outgoing import OutgoingGate
from hubbub.engine.outward.attempts import OutwardAttempts
from hubbub.ports.adapters import AdapterKinds
from hubbub.ports.clock import Clock
from hubbub.ports.directories import NotificationCallback, PeerDirectory
from hubbub.ports.journal import Journal
from hubbub.ports.storage import Store
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class CommunicationParts:
    """What all hubs of a node use. `publish` reaches the owner of channels on this node, `terms`
    are its. `next_id` makes the id of a new message of a hub."""

    store: Store
    clock: Clock
    journal: Journal
    directory: Directory
    access: AccessRegistry
    outgoing: OutgoingGate
    attempts: OutwardAttempts
    publish: Publish
    terms: Mapping[int, int]
    kinds: AdapterKinds
    make_context: MakeContext
    next_id: Callable[[str], str]
    tasks: TaskSet = field(default_factory=TaskSet)
    directories: list[PeerDirectory] = field(default_factory=list)
    callbacks: list[NotificationCallback] = field(default_factory=list)


class HubCommunication:
    """One hub: its exchange, its input adapters, its logins."""

    def __init__(self, parts: CommunicationParts, hub: str) -> None:
        self.hub = hub
        self._parts = parts
        configuration = parts.directory.get(hub)
        clock, store = parts.clock, parts.store
        knowledge = PeerKnowledge(
            hub, store, clock, parts.directory.get, parts.outgoing, parts.directories
        )
        instances = Instances(hub, parts.kinds, parts.make_context, clock)
        journal = CommunicationJournal(hub, parts.journal, clock)
        self.logins = Logins(hub, store, knowledge, clock)
        self.exchange = Exchange(
            hub,
            store=store,
            clock=clock,
            journal=journal,
            configuration=configuration,
            committer=Committer(hub, store, parts.publish, parts.terms),
            knowledge=knowledge,
            instances=instances,
            make_lanes=lambda done: Lanes(
                hub,
                parts.outgoing,
                parts.attempts,
                instances,
                knowledge,
                clock,
                journal,
                done,
                self._holds,
            ),
            callbacks=parts.callbacks,
            before_timeout=lambda message: self.inputs.last_look(message),
        )
        self.intake = Intake(
            hub,
            store=store,
            clock=clock,
            journal=journal,
            exchange=self.exchange,
            logins=self.logins,
            next_id=parts.next_id,
        )
        take, tell = self.intake.take_in, self.intake.tell_refused
        self.inputs = Inputs(instances, clock, take, self._remove_adapter, tell)
        self._instances = instances
        self._add_callbacks(configuration)
        self.ready = parts.tasks.start(self._load())

    async def _load(self) -> None:
        while True:
            try:
                await self.exchange.load(self.logins.hold)
                break
            except HubbubError as error:
                logger.warning("hub %s: messages cannot be read yet: %s", self.hub, error.message)
            await asyncio.sleep(AGAIN_SECONDS)
        if self.exchange.configuration.settings.communication.tokens == "off":
            self._let_go()
        self.inputs.configure()

    def _let_go(self) -> None:
        """Of messages that are held, those that need no token any more."""
        free = self.logins.take_free(self.exchange.configuration.settings.communication)
        if free:
            self._parts.tasks.start(self.intake.let_go(free))

    def configure(self, configuration: HubConfiguration) -> None:
        tokens = self.exchange.configuration.settings.communication.tokens
        self.exchange.knowledge.forget_all()
        self.exchange.configure(configuration)
        self._add_callbacks(configuration)
        if self.ready.done():
            self.inputs.configure()
            if configuration.settings.communication.tokens != tokens:
                self._let_go()

    def _add_callbacks(self, configuration: HubConfiguration) -> None:
        """Notification callbacks are output adapters of the hub's own."""
        reach = configuration.settings.callback_addresses
        self._instances.add_internal(
            {
                f"callback:{name}": callback_kind(
                    lambda settings, context, url=each: CallbackOutput(
                        self.hub, url, reach, self._parts.outgoing
                    )
                )
                for name, each in configuration.callbacks.items()
                if "notify" in each.roles
            }
        )

    async def _holds(self, subscription: str) -> bool:
        """Queues delay: access may have been taken away since the message was handed over."""
        found = await self._parts.store.read_webhook(self.hub, subscription)
        if found is None or found.acting is None:
            return False
        return self._parts.access.may_stay(self.hub, found.acting, found.channel)

    async def _remove_adapter(self, name: str) -> None:
        """From the settings of the hub: it has done what it was for."""
        await self._parts.directory.delete(self.hub, ADAPTERS.kind, name)

    async def peers_changed(self, peers: Collection[str]) -> None:
        self.exchange.knowledge.forget(peers)
        found = dict(await self._parts.store.read_peers(self.hub, list(peers)))
        for peer in peers:
            self._instances.peer_changed(peer, found.get(peer))

    def forget(self, peer: str) -> None:
        """The peer is being erased."""
        for held in self.logins.forget(peer):
            self.exchange.drop_held(held.message.id)
        self.exchange.forget(peer)

    def sweep(self) -> None:
        self._instances.sweep()
        for held in self.logins.take_expired():
            self.exchange.expire(held)

    async def stop(self, seconds: float) -> None:
        self.ready.cancel()
        await self.inputs.stop()
        await self.exchange.stop(seconds)
