"""Wiring: constructs a whole hub from its parts, and starts and stops them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

from hubbub.connectors.analytics_process import AnalyticsProcess
from hubbub.domain.journal import PayloadRule
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.administration import Administration, Survey
from hubbub.engine.administration.analytics import AnalyticsAdministration
from hubbub.engine.administration.views import ConfiguredKey, JournalState
from hubbub.engine.node import RESTORE_FLUSH_SECONDS
from hubbub.engine.rooms import NodeRequests
from hubbub.engine.storing.hooks import Hook, StoringHooks
from hubbub.engine.topics.durable import DurableSubscriptions
from hubbub.ports.clock import Clock
from hubbub.server.access import HubAccess, login_settings, metrics_access
from hubbub.server.backup.hub_archives import UnpackedArchives
from hubbub.server.clock import SystemClock
from hubbub.server.doors import Listeners
from hubbub.server.foundation import Foundation
from hubbub.server.node import make_node
from hubbub.server.outgoing import OutgoingConnections
from hubbub.server.owning import OwnerSide
from hubbub.server.people import PeopleInProcess
from hubbub.server.plugins import make_plugins
from hubbub.server.services import Programs
from hubbub.server.settings import Settings, in_effect
from hubbub.server.settings.cluster_checks import workers_of
from hubbub.server.steps import Step, Steps
from hubbub.server.suspension import HubSuspension
from hubbub.server.telemetry import HubCollector, LagCollector, RoomCollector, Telemetry
from hubbub.server.telemetry.cluster import ClusterCollector
from hubbub.server.telemetry.process import LoopLag, process_usage
from hubbub.server.telemetry.push import PushCollector
from hubbub.server.telemetry.webhooks import WebhookCollector
from hubbub.server.upkeep import PeriodicWork

EXPIRY_INTERVAL_SECONDS = 60.0
RELOAD_SECONDS = 1.0
"""The interval at which developer mode checks for changed plugins."""
WAREHOUSE = "warehouse"
"""The folder of the data pipeline's tables, in the data folder."""


