"""Settings of a hub and the rules of its channels.

Each struct is the only definition of its setting. Its fields have the names of the configuration
file and of the admin API; types and bounds are those of both, and of the OpenAPI document. The
docstring below a field is its sentence in `docs/configuration.md`. `stored_settings` is the form
that the store keeps.
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
from hubbub.domain.names import (
    COMMUNICATION_LOG,
    ChannelKind,
    kind_of,
    namespace_of,
    without_dead_letters,
)
from hubbub.domain.setting import Setting as Setting
from hubbub.domain.subjects import auth_prefix, belongs_to, rpc_prefix


class Rules(Setting, frozen=True):
    """The features of channels. Everything is off unless it is turned on; a limit of 0 is none.
    `journal` says what is written down about a channel: nothing, who sent what to whom, or the
    payloads too."""

    retain: bool = False
    """The last message marked `retain` is sent to each new subscriber."""
    store: bool = False
    """Messages marked `store` are on disk before anyone sees them."""
    push: bool = False
    """Messages marked `push` also go to the devices of users who are subscribed or follow the
    channel."""
    presence: bool = False
    """Subscribers see who else is there."""
    occupancy: bool = False
    """Subscribers see how many are there."""
    public: bool = False
    """Any authenticated session may subscribe without a permission."""
    client_publish: bool = False
    """Sessions may publish without a permission to do so."""
    allow_anonymous: bool = False
    """Sessions without authentication may come in, where it is public."""
    live_history: bool = False
    """The last messages are kept in memory for those who come back."""
    max_age_seconds: Count = 0
    """Stored messages go when they are older; 0 for no limit."""
    max_stored_messages: Count = 0
    """Beyond so many, the oldest stored messages of a channel go; 0 for no limit."""
    max_stored_bytes: Count = 0
    """The same for the bytes of their payloads."""
    reclaim_acknowledged: bool = False
    """What every durable subscription of a channel has acknowledged goes, where there is one."""
    drop_unread: bool = False
    """The three limits hold even for what a durable subscription still has to get; it counts what
    it missed."""
    journal: PayloadRule = "metadata"
    """What the [journal](journal.md) keeps about the channel: nothing, all but the payloads, or the
    payloads too."""
    store_by_default: bool = False
    """With `store`, messages without the mark, too, unless they are transient. So webhooks get all
    that is published."""
    max_document_changes: Count = 1000
    """Changes of a document that are kept, so that clients can catch up and see what it was; 0 for
    all."""
    document_ttl_seconds: Count = 0
    """A document goes so long after its last change; 0 for never."""
    subscribe_hook: Name | None = None
    """A method of the hub's services that is asked before a client subscribes to the channel or
    reads it, see [Hooks](services.md#hooks)."""
    publish_hook: Name | None = None
    """The same before a client publishes."""
    document_messages: bool = False
    """With `store`, each change of a document is also a stored message `DocumentUpdated`, for
    webhooks and durable subscriptions."""

    @property
    def reclaims(self) -> bool:
        """Whether stored messages go some day."""
        return self.store and bool(
            self.max_age_seconds
            or self.max_stored_messages
            or self.max_stored_bytes
            or self.reclaim_acknowledged
        )

    def for_kind(self, kind: ChannelKind) -> Rules:
        """What is left of the rules on a channel of this kind."""
        if kind is ChannelKind.NOTIFICATION:
            return Rules(
                public=self.public,
                allow_anonymous=self.allow_anonymous,
                journal=self.journal,
                subscribe_hook=self.subscribe_hook,
            )
        if kind is ChannelKind.DOCUMENT and self.live_history:
            return msgspec.structs.replace(self, live_history=False)
        return self


class Binding(msgspec.Struct, frozen=True):
    """What the owner of a channel (an hChannel, see `domain.commands`) decided about it: as long as
    it is not active it refuses every action, and of the hub's clients only `participants` may
    publish and read. Services need not take part."""

    owner: str
    """Like the participants, a user id of the hub."""
    participants: frozenset[str]
    active: bool = True

    def admits(self, user_id: str | None) -> bool:
        return user_id is not None and user_id in self.participants


class BoundRules(Rules, frozen=True, kw_only=True):
    """The rules of a channel that has an owner: it may always store."""

    binding: Binding

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "store", True)


