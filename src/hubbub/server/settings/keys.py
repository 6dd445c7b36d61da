"""The keys of the configuration: their types, bounds, defaults and one sentence on each, which is
the docstring below the key. `docs/configuration.md` is generated from them.

A key's path is its attribute path in camelCase: `connection.ws.ping_interval` is
`connection.ws.pingInterval` in the file and `HUBBUB_CONNECTION_WS_PING_INTERVAL` in the
environment. Durations are in seconds unless the sentence says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hubbub.cluster.nats_settings import NatsSettings
from hubbub.domain.rules import HubConfiguration
from hubbub.domain.secret import Secret as Secret
from hubbub.engine.access.throttle import CallerLimits
from hubbub.engine.push.limits import PushSettings
from hubbub.engine.webhooks.limits import WebhookSettings
from hubbub.gateways.settings import ConnectionSettings, ListenerSettings
from hubbub.server.settings.adapters import Adapters
from hubbub.server.settings.cluster import Cluster
from hubbub.server.settings.journal import Journal
from hubbub.server.settings.plugins import HCommands
from hubbub.server.settings.storage import Sql, Storage
from hubbub.server.settings.streams import Streams
from hubbub.server.settings.tracing import Tracing
from hubbub.server.settings.zeromq import ZeroMq
from hubbub.settings_error import SettingsError as SettingsError

DAY = 86_400.0


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of each session."""

    messages_per_second: Annotated[int, Meta(ge=0, le=10_000_000)] = 100
    """Requests that a session may send each second, heartbeats apart; 0 means no limit."""
    message_burst: Annotated[int, Meta(ge=1, le=10_000_000)] = 200
    """Requests that a session may send at one moment."""
    max_channels: Annotated[int, Meta(ge=1, le=1_000_000)] = 200
    """Channels that a session may subscribe to."""
    max_patterns: Annotated[int, Meta(ge=0, le=100)] = 20
    """Patterns (`room:*`) that a session may subscribe to."""
    max_matches: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Channels that a session may follow by patterns."""
    max_calls: Annotated[int, Meta(ge=1, le=10_000)] = 32
    """Calls of services and events for streams that a session may have under way."""
    authenticate_timeout: Annotated[float, Meta(ge=0.1, le=3600)] = 10.0
    """Time to authenticate in a hub that forbids anonymous sessions."""
    restore_ttl: Annotated[float, Meta(ge=0, le=7 * DAY)] = 120.0
    """Time in which a lost session can be restored."""


class Hub(msgspec.Struct, frozen=True, kw_only=True):
    """Timing of every hub."""

    close_timeout: Annotated[float, Meta(ge=0, le=DAY)] = 60.0
    """Time without sessions before a hub leaves memory."""
    max_patterns: Annotated[int, Meta(ge=0, le=1000)] = 100
    """Different patterns that the sessions of a hub may be subscribed to on a node."""
    max_matches: Annotated[int, Meta(ge=1, le=100_000_000)] = 200_000
    """Channels that the sessions of a hub may follow by patterns on a node, each counted for each
    session."""
    max_calls: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    """Calls of services and events for streams that a hub may have under way on a node."""
    call_timeout: Annotated[float, Meta(ge=0.1, le=300)] = 10.0
    """Time for a service to answer a call, where no route has a `timeoutSeconds` for it."""
    authenticate_request_timeout: Annotated[float, Meta(ge=0.1, le=300)] = 5.0
    """Time for an auth provider to answer, where it has no `timeoutSeconds` of its own."""


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """What concerns all hubs at once."""

    allow_dynamic_hubs: bool = False
    """Create a hub on first use instead of refusing unknown hubs."""
    max_live_history_size: Annotated[int, Meta(ge=0, le=1_000_000)] = 256
    """Messages that a channel keeps in memory where its rules say live history."""


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """What concerns every channel."""

    history_page_size: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Messages in one page of history at most."""
    enable_live_history: bool = True
    """Allow rules to turn on live history; false turns it off for all."""
    retain_msg_duration: Annotated[float, Meta(ge=0, le=3650 * DAY)] = 0.0
    """Time for which a retained message is kept; 0 keeps it until replaced."""
    idle_timeout: Annotated[float, Meta(ge=0, le=DAY)] = 60.0
    """Time without use before a channel leaves memory."""
    max_notifications: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    """Notifications that a channel keeps; beyond so many the oldest go."""
    notification_retention: Annotated[float, Meta(ge=1, le=3650 * DAY)] = 90 * DAY
    """Time for which a new notification is kept at most."""
    max_notification_bytes: Annotated[int, Meta(ge=1, le=16 * 1024 * 1024)] = 256 * 1024
    """Bytes of a notification's payload at most."""
    retention_interval: Annotated[float, Meta(ge=0.05, le=DAY)] = 30.0
    """How often stored messages and notifications are held to their limits."""
    lag_interval: Annotated[float, Meta(ge=0.05, le=DAY)] = 15.0
    """How often /metrics counts what durable subscriptions still have to get."""
    lag_series: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Durable subscriptions that have series of their own in /metrics, those with the largest
    lag."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Documents of channels `doc:…`, and the changes to them; what is larger is `too_large`."""

    max_bytes: Annotated[int, Meta(ge=2, le=16 * 1024 * 1024)] = 1024 * 1024
    """Bytes of a document as JSON, with bytes in it at their own length."""
    max_change_bytes: Annotated[int, Meta(ge=2, le=16 * 1024 * 1024)] = 256 * 1024
    """Bytes of one change; over WebSocket `connection.ws.maxMessageBytes` counts too."""
    max_operations: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """Operations of one change."""
    max_depth: Annotated[int, Meta(ge=1, le=60)] = 60
    """Lists and objects inside of each other; readers of protobuf stop soon after 60."""
    max_name_bytes: Annotated[int, Meta(ge=1, le=64 * 1024)] = 1024
    """Bytes of the name of a member, in UTF-8."""
    memory_bytes: Annotated[int, Meta(ge=0, le=1 << 40)] = 32 * 1024 * 1024
    """Bytes of documents in the memory of a node, as JSON; beyond that, those that nobody uses are
    let go, and read again when asked for."""