class Server:
    """A whole hub in one process: create it, `start` it, `stop` it. Its parts are public for
    embedding and for tests."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None = None,
        stop_requested: asyncio.Event | None = None,
    ) -> None:
        """`stop_requested` is set when an administrator asks for the end: then call `stop`. Raises
        `StoreUnavailable` and `SettingsError`."""
        self.settings = settings
        self.stop_requested = stop_requested or asyncio.Event()
        clock = clock or SystemClock()
        self._base = base = Foundation(settings, clock, self._journal_rule)
        self.store, self.journal = base.store, base.writer
        self._outgoing = outgoing = OutgoingConnections(settings)
        self._access = access = HubAccess(settings, clock, self.store, base.bus, outgoing.gate)
        self.revocations, self.directory = access.revocations, access.directory
        self.key_source, self.tokens = access.key_source, access.tokens
        node_name = base.fabric.node_name
        self.programs = Programs(settings, clock, outgoing.gate, base.streams, node_name)
        self.plugins = make_plugins(settings.hcommands)
        self._hooks = StoringHooks(self.plugins)
        self.node = make_node(base, access, outgoing, self.programs, self._hooks, self.plugins)
        self._survey = Survey(self.node, node_name, base.fabric.facts, process_usage)
        self._owning = owning = OwnerSide(settings, base, access, outgoing, self.node, self._survey)
        self.owner, self.driver = owning.owner, owning.driver
        self.push, self.push_credentials = owning.push, owning.push_credentials
        self.communication = owning.communication
        self.people = PeopleInProcess(owning.communication, access.directory)
        self.subscriptions = self.owner.room(DurableSubscriptions)
        self.administration = self._make_administration()
        self._loop_lag = LoopLag()
        self._telemetry = self._make_telemetry()
        self._doors = Listeners(
            settings, self.node, self.administration, self._telemetry.pages, node_name
        )
        self._connect()
        self.tickets, self.listener = self._doors.tickets, self._doors.listener
        self.admin_door, self.door = self._doors.admin, self._doors.zeromq
        self._started = False
        self.steps = self._make_steps()
        self._running = Steps(self.steps)

    def _make_administration(self) -> Administration:
        settings, data = self.settings, Path(self.settings.storage.path)
        administration = Administration(
            node=self.node,
            store=self.store,
            revocations=self.revocations,
            authenticator=self.programs.authenticator,
            login=login_settings(settings),
            survey=self._survey,
            configuration=[ConfiguredKey(*each) for each in in_effect(settings)],
            analytics=AnalyticsAdministration(
                self.node, AnalyticsProcess(data / WAREHOUSE), self._journal_state
            ),
            credentials=self.push_credentials,
            push=self.push,
            adapters=self.communication.parts.kinds,
            archives=UnpackedArchives(data),
            suspending=HubSuspension(self.store, self.directory, self.owner, self.node),
            request_stop=self._stop_request(),
        )
        self.programs.prepare(administration)
        return administration

    def _make_telemetry(self) -> Telemetry:
        fabric, lags = self._base.fabric, self._owning.lags
        workers = None
        if self.settings.worker is not None:
            workers = self._survey, workers_of(fabric.node_name)
        return Telemetry(
            (
                HubCollector(
                    self.node,
                    self.owner,
                    self._problem,
                    lambda: self.listener.http_connections,
                    self.journal,
                    self.programs.nats_connected,
                    self._loop_lag,
                ),
                RoomCollector(self.node, self.owner),
                LagCollector(self.node, lags),
                WebhookCollector(self.node, self.driver),
                PushCollector(self.push),
                ClusterCollector(fabric.figures),
            ),
            metrics_access(self.settings, self.node),
            self._missing,
            self._problem,
            workers,
        )

    def _connect(self) -> None:
        requests = NodeRequests(
            self.directory.node_requests.items(),
            self.owner.node_requests,
            self.node.node_requests,
            self._survey.node_requests.items(),
            self._owning.lags.node_requests.items(),
            self.administration.restores.node_requests.items(),
            self._telemetry.node_requests.items(),
        )
        self._base.fabric.connect(self.owner, self.node, requests)

    def _make_steps(self) -> list[Step]:
        """A part starts before those that use it, and stops after them. So at the end, first no new
        connections are accepted; then the channels move to other nodes while sessions continue;
        then sessions are told to reconnect, and accepted messages are stored."""
        base, fabric, plugins = self._base, self._base.fabric, self.plugins
        ticker, restores = self.administration.ticker, self.administration.restores
        return [
            *base.storage_steps(),
            Step("settings", self._prepare_settings),
            *base.journal_steps(),
            Step("outgoing connections", stop=self._outgoing.close),
            Step("services", self.programs.open, self.programs.close),
            Step("fabric", fabric.open, fabric.close),
            Step("connections", stop=self.listener.close),
            Step("channels", stop=self.owner.stop),
            *([] if plugins is None else [Step("plugins", plugins.start, plugins.stop)]),
            Step("sessions", stop=self.node.drain),
            Step("dashboard", stop=ticker.stop),
            Step("administration", stop=self._doors.admin.settle),
            Step("membership", self._join, self._leave),
            Step("restores", restores.clear, restores.stop),
            *self._doors.steps(),
            Step("services' requests", self.programs.serve, self.programs.stop_serving),
            Step("telemetry", self._loop_lag.start, self._loop_lag.stop),
            *self._upkeep_steps(),
        ]

    def _upkeep_steps(self) -> list[Step]:
        limits, owner = self._base.limits, self.owner
        works = [
            (1.0, self.sweep),
            (RESTORE_FLUSH_SECONDS, self.node.restore_keys.flush),
            (limits.settings_reread_seconds, self.reread),
            (EXPIRY_INTERVAL_SECONDS, self.delete_expired),
            (limits.retention_seconds, self._owning.retention.run),
            (limits.retention_seconds, owner.expire),
            (limits.lag_seconds, self._owning.lags.run),
            (1.0, owner.stored_bytes.count_again),
        ]
        if self.plugins is not None and self.settings.developer:
            works.append((RELOAD_SECONDS, self.plugins.reload_changed))
        upkeep = PeriodicWork(works)
        return [Step("upkeep", upkeep.start, upkeep.stop)]

    @property
    def port(self) -> int:
        """The port of the listener, once it has started."""
        return self._doors.port

    @property
    def zeromq(self) -> str | None:
        """The address of the ZeroMQ endpoint, if there is one."""
        return self._doors.zeromq_endpoint

    @property
    def mqtt_ports(self) -> tuple[int, ...]:
        """The ports for MQTT that were opened, in the order of the settings."""
        return self._doors.mqtt_ports

    def add_validator(self, collection: str, validator: Hook) -> None:
        """Validates every document of the collection before it is stored; see
        `StoringHooks.add_validator`."""
        self._hooks.add_validator(collection, validator)

    def add_saver(self, collection: str, saver: Hook) -> None:
        """Call `saver` with every document of the collection that was stored, before its publisher
        hears of it."""
        self._hooks.add_saver(collection, saver)

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store, take ownership, listen. Raises `HubbubError` or `OSError`, after what was
        started by then has been stopped; another try takes another `Server`."""
        await self._running.start()
        self._started = True

    async def stop(self) -> None:
        """Drain: no new clients, the others told to reconnect, everything accepted on disk."""
        self._started = False
        await self._running.stop()

    async def _prepare_settings(self) -> None:
        await self._access.declare_hubs()
        await self.push_credentials.seal_again()

    async def _join(self) -> None:
        listener = self.settings.listener
        await self._base.fabric.join(f"{listener.host}:{listener.port}")

    async def _leave(self) -> None:
        """Cancels webhook and push requests in progress, which the next owner of their channels
        would repeat."""
        await self.owner.stop_rooms()
        await self._base.fabric.leave()

    def _stop_request(self) -> Callable[[], None]:
        """With several workers, stops all of them: their supervisor would restart a single one."""
        if self.settings.worker is None:
            return self.stop_requested.set
        supervisor = os.getppid()

        def request() -> None:
            if os.getppid() == supervisor:
                os.kill(supervisor, signal.SIGTERM)

        return request

    def announce_pause(self, begins: bool) -> None:
        """Announces a pause of this process, so that other nodes do not consider it dead."""
        self._base.fabric.announce_pause(begins)

    def _problem(self) -> str | None:
        return self.store.problem

    def _missing(self) -> str | None:
        if self.node.draining:
            return "the server is shutting down"
        if not self._started:
            return "the server is starting"
        if not self._base.fabric.takes_part:
            return "the node is not in the cluster yet; its log may say why"
        return None

    def _journal_state(self) -> JournalState | None:
        journal = self.journal
        if journal is None:
            return None
        return JournalState(journal.events, journal.lost, journal.buffered_bytes)

    def _journal_rule(self, hub: str, channel: str) -> PayloadRule:
        return self._access.journal_rule(hub, channel)

    # -- upkeep ---------------------------------------------------------------------------------

    async def sweep(self) -> None:
        self.node.sweep()
        self.store.look_again()
        self._survey.series.record()
        self.listener.sweep()
        self.owner.sweep()

    async def reread(self) -> None:
        """The safety net: a change that nobody heard of takes effect here at the latest."""
        await self.directory.refresh()
        self.node.hub_changed(ANY_HUB)
        self.tokens.reread_keys()

    async def delete_expired(self) -> None:
        now = int(self._base.clock.now() * 1000)
        await self.store.delete_expired(now)
        retention = int(self.settings.admin.audit_retention * 1000)
        await self.store.delete_audit_before(now - retention)
