"""Settings of a hub and rules of its channels.

Each struct is the only definition of its settings. Field names are those of the configuration file
and of the admin API; types and bounds apply to both and to the OpenAPI document. The docstring
below a field is its description in `docs/configuration.md`. `stored_settings` converts settings to
the form in the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from hubbub.domain.callbacks import Reach
from hubbub.domain.communication.information import MessageInfo
from hubbub.domain.communication.routing import RoutingRule
from hubbub.domain.communication.settings import (
    AdapterSettings,
    CallbackSettings,
    CommunicationSettings,
)
from hubbub.domain.errors import SubjectNotPermitted
from hubbub.domain.fields import (
    Count,
    EndpointUrl,
    Headers,
    Name,
    Origin,
    Pattern,
    Subject,
    TimeoutSeconds,
    wire_name,
)
from hubbub.domain.journal import PayloadRule
from hubbub.domain.mercure.keys import MercureKey
from hubbub.domain.names import (
    COMMUNICATION_LOG,
    MERCURE_LOG,
    ChannelKind,
    kind_of,
    namespace_of,
    without_dead_letters,
)
from hubbub.domain.setting import Setting as Setting
from hubbub.domain.subjects import auth_prefix, belongs_to, rpc_prefix


class Rules(Setting, frozen=True):
    """Features of channels. Every feature except live history is off by default; a limit of 0 means
    no limit. `journal` decides what is recorded about a channel: nothing, metadata, or metadata and
    payloads."""

    retain: bool = False
    """The last message marked `retain` is sent to each new subscriber."""
    store: bool = False
    """Messages marked `store` are on disk before any subscriber receives them."""
    push: bool = False
    """Messages marked `push` also go to the devices of users who are subscribed or follow the
    channel."""
    presence: bool = False
    """Subscribers see which sessions are present."""
    occupancy: bool = False
    """Subscribers see how many sessions are present."""
    public: bool = False
    """Any authenticated session may subscribe without a permission."""
    client_publish: bool = False
    """Sessions may publish without a permission to do so."""
    allow_anonymous: bool = False
    """Sessions without authentication may subscribe if the channel is public."""
    live_history: bool | None = None
    """The latest messages are kept in memory for clients that reconnect: by default only for them,
    if `true` also as history for everyone who may read the channel, if `false` not at all."""
    max_age_seconds: Count = 0
    """Stored messages are deleted when they are older; 0 for no limit."""
    max_stored_messages: Count = 0
    """The oldest stored messages of a channel are deleted beyond this number; 0 for no limit."""
    max_stored_bytes: Count = 0
    """The same for the bytes of their payloads."""
    reclaim_acknowledged: bool = False
    """Messages that every durable subscription of a channel has acknowledged are deleted, if there
    is such a subscription."""
    drop_unread: bool = False
    """The three limits apply even to messages that a durable subscription has not received; it
    counts the missed messages."""
    journal: PayloadRule = "metadata"
    """What the [journal](journal.md) records about the channel: nothing, everything except
    payloads, or everything."""
    store_by_default: bool = False
    """With `store`, messages without the mark are stored, too, unless they are transient. Webhooks
    then receive every published message."""
    search: bool = False
    """With `store`, the words of stored messages are indexed, so that whoever may read the channel
    can [search](search.md) it."""
    max_document_changes: Count = 1000
    """Changes of a document that are kept, so that clients can catch up and read earlier versions;
    0 for all."""
    document_ttl_seconds: Count = 0
    """A document is deleted this long after its last change; 0 for never."""
    subscribe_hook: Name | None = None
    """A method of the hub's services that is called before a client subscribes to the channel or
    reads it, see [Hooks](services.md#hooks)."""
    publish_hook: Name | None = None
    """A method of the hub's services that is called before a client publishes."""
    document_messages: bool = False
    """With `store`, each change of a document is also a stored message `DocumentUpdated`, for
    webhooks and durable subscriptions."""

    @property
    def keeps_live_history(self) -> bool:
        """Whether the latest messages are kept in memory: the store serves those that it has."""
        return self.live_history is not False and not self.store

    @property
    def only_for_returning(self) -> bool:
        """Whether only clients that come back get what is kept, so that nobody reads messages of
        the time before they could."""
        return self.live_history is None and not self.store

    @property
    def reclaims(self) -> bool:
        """Whether stored messages are ever deleted."""
        return self.store and bool(
            self.max_age_seconds
            or self.max_stored_messages
            or self.max_stored_bytes
            or self.reclaim_acknowledged
        )

    def for_kind(self, kind: ChannelKind) -> Rules:
        """The rules that apply to a channel of this kind."""
        if kind is ChannelKind.NOTIFICATION:
            return Rules(
                public=self.public,
                allow_anonymous=self.allow_anonymous,
                live_history=False,
                journal=self.journal,
                subscribe_hook=self.subscribe_hook,
            )
        if kind is ChannelKind.DOCUMENT and (self.live_history is not False or self.search):
            return msgspec.structs.replace(self, live_history=False, search=False)
        return self


class Binding(msgspec.Struct, frozen=True):
    """Access rules set by the owner of a channel (an hChannel, see `domain.commands`): an inactive
    channel rejects every action, and of the hub's clients only `participants` may publish and read.
    Services need not be participants."""

    owner: str
    """A user id of the hub, like the participants."""
    participants: frozenset[str]
    active: bool = True

    def admits(self, user_id: str | None) -> bool:
        return user_id is not None and user_id in self.participants


class BoundRules(Rules, frozen=True, kw_only=True):
    """The rules of an owned channel, which may always store."""

    binding: Binding

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "store", True)