class SigningSecret(msgspec.Struct, frozen=True, kw_only=True):
    secret: Secret | None = None
    """Signs and verifies these tokens: at least 32 bytes (HS384: 48, HS512: 64); generated on first
    start if absent."""
    previous_secret: Secret | None = None
    """The secret before `secret`, whose tokens still hold; it signs no more."""


class Auth(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that the hub itself signs: `session` for clients and services, `admin`."""

    algorithm: Literal["HS256", "HS384", "HS512"] = "HS256"
    """Signature of the tokens."""
    issuer: Annotated[str, Meta(min_length=1, max_length=255)] = "hubbub"
    """`iss` of the tokens."""
    token_ttl: Annotated[float, Meta(ge=1, le=365 * DAY)] = 3600.0
    """Time for which a new token is valid."""
    renewable_ttl: Annotated[float, Meta(ge=0, le=365 * DAY)] = 7 * DAY
    """Time after authentication in which a token can be exchanged for a newer one; 0 forbids it."""
    session: SigningSecret = SigningSecret()
    admin: SigningSecret = SigningSecret()


class Admin(msgspec.Struct, frozen=True, kw_only=True):
    """Administrators, and the API that they use."""

    url: str | None = None
    """Where `POST /v1/admin/login` sends an administrator's credentials; without it there is no
    login, only tokens from `hubbub token --level admin --hub '*'`."""
    login_timeout: Annotated[float, Meta(ge=0.1, le=300)] = 5.0
    """Time for `admin.url` to answer."""
    logins_per_minute: Annotated[int, Meta(ge=1, le=10_000)] = 10
    """Logins that one address may try each minute; all together may try ten times as many."""
    metrics_token: Secret | None = None
    """Opens /metrics and nothing else, for Prometheus: at least 32 bytes. Without it only tokens
    of administrators of all hubs open /metrics."""
    request_timeout: Annotated[float, Meta(ge=1, le=600)] = 30.0
    """Time for one request of the admin API."""
    nats: bool = True
    """Serve the admin API on NATS too, where `broker.host` is set; every request brings its
    token."""
    audit_retention: Annotated[float, Meta(ge=DAY, le=3650 * DAY)] = 365 * DAY
    """Time for which the audit log is kept."""


class Debug(msgspec.Struct, frozen=True, kw_only=True):
    """What the hub tells about itself."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level to log."""
    log_format: Literal["auto", "json", "text"] = "auto"
    """Form of the logs; `auto` is text on a terminal and JSON elsewhere."""
    access_log: bool = False
    """Log each HTTP request (tokens are never logged)."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an operator decides, checked. `developer` is set by `serve --dev` only, and
    `worker` by `serve --workers`: the number of a process that shares its port and its data folder
    with others."""

    listener: ListenerSettings = ListenerSettings()
    connection: ConnectionSettings = ConnectionSettings()
    zeromq: ZeroMq = ZeroMq()
    session: Session = Session()
    limits: CallerLimits = CallerLimits()
    hub: Hub = Hub()
    engine: Engine = Engine()
    channel: Channel = Channel()
    document: Document = Document()
    hcommands: HCommands = HCommands()
    adapters: Adapters = Adapters()
    auth: Auth = Auth()
    admin: Admin = Admin()
    storage: Storage = Storage()
    sql: Sql = Sql()
    journal: Journal = Journal()
    broker: NatsSettings = NatsSettings()
    cluster: Cluster = Cluster()
    streams: Streams = Streams()
    webhooks: WebhookSettings = WebhookSettings()
    push: PushSettings = PushSettings()
    debug: Debug = Debug()
    tracing: Tracing = Tracing()
    hubs: Mapping[str, HubConfiguration] = {}
    developer: bool = False
    worker: int | None = None

    @property
    def first_of_its_folder(self) -> bool:
        """Whether it does what one process must do for all that share its data folder."""
        return self.worker in (None, 1)

    def __repr__(self) -> str:
        """Short, since the headers of auth providers are secret too."""
        return f"<Settings {self.listener.host}:{self.listener.port}, hubs {sorted(self.hubs)}>"


CATEGORIES = tuple(
    name
    for name, value in msgspec.structs.asdict(Settings()).items()
    if isinstance(value, msgspec.Struct)
)

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
