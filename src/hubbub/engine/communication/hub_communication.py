"""Communication of one hub at the owner of its log: assembles, configures and stops the parts."""

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
from hubbub.engine.communication.dispatcher import Dispatcher
from hubbub.engine.communication.inputs import Inputs
from hubbub.engine.communication.instances import Instances, MakeContext
from hubbub.engine.communication.intake import Intake
from hubbub.engine.communication.journalling import CommunicationJournal
from hubbub.engine.communication.knowledge import PeerKnowledge
from hubbub.engine.communication.logins import Logins
from hubbub.engine.communication.shipping import AddressQueues
from hubbub.engine.directory import Directory
from hubbub.engine.outward.attempts import OutwardAttempts
from hubbub.engine.outward.gate import OutgoingGate
from hubbub.ports.adapters import AdapterKinds
from hubbub.ports.clock import Clock
from hubbub.ports.directories import NotificationCallback, PeerDirectory
from hubbub.ports.journal import Journal
from hubbub.ports.storage import Store
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class CommunicationParts:
    """Dependencies shared by all hubs of a node. `publish` calls the owner of channels on this
    node; `terms` are the owner's terms. `next_id` creates an id for a new message of a hub."""

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
    """One hub's dispatcher, input adapters and logins."""

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
        self.dispatcher = Dispatcher(
            hub,
            store=store,
            clock=clock,
            journal=journal,
            configuration=configuration,
            committer=Committer(hub, store, parts.publish, parts.terms),
            knowledge=knowledge,
            instances=instances,
            make_queues=lambda done: AddressQueues(
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
            dispatcher=self.dispatcher,
            logins=self.logins,
            next_id=parts.next_id,
        )
        take, tell = self.intake.take_in, self.intake.tell_refused
        self.inputs = Inputs(
            instances, clock, take, self._remove_adapter, tell, self.dispatcher.end_of
        )
        self._instances = instances
        self._add_callbacks(configuration)
        self.ready = parts.tasks.start(self._load())

    async def _load(self) -> None:
        while True:
            try:
                await self.dispatcher.load(self.logins.hold)
                break
            except HubbubError as error:
                logger.warning("hub %s: messages cannot be read yet: %s", self.hub, error)
            await asyncio.sleep(AGAIN_SECONDS)
        if self.dispatcher.configuration.settings.communication.tokens == "off":
            self._let_go()
        self.inputs.configure()

    def _let_go(self) -> None:
        """Releases held messages that no longer need a token."""
        free = self.logins.take_free(self.dispatcher.configuration.settings.communication)
        if free:
            self._parts.tasks.start(self.intake.let_go(free))

    def configure(self, configuration: HubConfiguration) -> None:
        tokens = self.dispatcher.configuration.settings.communication.tokens
        self.dispatcher.knowledge.forget_all()
        self.dispatcher.configure(configuration)
        self._add_callbacks(configuration)
        if self.ready.done():
            self.inputs.configure()
            if configuration.settings.communication.tokens != tokens:
                self._let_go()

    def _add_callbacks(self, configuration: HubConfiguration) -> None:
        """Registers notification callbacks as internal output adapters."""
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
        """Whether the peer subscription exists and may still read its channel: access may have been
        revoked while the message was queued."""
        found = await self._parts.store.read_webhook(self.hub, subscription)
        if found is None or found.acting is None:
            return False
        return self._parts.access.may_stay(self.hub, found.acting, found.channel)

    async def _remove_adapter(self, name: str) -> None:
        """Removes an adapter that has served its purpose from the hub's settings."""
        await self._parts.directory.delete(self.hub, ADAPTERS.kind, name)

    async def peers_changed(self, peers: Collection[str]) -> None:
        self.dispatcher.knowledge.forget(peers)
        found = dict(await self._parts.store.read_peers(self.hub, list(peers)))
        for peer in peers:
            self._instances.peer_changed(peer, found.get(peer))

    def forget(self, peer: str) -> None:
        """Drops the state of a peer that is being erased."""
        for held in self.logins.forget(peer):
            self.dispatcher.drop_held(held.message.id)
        self.dispatcher.forget(peer)

    def sweep(self) -> None:
        self._instances.sweep()
        for held in self.logins.take_expired():
            self.dispatcher.expire(held)

    async def stop(self, seconds: float) -> None:
        self.ready.cancel()
        await self.inputs.stop()
        await self.dispatcher.stop(seconds)