COLLECTIONS = frozenset({"hCommands", "hResults", "hDirectMessages"})
"""Channels in which a hub with `commands` stores users' requests. Clients have no access, even
after commands are switched off."""
PLUGIN_COLLECTION = "hPlugin:"
"""The name prefix of channels in which plugins store documents; clients have no access."""
_COLLECTION = Binding(owner="", participants=frozenset())


def is_collection(channel: str) -> bool:
    """Whether the hub itself stores data in the channel; no client has access, and no user can own
    it."""
    return (
        channel in COLLECTIONS
        or channel in (COMMUNICATION_LOG, MERCURE_LOG)
        or channel.startswith(PLUGIN_COLLECTION)
    )


class Quotas(Setting, frozen=True):
    """Limits of a hub; 0 means no limit. Only an administrator may change them."""

    sessions: Count = 0
    """Concurrent sessions."""
    channels: Count = 0
    """Channels in memory."""
    messages_per_second: Count = 0
    """Messages published per second, in the whole hub."""
    deliveries_per_second: Count = 0
    """Messages delivered per second, in the whole hub."""
    stored_bytes: Count = 0
    """Bytes that the hub uses on disk: messages with their envelopes, retained messages, documents,
    notifications, subscriptions and everything else that [counts](security.md#what-counts)."""
    stream_bytes_per_second: Count = 0
    """Bytes of events that clients submit to streams per second, in the whole hub; the journal
    keeps them for `journal.retentionDays`."""
    webhooks: Count = 0
    """Webhooks; 0 here means 10,000."""
    webhook_requests_per_second: Count = 0
    """Requests to webhooks per second."""
    pushes_per_second: Count = 0
    """Pushes to devices that a node sends per second; further pushes wait."""
    owned_channels: Count = 0
    """Channels that users own and create by commands; 0 here means 10,000. A user may own a quarter
    of them."""
    peers: Count = 0
    """Peers, and collectives of peers; 0 here means 1,000,000."""
    deliveries: Count = 0
    """Deliveries to peers that are queued or in flight, and messages to peers that await a reply; 0
    here means 100,000."""
    peer_subscriptions: Count = 0
    """Channels that peers follow, counted over all peers; 0 here means 10,000."""


class TrustedIssuer(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename=wire_name
):
    """An external issuer whose signed tokens a hub accepts: `iss` and `aud` must match exactly. The
    public keys are read from a JWKS document or given here. Claims name the user and the
    permissions; all identities of an issuer have the same level, never admin."""

    issuer: str
    """`iss` of its tokens, exactly."""
    audience: str
    """What `aud` of its tokens must name."""
    jwks_url: str | None = None
    """URL of its public keys; `https`, or `http` on this machine."""
    keys: tuple[dict[str, Any], ...] = ()
    """Its public keys in JWK form, instead of `jwksUrl`."""
    level: Literal["client", "service"] = "client"
    """The level of its tokens: client or service."""
    user_claim: str = "sub"
    """The claim that holds the user id."""
    channels_claim: str = "channels"
    """The claim that holds the permissions for channels."""
    rpcs_claim: str = "rpcs"
    """The claim that holds the permitted calls."""
    extra_claim: str = "extra"
    """The claim that holds the user's data shown in presence."""
    addresses: Reach | None = None
    """Where `jwksUrl` may be: `public`, `loopback`, or `private`. Default: `private` in the file;
    through the admin API, the hub's `callbackAddresses`."""


