"""The keys of the configuration: types, bounds and defaults; the docstring below a key is its
description. `docs/configuration.md` is generated from them.

A key's path is its attribute path in camelCase: `connection.ws.ping_interval` is
`connection.ws.pingInterval` in the file and `HUBBUB_CONNECTION_WS_PING_INTERVAL` in the
environment. Durations are in seconds unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from hubbub.cluster.nats_settings import NatsSettings
from hubbub.domain.rules import HubConfiguration
from hubbub.domain.secret import Secret as Secret
from hubbub.engine.access.throttle import CallerLimits
from hubbub.engine.outward.limits import WebhookSettings
from hubbub.engine.push.limits import PushSettings
from hubbub.gateways.settings import ConnectionSettings, ListenerSettings
from hubbub.rooms import modules
from hubbub.server.settings.adapters import AdapterFolders
from hubbub.server.settings.cluster import Cluster
from hubbub.server.settings.journal import JournalSettings
from hubbub.server.settings.plugins import HCommands
from hubbub.server.settings.storage import PostgresSettings, Storage
from hubbub.server.settings.streams import Streams
from hubbub.server.settings.tracing import Tracing
from hubbub.server.settings.zeromq import ZeroMq
from hubbub.settings_error import SettingsError as SettingsError

DAY = 86_400.0


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of each session."""

    messages_per_second: Annotated[int, Meta(ge=0, le=10_000_000)] = 100
    """Requests that a session may send per second, except heartbeats; 0 means no limit."""
    message_burst: Annotated[int, Meta(ge=1, le=10_000_000)] = 200
    """Requests that a session may send in a burst."""
    max_channels: Annotated[int, Meta(ge=1, le=1_000_000)] = 200
    """Channels that a session may subscribe to."""
    max_patterns: Annotated[int, Meta(ge=0, le=100)] = 20
    """Patterns (`room:*`) that a session may subscribe to."""
    max_matches: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Channels that a session may follow by patterns."""
    max_calls: Annotated[int, Meta(ge=1, le=10_000)] = 32
    """Calls of services and events for streams that a session may have in flight."""
    authenticate_timeout: Annotated[float, Meta(ge=0.1, le=3600)] = 10.0
    """Time to authenticate in a hub that does not allow anonymous sessions."""
    restore_ttl: Annotated[float, Meta(ge=0, le=7 * DAY)] = 120.0
    """Time in which a lost session can be restored."""


class HubTimingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Timing of every hub."""

    close_timeout: Annotated[float, Meta(ge=0, le=DAY)] = 60.0
    """Time without sessions before a hub is unloaded from memory."""
    max_patterns: Annotated[int, Meta(ge=0, le=1000)] = 100
    """Different patterns to which the sessions of a hub may be subscribed on a node."""
    max_matches: Annotated[int, Meta(ge=1, le=100_000_000)] = 200_000
    """Channels that the sessions of a hub may follow by patterns on a node, counted per session."""
    max_calls: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    """Calls of services and events for streams that a hub may have in flight on a node."""
    call_timeout: Annotated[float, Meta(ge=0.1, le=300)] = 10.0
    """Timeout of a call to a service, unless its route has a `timeoutSeconds`."""
    authenticate_request_timeout: Annotated[float, Meta(ge=0.1, le=300)] = 5.0
    """Timeout of a request to an auth provider, unless it has a `timeoutSeconds`."""


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for all hubs together."""

    allow_dynamic_hubs: bool = False
    """Create a hub on first use, from the template `dynamicHubs`, instead of refusing unknown
    hubs."""
    max_unproven_hubs: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    """Hubs created on first use in which nobody has authenticated yet, on a node. One address may
    create a tenth of them; further ones are refused with `overloaded`."""
    max_live_history_size: Annotated[int, Meta(ge=0, le=1_000_000)] = 256
    """Messages that a channel keeps in memory unless its rules switch live history off."""
    live_history_memory_bytes: Annotated[int, Meta(ge=0, le=1 << 40)] = 128 * 1024 * 1024
    """Memory of a node for the live histories of all channels; beyond it, the hubs that use most of
    it lose the histories of the channels that were opened first. 0 for no limit."""


class ChannelDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of every channel."""

    history_page_size: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Maximum number of messages in one page of history."""
    enable_live_history: bool = True
    """Keep live histories; false switches them off for all channels, whatever their rules say."""
    retain_msg_duration: Annotated[float, Meta(ge=0, le=3650 * DAY)] = 0.0
    """Time for which a retained message is kept; 0 keeps it until it is replaced."""
    idle_timeout: Annotated[float, Meta(ge=0, le=DAY)] = 60.0
    """Time without use before a channel is unloaded from memory."""
    max_notifications: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    """Notifications that a channel keeps; the oldest beyond this number are deleted."""
    notification_retention: Annotated[float, Meta(ge=1, le=3650 * DAY)] = 90 * DAY
    """Maximum lifetime of a notification."""
    max_notification_bytes: Annotated[int, Meta(ge=1, le=16 * 1024 * 1024)] = 256 * 1024
    """Maximum payload size of a notification."""
    retention_interval: Annotated[float, Meta(ge=0.05, le=DAY)] = 30.0
    """Interval at which limits of stored messages and notifications are enforced."""
    lag_interval: Annotated[float, Meta(ge=0.05, le=DAY)] = 15.0
    """Interval at which /metrics counts the unacknowledged messages of durable subscriptions."""
    lag_series: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Durable subscriptions with their own series in /metrics: those with the largest lag."""