COLLECTIONS = frozenset({"hCommands", "hResults", "hDirectMessages"})
"""Channels in which a hub with `commands` stores what users ask of it. Clients have no access, also
once commands are switched off."""
PLUGIN_COLLECTION = "hPlugin:"
"""Begins the names of channels in which plugins store documents; clients have no access."""
_COLLECTION = Binding(owner="", participants=frozenset())


def is_collection(channel: str) -> bool:
    """Whether the hub itself keeps something in the channel; no client has access, and none can own
    it."""
    return (
        channel in COLLECTIONS
        or channel == COMMUNICATION_LOG
        or channel.startswith(PLUGIN_COLLECTION)
    )


class Quotas(Setting, frozen=True):
    """Limits of a hub; 0 means no limit. Only an administrator may change them."""

    sessions: Count = 0
    """Sessions at the same time."""
    channels: Count = 0
    """Channels in memory at the same time."""
    messages_per_second: Count = 0
    """Messages published each second, by all together."""
    deliveries_per_second: Count = 0
    """Messages delivered each second, to all together."""
    stored_bytes: Count = 0
    """Bytes of stored messages."""
    webhooks: Count = 0
    """Webhooks; 0 here means 10,000."""
    webhook_requests_per_second: Count = 0
    """Requests that go out to webhooks each second."""
    pushes_per_second: Count = 0
    """Pushes to devices that a node sends each second; more wait."""
    owned_channels: Count = 0
    """Channels with an owner, which users create by commands; 0 here means 10,000. A user may own
    a quarter of them."""
    peers: Count = 0
    """Peers, and collectives of peers; 0 here means 1,000,000."""
    deliveries: Count = 0
    """Deliveries to peers that wait or are under way, and messages to peers that wait for a
    reply; 0 here means 100,000."""
    peer_subscriptions: Count = 0
    """Channels that peers follow, of all peers together; 0 here means 10,000."""


class TrustedIssuer(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename=wire_name
):
    """Somebody else whose signed tokens a hub accepts: `iss` and `aud` must be exactly these. The
    public keys are read from a JWKS document, or given here. The claims name the user and what
    they may do; everyone that this issuer vouches for has the same level, never admin."""

    issuer: str
    """`iss` of its tokens, exactly."""
    audience: str
    """What `aud` of its tokens must name."""
    jwks_url: str | None = None
    """Where its public keys are; `https`, or `http` on this machine."""
    keys: tuple[dict[str, Any], ...] = ()
    """Its public keys in JWK form, in place of `jwksUrl`."""
    level: Literal["client", "service"] = "client"
    """What its tokens can do: a client's or a service's part."""
    user_claim: str = "sub"
    """The claim that holds the user id."""
    channels_claim: str = "channels"
    """The claim that holds the permissions for channels."""
    rpcs_claim: str = "rpcs"
    """The claim that holds the permitted calls."""
    extra_claim: str = "extra"
    """The claim that holds what others see of the user in presence."""
    addresses: Reach | None = None
    """Where `jwksUrl` may be: `public`, `loopback`, or `private`. Without it, `private` in the
    file; through the admin API, as `callbackAddresses` of the hub."""