class HubSettings(Setting, frozen=True):
    """Settings for all sessions and channels of a hub. Omitted settings have their defaults. Only
    an administrator of all hubs may change `callbackAddresses` and `natsSubjects`."""

    allow_anonymous: bool = False
    """Sessions may stay without authentication."""
    user_channel: bool = False
    """Each user has a channel `u:<user id>` shared by the user's sessions."""
    default_public: bool = False
    """Channels without rules are open to every session."""
    default_rules: Name | None = None
    """Rules of channels that have none by name or by namespace."""
    topic_rules: Name | None = None
    """Rules that a channel without storage receives with its first put or durable subscription;
    without this setting such a channel rejects both."""
    auth_provider: Name | None = None
    """The auth provider that checks the clients' credentials."""
    session_restore: bool = True
    """A lost session can be restored with its one-time key."""
    allowed_origins: Annotated[tuple[Origin, ...], Meta(max_length=100)] = ()
    """Origins of web pages that may use this hub, overriding `listener.allowedOrigins`; same
    forms."""
    trusted_issuers: Annotated[tuple[TrustedIssuer, ...], Meta(max_length=100)] = ()
    """External issuers whose signed tokens are accepted, see below."""
    quotas: Quotas = Quotas()
    open_topics: bool = False
    """Anyone may register topics of Light-PubSubHubbub, publish to those without a key, and
    subscribe to them; other channels keep their rules."""
    callback_addresses: Reach = "public"
    """Where requests of the hub may go (webhooks, services, auth providers, keys, fetches): public
    addresses only, also this machine (`loopback`), or also private networks (`private`). Only an
    operator may change it."""
    nats_subjects: Annotated[tuple[Subject, ...], Meta(max_length=100)] = ()
    """NATS subjects, including all subjects below them, that routes and auth providers may use
    besides those below `hubbub.rpc.{hub}` and `hubbub.auth.{hub}`. Only an operator may change
    them."""
    websub_algorithm: Literal["sha1", "sha256", "sha384", "sha512"] = "sha256"
    """The signature algorithm for WebSub subscriptions with a secret and without `hub.algorithm`;
    some subscribers support only `sha1`."""
    websub_no_content: bool = False
    """A WebSub publisher receives 204 without a body, which some expect, instead of 202."""
    push_audience: Literal["all", "absent"] = "all"
    """Whether a push also goes to users with a session that is subscribed to the channel."""
    push_contact: (
        Annotated[str, Meta(max_length=255, pattern="^(mailto:|https://)[!-~]+$")] | None
    ) = None
    """The contact for browsers' push services: `mailto:` or `https://`. Default: `push.contact`."""
    commands: bool = False
    """Users may send [commands](commands.md) and create owned channels."""
    rid_window: Annotated[int, Meta(ge=-1, le=1_000_000)] = 5
    """The allowed difference between the `rid` of a Hubiquitus client that
    [attaches](commands.md#clients-of-hubiquitus) and the number of events sent to it; -1 disables
    the check."""
    communication: CommunicationSettings = CommunicationSettings()
    mercure_subscriptions: bool = False
    """The streams of [Mercure](mercure.md) subscribers are listed, and each beginning and end is a
    private update."""
    mercure_bridge: bool = False
    """An update of Mercure is also published, unstored, to the channel named by its first topic,
    where that is a name and nobody owns the channel."""


NATS_SCHEME = "nats:"
"""The prefix of an auth provider's or service's subject that is reached over NATS."""


class AuthProvider(Setting, frozen=True):
    """The service that authenticates a hub's clients. The values of `headers` are secret: responses
    show `(hidden)`, which keeps a value when it is sent back with the same `url`. With `addresses`,
    an operator allows other addresses than the hub's `callbackAddresses`."""

    url: EndpointUrl
    """The URL that receives the credentials: `http` or `https` without a password, or `nats:` and a
    subject."""
    headers: Headers = {}
    """Headers to send with them, for example a key; their values are secret."""
    timeout_seconds: TimeoutSeconds = 5.0
    """Timeout of a request; default: `hub.authenticateRequestTimeout`."""
    addresses: Reach | None = None
    """Allowed addresses, as for a trusted issuer."""


class RpcRoute(Setting, frozen=True):
    """The service that answers calls of methods that match a pattern. `headers` and `addresses` are
    as those of an auth provider."""

    method: Pattern
    """The methods, as a pattern such as `cart.*`."""
    url: EndpointUrl
    """The URL that receives the calls: `http` or `https` without a password, or `nats:` and a
    subject."""
    headers: Headers = {}
    """Headers to send with them, for example a key; their values are secret."""
    timeout_seconds: TimeoutSeconds = 10.0
    """Timeout of a call."""
    addresses: Reach | None = None
    """Allowed addresses, as for a trusted issuer."""