class SigningSecret(msgspec.Struct, frozen=True, kw_only=True):
    secret: Secret | None = None
    """Signs and verifies these tokens: at least 32 bytes (HS384: 48, HS512: 64); generated on first
    start if absent."""
    previous_secret: Secret | None = None
    """The previous `secret`, whose tokens stay valid; it no longer signs."""


class Auth(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that the hub itself signs: `session` for clients and services, `admin`."""

    algorithm: Literal["HS256", "HS384", "HS512"] = "HS256"
    """Signature algorithm of the tokens."""
    issuer: Annotated[str, Meta(min_length=1, max_length=255)] = "hubbub"
    """`iss` of the tokens."""
    token_ttl: Annotated[float, Meta(ge=1, le=365 * DAY)] = 3600.0
    """Lifetime of a new token."""
    renewable_ttl: Annotated[float, Meta(ge=0, le=365 * DAY)] = 7 * DAY
    """Time after authentication during which a token can be exchanged for a newer one; 0 forbids
    it."""
    session: SigningSecret = SigningSecret()
    admin: SigningSecret = SigningSecret()


class Admin(msgspec.Struct, frozen=True, kw_only=True):
    """Administrators and their API."""

    url: str | None = None
    """URL to which `POST /v1/admin/login` sends an administrator's credentials; without it there is
    no login, only tokens from `hubbub token --level admin --hub '*'`."""
    login_timeout: Annotated[float, Meta(ge=0.1, le=300)] = 5.0
    """Timeout of requests to `admin.url`."""
    logins_per_minute: Annotated[int, Meta(ge=1, le=10_000)] = 10
    """Login attempts per minute from one address; all addresses together may make ten times as
    many."""
    metrics_token: Secret | None = None
    """Token that permits only /metrics, for Prometheus: at least 32 bytes. Without it only tokens
    of administrators of all hubs permit /metrics."""
    request_timeout: Annotated[float, Meta(ge=1, le=600)] = 30.0
    """Timeout of one request to the admin API."""
    nats: bool = True
    """Serve the admin API on NATS too, if `broker.host` is set; every request carries its token."""
    audit_retention: Annotated[float, Meta(ge=DAY, le=3650 * DAY)] = 365 * DAY
    """Lifetime of entries in the audit log."""


class Debug(msgspec.Struct, frozen=True, kw_only=True):
    """Logging and diagnostics."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged."""
    log_format: Literal["auto", "json", "text"] = "auto"
    """Format of the logs; `auto` is text on a terminal and JSON elsewhere."""
    access_log: bool = False
    """Log each HTTP request (tokens are never logged)."""


RoomSettings = TypeVar("RoomSettings", bound=msgspec.Struct)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All checked settings. `developer` is set only by `serve --dev`, and `worker` by `serve
    --workers`: the number of a process that shares its port and its data folder with others."""

    listener: ListenerSettings = ListenerSettings()
    connection: ConnectionSettings = ConnectionSettings()
    zeromq: ZeroMq = ZeroMq()
    session: SessionSettings = SessionSettings()
    limits: CallerLimits = CallerLimits()
    hub: HubTimingSettings = HubTimingSettings()
    engine: Engine = Engine()
    channel: ChannelDefaults = ChannelDefaults()
    hcommands: HCommands = HCommands()
    adapters: AdapterFolders = AdapterFolders()
    auth: Auth = Auth()
    admin: Admin = Admin()
    storage: Storage = Storage()
    sql: PostgresSettings = PostgresSettings()
    journal: JournalSettings = JournalSettings()
    broker: NatsSettings = NatsSettings()
    cluster: Cluster = Cluster()
    streams: Streams = Streams()
    webhooks: WebhookSettings = WebhookSettings()
    push: PushSettings = PushSettings()
    debug: Debug = Debug()
    tracing: Tracing = Tracing()
    rooms: Mapping[str, msgspec.Struct] = {}
    """The categories of rooms, by name; one that is missing has its defaults."""
    hubs: Mapping[str, HubConfiguration] = {}
    dynamic_hubs: HubConfiguration | None = None
    developer: bool = False
    worker: int | None = None

    def category(self, name: str) -> msgspec.Struct:
        """The values of one of `CATEGORIES`."""
        room = ROOM_CATEGORIES.get(name)
        found = getattr(self, name) if room is None else self.rooms.get(name, room())
        assert isinstance(found, msgspec.Struct)
        return found

    def of(self, kind: type[RoomSettings]) -> RoomSettings:
        """The values of a room's category, by their type."""
        name = next(name for name, each in ROOM_CATEGORIES.items() if each is kind)
        found = self.category(name)
        assert isinstance(found, kind)
        return found

    @property
    def first_of_its_folder(self) -> bool:
        """Whether this process does the tasks that one process must do for all that share its data
        folder."""
        return self.worker in (None, 1)

    def __repr__(self) -> str:
        """Short, since the headers of auth providers are secret."""
        return f"<Settings {self.listener.host}:{self.listener.port}, hubs {sorted(self.hubs)}>"


ROOM_CATEGORIES: Mapping[str, type[msgspec.Struct]] = {
    room.CATEGORY: room.SETTINGS for room in modules("engine", "settings")
}
CATEGORIES: Mapping[str, type[msgspec.Struct]] = {
    name: type(value)
    for name, value in msgspec.structs.asdict(Settings()).items()
    if isinstance(value, msgspec.Struct)
} | dict(ROOM_CATEGORIES)
"""All categories of the configuration, by name."""

# Keys of the seed that are refused, each with the reason.
_ALWAYS_COUNTED = "everything is counted as it happens; how often is up to who reads /metrics"
REFUSED: Mapping[str, str] = {
    "redis": "retained messages and session snapshots live in the store, so that there is nothing "
    "to configure",
    "cluster.membership": "the secret of all nodes is called cluster.secretKey here",
    "cluster.rpc": "the secret of all nodes is called cluster.secretKey here",
    "discovery": "nodes find each other through NATS (broker.host), so that there is nothing to "
    "configure",
    "storage.sslMode": "it is called storage.postgres.sslMode here",
    "storage.user": "it is called storage.postgres.user here",
    "storage.password": "it is called storage.postgres.password here",
    "storage.dbName": "it is called storage.postgres.dbName here",
    "engine.sessionMetricsInterval": _ALWAYS_COUNTED,
    "engine.statsCollectInterval": _ALWAYS_COUNTED,
    "debug.pprof": "not in this version: profile with a tool such as py-spy",
    "connection.ws.pongInterval": "it is called connection.ws.pongTimeout here",
    "connection.ws.msgSendBufferSize": "use connection.ws.sendBufferBytes, which counts bytes",
    "connection.sse.msgBufferSize": "use connection.sse.sendBufferBytes, which counts bytes",
}