class HubSettings(Setting, frozen=True):
    """What holds for all sessions and channels of a hub. What is left out has its default. Only an
    administrator of all hubs may change `callbackAddresses` and `natsSubjects`."""

    allow_anonymous: bool = False
    """Sessions may stay without authentication."""
    user_channel: bool = False
    """Each user has a channel `u:<user id>` shared by the user's sessions."""
    default_public: bool = False
    """Channels without rules are open to every session."""
    default_rules: Name | None = None
    """Rules of channels that have none of their own or by namespace."""
    topic_rules: Name | None = None
    """Rules that the first put or durable subscription gives a channel which does not store;
    without them such a channel refuses both."""
    auth_provider: Name | None = None
    """The auth provider that checks the clients' credentials."""
    session_restore: bool = True
    """A lost session can be restored with its one-time key."""
    allowed_origins: Annotated[tuple[Origin, ...], Meta(max_length=100)] = ()
    """Origins of web pages that may use this hub, in place of `listener.allowedOrigins`; the same
    forms."""
    trusted_issuers: Annotated[tuple[TrustedIssuer, ...], Meta(max_length=100)] = ()
    """Others whose signed tokens are accepted, see below."""
    quotas: Quotas = Quotas()
    open_topics: bool = False
    """Everybody may register topics of Light-PubSubHubbub, publish to those without a key, and
    subscribe to them; other channels stay what their rules make them."""
    callback_addresses: Reach = "public"
    """Where requests of the hub may go (webhooks, services, auth providers, keys, fetches): to
    public addresses only, also to this machine (`loopback`), or also to private networks
    (`private`). Only an operator may change it."""
    nats_subjects: Annotated[tuple[Subject, ...], Meta(max_length=100)] = ()
    """Subjects of NATS, with all below them, that routes and auth providers may name besides those
    below `hubbub.rpc.{hub}` and `hubbub.auth.{hub}`. Only an operator may change them."""
    websub_algorithm: Literal["sha1", "sha256", "sha384", "sha512"] = "sha256"
    """How WebSub subscriptions with a secret are signed that name no `hub.algorithm`; some
    subscribers know only `sha1`."""
    websub_no_content: bool = False
    """A publisher of WebSub is answered 204 without a body, which some expect, instead of 202."""
    push_audience: Literal["all", "absent"] = "all"
    """Whether a push also goes to users with a session that is subscribed to the channel."""
    push_contact: (
        Annotated[str, Meta(max_length=255, pattern="^(mailto:|https://)[!-~]+$")] | None
    ) = None
    """How push services of browsers reach who sends: `mailto:` or `https://`. Without it,
    `push.contact`."""
    commands: bool = False
    """Users may send [commands](commands.md), and create channels that have an owner and
    participants."""
    rid_window: Annotated[int, Meta(ge=-1, le=1_000_000)] = 5
    """How far the `rid` of a client of Hubiquitus that
    [attaches](commands.md#clients-of-hubiquitus) may be from the number of events that it was sent;
    -1 switches the check off."""
    communication: CommunicationSettings = CommunicationSettings()


NATS_SCHEME = "nats:"
"""Before the subject of an auth provider or a service that is reached over NATS."""


class AuthProvider(Setting, frozen=True):
    """Where the clients of a hub are authenticated. The values of `headers` are secret: answers
    show `(hidden)`, which leaves a value as it is when it is sent back with the same `url`. With
    `addresses` an operator allows others than those of the hub's `callbackAddresses`."""

    url: EndpointUrl
    """Where to send the credentials; `http` or `https`, without a password in it, or `nats:` and a
    subject."""
    headers: Headers = {}
    """Headers to send with them, for example a key; their values are secret."""
    timeout_seconds: TimeoutSeconds = 5.0
    """Time to answer; without it, `hub.authenticateRequestTimeout`."""
    addresses: Reach | None = None
    """Where it may be, as of a trusted issuer."""


class RpcRoute(Setting, frozen=True):
    """Who answers the calls of the methods that match a pattern. `headers` and `addresses` are as
    those of an auth provider."""

    method: Pattern
    """The methods, as a pattern such as `cart.*`."""
    url: EndpointUrl
    """Where to send the calls; `http` or `https`, without a password in it, or `nats:` and a
    subject."""
    headers: Headers = {}
    """Headers to send with them, for example a key; their values are secret."""
    timeout_seconds: TimeoutSeconds = 10.0
    """Time to answer."""
    addresses: Reach | None = None
    """Where it may be, as of a trusted issuer."""


class ChannelSettings(Setting, frozen=True):
    """What is set for one channel by name."""

    rules: Name | None = None
    """Rules of this channel."""
    metadata: dict[str, Any] = {}
    """Anything that services want to note, as JSON."""