class ChannelSettings(Setting, frozen=True):
    """Settings of one channel by name."""

    rules: Name | None = None
    """Rules of this channel."""
    metadata: dict[str, Any] = {}
    """Arbitrary JSON for services' own use."""


E = TypeVar("E", AuthProvider, RpcRoute)
P = TypeVar("P", AuthProvider, RpcRoute, TrustedIssuer)


RulesSource = Literal["channel", "namespace", "hub", "default"]


class Section(msgspec.Struct, frozen=True):
    """A section of a hub's settings: named entries of one type. `kind` is its name in the store and
    in the audit log, `attribute` the attribute of `HubConfiguration` and the key in the file."""

    kind: str
    attribute: str
    type: type[Setting | str]

    @property
    def key(self) -> str:
        return wire_name(self.attribute)

    @property
    def words(self) -> str:
        """The name of a single entry in messages."""
        return self.kind.replace("_", " ")

    def of(self, configuration: HubConfiguration) -> Mapping[str, Setting | str]:
        """The entries of a hub. The hub's own settings have no name."""
        found: Any = getattr(configuration, self.attribute)
        return {"": found} if isinstance(found, HubSettings) else found


HUB_ITSELF = Section("hub", "settings", HubSettings)
RULES = Section("rules", "rules", Rules)
NAMESPACES = Section("namespace", "namespaces", str)
CHANNELS = Section("channel", "channels", ChannelSettings)
AUTH_PROVIDERS = Section("auth_provider", "auth_providers", AuthProvider)
RPC_ROUTES = Section("rpc_route", "rpc_routes", RpcRoute)
ROUTES = Section("route", "routes", RoutingRule)
ADAPTERS = Section("adapter", "adapters", AdapterSettings)
CALLBACKS = Section("callback", "callbacks", CallbackSettings)
MESSAGE_INFO = Section("message_info", "message_info", MessageInfo)
MERCURE_KEYS = Section("mercure_key", "mercure_keys", MercureKey)
SECTIONS = (
    HUB_ITSELF,
    RULES,
    NAMESPACES,
    CHANNELS,
    AUTH_PROVIDERS,
    RPC_ROUTES,
    ROUTES,
    ADAPTERS,
    CALLBACKS,
    MESSAGE_INFO,
    MERCURE_KEYS,
)


class Reference(msgspec.Struct, frozen=True):
    """A setting that references an entry of a section; `path` is its key, and `user` describes it
    in words."""

    path: str
    user: str
    section: Section
    name: str


