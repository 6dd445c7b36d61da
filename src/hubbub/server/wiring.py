"""Wiring: the only place that knows which adapter stands behind which port."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from hubbub import __version__
from hubbub.connectors.analytics_process import AnalyticsProcess
from hubbub.connectors.http2_out import Http2Out
from hubbub.connectors.http_out import HttpOut
from hubbub.connectors.jwks_http import HttpKeySource
from hubbub.domain.documents.values import DocumentLimits
from hubbub.domain.errors import HubbubError, StoreUnavailable
from hubbub.domain.journal import PayloadRule
from hubbub.domain.rules import HubConfiguration
from hubbub.engine.access.issuers import Issuers
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.access.revocations import ANY_HUB, Revocations
from hubbub.engine.access.throttle import Throttle
from hubbub.engine.access.tickets import Tickets
from hubbub.engine.administration import Administration, Survey
from hubbub.engine.administration.views import ConfiguredKey, JournalState
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.channels.retention import Retention
from hubbub.engine.commands.collections import Collections
from hubbub.engine.commands.plugins import PluginCommands
from hubbub.engine.directory import Directory
from hubbub.engine.limits import EngineLimits
from hubbub.engine.node import RESTORE_FLUSH_SECONDS, Node
from hubbub.engine.outgoing import OutgoingGate
from hubbub.engine.storing.hooks import Hook, StoringHooks
from hubbub.engine.storing.publications import Publications
from hubbub.engine.topics.lags import LagSurvey
from hubbub.engine.webhooks.driver import Driver
from hubbub.gateways.admin_door import AdminDoor, Application
from hubbub.gateways.dashboard.door import About, DashboardDoor
from hubbub.gateways.dashboard.login import DashboardLogin
from hubbub.gateways.listener import Listener, tls_context
from hubbub.gateways.outlet import transmit
from hubbub.ports.clock import Clock
from hubbub.ports.journal import NO_JOURNAL
from hubbub.server.access import login_settings, make_tokens, metrics_access
from hubbub.server.backup.hub_archives import UnpackedArchives
from hubbub.server.backup.restore import complete_restore
from hubbub.server.clock import SystemClock
from hubbub.server.communication import make_communication
from hubbub.server.developer_pages import developer_pages
from hubbub.server.fabric import make_fabric
from hubbub.server.journals import make_journal
from hubbub.server.plugins import make_plugins
from hubbub.server.push import make_credentials, make_push
from hubbub.server.services import Programs
from hubbub.server.settings import Settings, in_effect
from hubbub.server.settings.cluster_checks import workers_of
from hubbub.server.settings.keys import Document as DocumentSettings
from hubbub.server.stores import make_store
from hubbub.server.suspension import HubSuspension
from hubbub.server.telemetry import Telemetry
from hubbub.server.telemetry.loop import LoopLag
from hubbub.server.tracing import make_tracing
from hubbub.server.usage import process_usage
from hubbub.server.web_files import dashboard_files, docs_files, sdk_files
from hubbub.server.webhooks import webhook_limits
from hubbub.server.zeromq import make_door

logger = logging.getLogger(__name__)

EXPIRY_INTERVAL_SECONDS = 60.0
RELOAD_SECONDS = 1.0
"""How often developer mode looks for changed plugins."""
WAREHOUSE = "warehouse"
"""Where the data pipeline keeps its tables, in the data folder."""

Work = Callable[[], Awaitable[None]]


class Server:
    """A whole hub in one process: build it, `start` it, `stop` it. Its parts are public for those
    who embed it and for tests."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None = None,
        stop_requested: asyncio.Event | None = None,
    ) -> None:
        """`stop_requested` is set when an administrator asks for the end: then call `stop`."""
        self.settings = settings
        self.port = 0
        self.zeromq: str | None = None
        """Where the ZeroMQ door is, if there is one."""
        self.stop_requested = stop_requested or asyncio.Event()
        clock = clock or SystemClock()
        limits = engine_limits(settings)
        data = Path(settings.storage.path)
        _make_ready(data)
        self._limits = limits
        self.store = make_store(settings)
        self._spans = spans = make_tracing(settings)
        self._fabric = make_fabric(settings, clock, self.store, self._reread_hub, spans)
        self._bus = self._fabric.bus
        self.journal = make_journal(
            settings, clock, self.store, self._journal_rule, self._fabric.node_name
        )
        self.revocations = Revocations(self.store, clock)
        self.directory = Directory(
            self.store,
            self._bus,
            _dynamic(settings) if limits.dynamic_hubs else None,
            self.revocations,
        )
        webhooks = webhook_limits(settings)
        self._sender = HttpOut()
        outgoing = OutgoingGate(self._sender, webhooks)
        self.key_source = HttpKeySource(outgoing)
        issuers = Issuers(self.directory.settings_of, self.key_source, clock)
        self.tokens = make_tokens(settings, clock, self.revocations, issuers)
        access = AccessRegistry(self.directory.get, self.tokens)
        streams = self.journal.streams if self.journal is not None else None
        self.programs = Programs(settings, clock, outgoing, streams, self._fabric.node_name)
        self.owner = ChannelOwner(
            store=self.store,
            clock=clock,
            configuration_of=self.directory.get,
            limits=limits,
            access=access,
            emit=self._bus.emit,
            publish=self._bus.publish,
            journal=self.journal or NO_JOURNAL,
            spans=spans,
        )
        self.node = Node(
            bus=self._bus,
            store=self.store,
            clock=clock,
            directory=self.directory,
            tokens=self.tokens,
            access=access,
            authenticator=self.programs.authenticator,
            transmit=transmit,
            limits=limits,
            caller=self.programs.caller,
            streams=self.programs.streams,
            journal=self.journal or NO_JOURNAL,
            webhooks=webhooks,
            outgoing=outgoing,
            throttle=Throttle(clock, settings.limits, settings.admin.logins_per_minute),
            spans=spans,
        )
        self._fabric.connect(self.owner, self.node)
        self.plugins = make_plugins(settings.hcommands)
        self._hooks = StoringHooks(self.plugins)
        self.node.commands.extensions.hooks = self._hooks
        if self.plugins is not None:
            self.node.publisher.publications = Publications(self._hooks)
            self.node.commands.extensions.plugins = PluginCommands(
                self.plugins,
                self.node.commands,
                Collections(
                    self.store,
                    clock,
                    self.node.publisher,
                    self.node.commands.records,
                    self.node.commands.history,
                ),
            )
        self.driver = self.owner.webhooks = Driver(
            store=self.store,
            clock=clock,
            topic=self._fabric.bus.topic,
            configuration_of=self.directory.get,
            access=access,
            outgoing=outgoing,
            limits=webhooks,
            publish_fetched=lambda hub, *fetched: self.node.webhooks.publish_fetched(
                self.node.hub(hub), *fetched
            ),
            journal=self.journal or NO_JOURNAL,
            spans=spans,
        )
        survey = self._survey = Survey(self.node, self._fabric.node_name, self._fabric.facts)
        self.push_credentials = make_credentials(self.node, self.store)
        self._http2 = Http2Out()
        self.push = make_push(
            settings.push,
            self.node,
            self.owner,
            self.store,
            survey,
            self.push_credentials,
            self._http2,
        )
        self.communication = make_communication(
            self.node, self.owner, self.store, self.push, webhooks, settings.adapters
        )
        self._retention = Retention(
            self.store,
            clock,
            self.owner,
            self.directory.get,
            self.store.read_exported if self.journal is not None else None,
        )
        self._lags = LagSurvey(self.store, self.owner, limits.lag_series)
        survey.lags = self._lags.of_hub
        survey.series.usage = process_usage
        self._loop_lag = LoopLag()
        telemetry = Telemetry(
            self.node,
            self.owner,
            self._lags,
            self._missing,
            self._http_connections,
            self.driver,
            self.push,
            metrics_access(settings, self.node),
            self.journal,
            self._fabric.figures,
            self.programs.nats_connected,
            self._loop_lag,
            None if settings.worker is None else (survey, workers_of(self._fabric.node_name)),
        )
        self.administration = Administration(
            node=self.node,
            store=self.store,
            revocations=self.revocations,
            authenticator=self.programs.authenticator,
            login=login_settings(settings),
            survey=survey,
            analytics=AnalyticsProcess(data / WAREHOUSE),
            credentials=self.push_credentials,
            push=self.push,
            adapters=self.communication.parts.kinds,
            archives=UnpackedArchives(data),
            suspending=HubSuspension(self.store, self.directory, self.owner, self.node),
            request_stop=self._stop_request(),
        )
        self.administration.configuration = [ConfiguredKey(*each) for each in in_effect(settings)]
        self.administration.analytics.journal = self._journal_state
        self.programs.prepare(self.administration)
        self.tickets = Tickets(clock) if settings.developer else None
        """For the dashboard."""
        self.admin_door = AdminDoor(self._application, settings.admin.request_timeout)
        self.listener = Listener(
            self.node,
            settings.listener,
            settings.connection,
            {
                "/metrics": telemetry.metrics,
                "/healthz": telemetry.health,
                "/readyz": telemetry.readiness,
                **(developer_pages() if settings.developer else {}),
            },
            self.admin_door,
            static={**sdk_files(), **docs_files()},
            dashboard=DashboardDoor(
                DashboardLogin(self.administration, self.tickets),
                self.admin_door,
                dashboard_files(),
                About(__version__, self._fabric.node_name, settings.developer),
            ),
            access_log=settings.debug.access_log,
            developer=settings.developer,
        )
        self.door = make_door(settings, self.node, self.administration.stop)
        self._clock = clock
        self._upkeep: list[asyncio.Task[None]] = []
        self._started = False

    def add_validator(self, collection: str, validator: Hook) -> None:
        """Have every document of the collection looked at before it is stored; see
        `StoringHooks.add_validator`."""
        self._hooks.add_validator(collection, validator)
        self._look_at_messages()

    def add_saver(self, collection: str, saver: Hook) -> None:
        """Call `saver` with every document of the collection that was stored, before its publisher
        hears of it."""
        self._hooks.add_saver(collection, saver)
        self._look_at_messages()

    def _look_at_messages(self) -> None:
        publisher = self.node.publisher
        publisher.publications = publisher.publications or Publications(self._hooks)

    async def start(self) -> None:
        """Open the store, take ownership, listen. Raises `HubbubError` or `OSError`."""
        await self.store.open()
        try:
            await self.programs.open()
            if self.plugins is not None:
                await self.plugins.start()
            await self.administration.restores.clear()
            await self.directory.declare(list(self.settings.hubs.values()))
            await self.push_credentials.seal_again()
            await self._fabric.open()
            await self._fabric.join(f"{self.settings.listener.host}:{self.settings.listener.port}")
            if self.door is not None:
                self.zeromq = await self.door.start()
            listener = self.settings.listener
            tls = None
            if listener.tls.certificate is not None and listener.tls.key is not None:
                tls = tls_context(str(listener.tls.certificate), str(listener.tls.key))
            shared = self.settings.worker is not None
            self.port = await self.listener.start(
                listener.host, listener.port, listener.backlog, tls, shared
            )
            await self.programs.serve()
        except BaseException:
            if self.door is not None:
                await self.door.stop()
            await self.programs.close()
            await self.driver.stop()
            await self.communication.stop()
            if self.plugins is not None:
                await self.plugins.stop()
            await self._fabric.close()
            await self.store.close()
            if self._spans is not None:
                await self._spans.close()
            raise
        if self.journal is not None:
            self.journal.start()
        self._loop_lag.start()
        self._upkeep = [
            self._every(1.0, self.sweep),
            self._every(RESTORE_FLUSH_SECONDS, self.node.restore_keys.flush),
            self._every(self._limits.settings_reread_seconds, self.reread),
            self._every(EXPIRY_INTERVAL_SECONDS, self.delete_expired),
            self._every(self._limits.retention_seconds, self._retention.run),
            self._every(self._limits.retention_seconds, self.owner.expire_notifications),
            self._every(self._limits.lag_seconds, self._lags.run),
        ]
        if self.settings.cluster.secret_key is not None:
            self._upkeep.append(self._every(1.0, self.owner.stored_bytes.count_again))
        if self.plugins is not None and self.settings.developer:
            self._upkeep.append(self._every(RELOAD_SECONDS, self.plugins.reload_changed))
        self._started = True

    async def stop(self) -> None:
        """Drain: no new clients, the others told to reconnect, everything accepted on disk."""
        self._started = False
        self._loop_lag.stop()
        for task in self._upkeep:
            task.cancel()
        await self.administration.restores.stop()
        await self.programs.stop_serving()
        await self.driver.stop()
        await self.communication.stop()
        await self.push.stop()
        await self._fabric.leave()
        await self.listener.stop()
        if self.door is not None:
            await self.door.stop()
        await self.admin_door.settle()
        await self.administration.ticker.stop()
        await self.node.drain()
        if self.plugins is not None:
            await self.plugins.stop()
        await self.owner.stop()
        await self.listener.close()
        await self._fabric.close()
        if self.journal is not None:
            await self.journal.stop()
        await self.programs.close()
        await self._sender.close()
        await self._http2.close()
        await self.store.close()
        if self._spans is not None:
            await self._spans.close()

    def _stop_request(self) -> Callable[[], None]:
        """Of several workers, all end: their supervisor would start a single one again."""
        if self.settings.worker is None:
            return self.stop_requested.set
        supervisor = os.getppid()

        def request() -> None:
            if os.getppid() == supervisor:
                os.kill(supervisor, signal.SIGTERM)

        return request

    def announce_pause(self, begins: bool) -> None:
        """Nothing will happen for a moment; others must not take this process for dead."""
        self._fabric.announce_pause(begins)

    async def _reread_hub(self, hub: str, channel: str | None) -> None:
        """Another node changed a hub's settings, or what the owner of a channel decided."""
        await self.directory.reload(hub, channel)

    def _missing(self) -> str | None:
        if self.node.draining:
            return "the server is shutting down"
        if not self._started:
            return "the server is starting"
        if not self._fabric.takes_part:
            return "the node is not in the cluster yet; its log may say why"
        return None

    def _http_connections(self) -> int:
        return self.listener.http_connections

    def _journal_state(self) -> JournalState | None:
        journal = self.journal
        if journal is None:
            return None
        return JournalState(journal.events, journal.lost, journal.buffered_bytes)

    def _journal_rule(self, hub: str, channel: str) -> PayloadRule:
        """What may be kept of a hub that is gone is nothing."""
        try:
            return self.directory.get(hub).rules_for(channel).journal
        except HubbubError:
            return "off"

    # -- upkeep ---------------------------------------------------------------------------------

    def _every(self, seconds: float, work: Work) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._repeat(seconds, work))

    async def _repeat(self, seconds: float, work: Work) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except HubbubError as error:
                logger.warning("upkeep failed, will try again: %s", error.message)
            except Exception:
                logger.exception("upkeep failed, will try again")

    async def sweep(self) -> None:
        self.node.sweep()
        self._survey.series.record()
        self.listener.sweep()
        self.owner.durable.sweep()
        self.driver.sweep()
        self.communication.sweep()
        self.owner.channels.close_idle(self._limits.channel_idle_seconds)

    def _application(self) -> Application:
        """Imported at the first request: most hubs of a cluster are never asked."""
        from hubbub.gateways.admin.table import make_application

        return make_application(self.administration)

    async def reread(self) -> None:
        """The safety net: a change that nobody heard of takes effect here at the latest."""
        await self.directory.refresh()
        self.node.hub_changed(ANY_HUB)
        self.tokens.reread_keys()

    async def delete_expired(self) -> None:
        now = int(self._clock.now() * 1000)
        await self.store.delete_expired(now)
        retention = int(self.settings.admin.audit_retention * 1000)
        await self.store.delete_audit_before(now - retention)