E = TypeVar("E", AuthProvider, RpcRoute)
P = TypeVar("P", AuthProvider, RpcRoute, TrustedIssuer)


RulesSource = Literal["channel", "namespace", "hub", "default"]


class Section(msgspec.Struct, frozen=True):
    """A part of a hub's settings: entries of one type, by name. `kind` is its word in the store and
    in the audit log, `attribute` the attribute of `HubConfiguration`, which in the file is its
    key."""

    kind: str
    attribute: str
    type: type[Setting | str]

    @property
    def key(self) -> str:
        return wire_name(self.attribute)

    @property
    def words(self) -> str:
        """What one entry is called in messages."""
        return self.kind.replace("_", " ")

    def of(self, configuration: HubConfiguration) -> Mapping[str, Setting | str]:
        """The entries of a hub. The settings of the hub itself have no name."""
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
)


class Reference(msgspec.Struct, frozen=True):
    """A setting of a hub that names an entry of a section; `path` is its key, and `user` says in
    words where it is."""

    path: str
    user: str
    section: Section
    name: str


class HubConfiguration(msgspec.Struct, frozen=True):
    """All settings of one hub, as one consistent snapshot that can answer for any channel."""

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
    topic_keys: Mapping[str, bytes] = {}
    """Channels that take messages from who knows a key, and the key's SHA-256. They come from the
    registered topics, not from the settings."""
    bindings: Mapping[str, Binding] = {}
    """Channels that have an owner. The directory keeps the mapping up to date in place: there may
    be very many."""

    def rules_for(self, channel: str) -> Rules:
        """The channel's own rules, else its namespace's, else the hub's default. Dead letters have
        the rules of their channel, unless somebody gave them rules of their own; they are stored
        like it in any case, so that none is lost."""
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
        """What the channel's owner decided; None: it has no owner."""
        if is_collection(channel):
            return _COLLECTION
        return self.bindings.get(channel)

    def is_decided(self, channel: str) -> bool:
        """Whether somebody decided what holds for this very channel, or for its namespace. Rules
        that the channel got by use, the `topic_rules`, are no decision."""
        own = self.channels.get(channel)
        if own is not None and own.rules not in (None, self.settings.topic_rules):
            return True
        return namespace_of(channel) in self.namespaces

    def source_of(self, channel: str) -> tuple[RulesSource, str | None]:
        """Whose rules a channel has, and their name; without a name they are those of a hub that
        sets none. Dead letters have those of their channel where they have none of their own."""
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
        """Which settings name others."""
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
        """An endpoint as the hub may ask it: what was stored earlier may be out of bounds by now.
        Raises `SubjectNotPermitted`."""
        if endpoint.url.startswith(NATS_SCHEME):
            self.check_subject(endpoint.url, subject_root)
        elif endpoint.addresses is None:
            return msgspec.structs.replace(endpoint, addresses=self.reach_of(endpoint))
        return endpoint

    def check_subject(self, url: str, subject_root: str) -> None:
        """Of `nats:` and a subject. Raises `SubjectNotPermitted`."""
        subject = url.removeprefix(NATS_SCHEME)
        if not belongs_to(subject, self.hub, self.settings.nats_subjects, subject_root):
            raise SubjectNotPermitted(
                f"the subject {subject[:200]!r} is not one of hub {self.hub!r}: use one below "
                f"{rpc_prefix(subject_root, self.hub)!r} or {auth_prefix(subject_root, self.hub)!r}"
                ", or have an operator add a prefix to the hub's natsSubjects"
            )

    def reach_of(self, endpoint: AuthProvider | RpcRoute | TrustedIssuer) -> Reach:
        """The addresses at which the hub may ask it."""
        return endpoint.addresses or self.settings.callback_addresses

    def auth_provider(self) -> AuthProvider | None:
        name = self.settings.auth_provider
        return self.auth_providers.get(name) if name is not None else None


def trusting(configuration: HubConfiguration) -> HubConfiguration:
    """A hub as the configuration file declares it: what the operator wrote there may be in private
    networks, unless it says otherwise."""
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