class HubConfiguration(msgspec.Struct, frozen=True):
    """All settings of one hub, as a consistent snapshot that resolves the rules of any channel."""

    hub: str
    settings: HubSettings = HubSettings()
    rules: Mapping[str, Rules] = {}
    namespaces: Mapping[str, str] = {}
    channels: Mapping[str, ChannelSettings] = {}
    auth_providers: Mapping[str, AuthProvider] = {}
    rpc_routes: Mapping[str, RpcRoute] = {}
    routes: Mapping[str, RoutingRule] = {}
    adapters: Mapping[str, AdapterSettings] = {}
    callbacks: Mapping[str, CallbackSettings] = {}
    message_info: Mapping[str, MessageInfo] = {}
    mercure_keys: Mapping[str, MercureKey] = {}
    topic_keys: Mapping[str, bytes] = {}
    """SHA-256 of the publishing key of each channel that has one. They come from registered topics,
    not from settings."""
    bindings: Mapping[str, Binding] = {}
    """Owned channels. The directory updates the mapping in place, since it may be very large."""

    def rules_for(self, channel: str) -> Rules:
        """The channel's own rules, else its namespace's, else the hub's default. A channel of dead
        letters has its origin's rules unless it has rules of its own; it always stores, so that no
        dead letter is lost."""
        rules = self._unfiltered_rules_for(channel).for_kind(kind_of(channel))
        origin = without_dead_letters(channel)
        if origin != channel and not rules.store and self.rules_for(origin).store:
            rules = msgspec.structs.replace(rules, store=True)
        binding = self.binding_of(origin)
        return (
            rules
            if binding is None
            else BoundRules(**msgspec.structs.asdict(rules), binding=binding)
        )

    def binding_of(self, channel: str) -> Binding | None:
        """The access rules set by the channel's owner; None if it has no owner."""
        if is_collection(channel):
            return _COLLECTION
        return self.bindings.get(channel)

    def is_decided(self, channel: str) -> bool:
        """Whether rules are set for this channel or its namespace. `topic_rules`, assigned on first
        use, do not count."""
        own = self.channels.get(channel)
        if own is not None and own.rules not in (None, self.settings.topic_rules):
            return True
        return namespace_of(channel) in self.namespaces

    def source_of(self, channel: str) -> tuple[RulesSource, str | None]:
        """Where a channel's rules come from, and their name; no name means the defaults of a hub
        without rules. A channel of dead letters without own rules reports its origin's."""
        own = self.channels.get(channel)
        origin = without_dead_letters(channel)
        if origin != channel and (own is None or own.rules in (None, self.settings.topic_rules)):
            return self.source_of(origin)
        namespace = namespace_of(channel)
        candidates: tuple[tuple[RulesSource, str | None], ...] = (
            ("channel", own.rules if own else None),
            ("namespace", self.namespaces.get(namespace) if namespace is not None else None),
            ("hub", self.settings.default_rules),
        )
        for source, rules_id in candidates:
            if rules_id is not None and rules_id in self.rules:
                return source, rules_id
        return "default", None

    def _unfiltered_rules_for(self, channel: str) -> Rules:
        own = self.channels.get(channel)
        origin = without_dead_letters(channel)
        if origin != channel and (own is None or own.rules in (None, self.settings.topic_rules)):
            return self._unfiltered_rules_for(origin)
        _, rules_id = self.source_of(channel)
        if rules_id is not None:
            return self.rules[rules_id]
        return Rules(
            public=self.settings.default_public, allow_anonymous=self.settings.allow_anonymous
        )

    def references(self) -> Iterator[Reference]:
        """The settings that reference other entries."""
        for key, section, name in (
            ("defaultRules", RULES, self.settings.default_rules),
            ("topicRules", RULES, self.settings.topic_rules),
            ("authProvider", AUTH_PROVIDERS, self.settings.auth_provider),
        ):
            if name is not None:
                yield Reference(
                    f"settings.{key}", f"the settings of the hub ({key})", section, name
                )
        for namespace, rules in self.namespaces.items():
            yield Reference(f"namespaces.{namespace}", f"the namespace {namespace!r}", RULES, rules)
        for channel, own in self.channels.items():
            if own.rules is not None:
                path = f"channels.{channel}.rules"
                yield Reference(path, f"the channel {channel!r}", RULES, own.rules)

    def usable(self, endpoint: E, subject_root: str) -> E:
        """Returns an endpoint if the hub may call it now: its stored setting may have become
        invalid. Raises `SubjectNotPermitted`."""
        if endpoint.url.startswith(NATS_SCHEME):
            self.check_subject(endpoint.url, subject_root)
        elif endpoint.addresses is None:
            return msgspec.structs.replace(endpoint, addresses=self.reach_of(endpoint))
        return endpoint

    def check_subject(self, url: str, subject_root: str) -> None:
        """Checks `nats:` URLs only. Raises `SubjectNotPermitted`."""
        subject = url.removeprefix(NATS_SCHEME)
        if not belongs_to(subject, self.hub, self.settings.nats_subjects, subject_root):
            raise SubjectNotPermitted(
                f"the subject {subject[:200]!r} is not one of hub {self.hub!r}: use one below "
                f"{rpc_prefix(subject_root, self.hub)!r} or {auth_prefix(subject_root, self.hub)!r}"
                ", or have an operator add a prefix to the hub's natsSubjects"
            )

    def reach_of(self, endpoint: AuthProvider | RpcRoute | TrustedIssuer) -> Reach:
        """The addresses at which the hub may call the endpoint."""
        return endpoint.addresses or self.settings.callback_addresses

    def auth_provider(self) -> AuthProvider | None:
        name = self.settings.auth_provider
        return self.auth_providers.get(name) if name is not None else None


def trusting(configuration: HubConfiguration) -> HubConfiguration:
    """A hub as declared in the configuration file: endpoints written by the operator may be in
    private networks unless stated otherwise."""
    settings = configuration.settings
    issuers = tuple(map(_trusted, settings.trusted_issuers))
    return msgspec.structs.replace(
        configuration,
        settings=msgspec.structs.replace(settings, trusted_issuers=issuers),
        auth_providers={name: _trusted(p) for name, p in configuration.auth_providers.items()},
        rpc_routes={name: _trusted(route) for name, route in configuration.rpc_routes.items()},
    )


def _trusted(endpoint: P) -> P:
    return msgspec.structs.replace(endpoint, addresses=endpoint.addresses or "private")