def _make_ready(data: Path) -> None:
    """Raises `StoreUnavailable`."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        if complete_restore(data):
            logger.warning("completed a restore of %s that had been cut short", data)
    except OSError as error:
        raise StoreUnavailable(
            f"the data folder {data} cannot be used ({error.strerror}); make it a folder that the"
            " hub's user may write to, or choose another (storage.path)"
        ) from error


def engine_limits(settings: Settings) -> EngineLimits:
    live_history = settings.engine.max_live_history_size
    return EngineLimits(
        traces_per_second=settings.tracing.max_per_second,
        live_history_messages=live_history if settings.channel.enable_live_history else 0,
        retain_seconds=settings.channel.retain_msg_duration,
        history_page=settings.channel.history_page_size,
        channel_idle_seconds=settings.channel.idle_timeout,
        hub_idle_seconds=settings.hub.close_timeout,
        dynamic_hubs=settings.engine.allow_dynamic_hubs,
        session_messages_per_second=settings.session.messages_per_second,
        session_burst=settings.session.message_burst,
        session_channels=settings.session.max_channels,
        session_patterns=settings.session.max_patterns,
        session_matches=settings.session.max_matches,
        hub_patterns=settings.hub.max_patterns,
        hub_matches=settings.hub.max_matches,
        message_bytes=settings.connection.ws.max_message_bytes,
        authenticate_within_seconds=settings.session.authenticate_timeout,
        ping_interval_seconds=settings.connection.ws.ping_interval,
        pong_timeout_seconds=settings.connection.ws.pong_timeout,
        stream_heartbeat_seconds=settings.connection.sse.heartbeat_interval,
        restore_seconds=settings.session.restore_ttl,
        token_seconds=settings.auth.token_ttl,
        notifications=settings.channel.max_notifications,
        notification_seconds=settings.channel.notification_retention,
        notification_bytes=settings.channel.max_notification_bytes,
        retention_seconds=settings.channel.retention_interval,
        lag_seconds=settings.channel.lag_interval,
        lag_series=settings.channel.lag_series,
        session_calls=settings.session.max_calls,
        hub_calls=settings.hub.max_calls,
        call_seconds=settings.hub.call_timeout,
        documents=_document_limits(settings.document),
        document_memory_bytes=settings.document.memory_bytes,
        subject_root=settings.broker.subject,
    )


def _document_limits(settings: DocumentSettings) -> DocumentLimits:
    return DocumentLimits(
        document_bytes=settings.max_bytes,
        request_bytes=settings.max_change_bytes,
        operations=settings.max_operations,
        depth=settings.max_depth,
        name_bytes=settings.max_name_bytes,
    )


def _dynamic(settings: Settings) -> Callable[[str], HubConfiguration]:
    demo = settings.hubs.get("demo") if settings.developer else None

    def make(hub: str) -> HubConfiguration:
        """In developer mode, hubs that come into being by use are as open as `demo`."""
        if demo is not None:
            return HubConfiguration(hub, demo.settings, demo.rules, demo.namespaces)
        return HubConfiguration(hub)

    return make
