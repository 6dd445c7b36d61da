"""Rules: which features a channel has, and which set of them applies to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from hubbub.domain.callbacks import Reach
from hubbub.domain.errors import SubjectNotPermitted
from hubbub.domain.journal import PayloadRule
from hubbub.domain.names import ChannelKind, kind_of, namespace_of, without_dead_letters
from hubbub.domain.subjects import auth_prefix, belongs_to, rpc_prefix

Limit = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
"""0 means no limit."""


class Rules(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The features of a channel. Everything is off unless a rule turns it on.

    `journal` is no feature of the channel but what is written down about it: nothing, who sent
    what to whom (metadata), or the payloads too.
    """

    retain: bool = False
    store: bool = False
    push: bool = False
    presence: bool = False
    occupancy: bool = False
    public: bool = False
    client_publish: bool = False
    allow_anonymous: bool = False
    live_history: bool = False
    max_age_seconds: Limit = 0
    """Of stored messages; the next two bound how many a channel holds, and their payload."""
    max_stored_messages: Limit = 0
    max_stored_bytes: Limit = 0
    reclaim_acknowledged: bool = False
    """What every durable subscription of the channel has acknowledged goes, if there is one."""
    drop_unread: bool = False
    """The limits hold even for what a durable subscription still has to get, which misses it."""
    journal: PayloadRule = "metadata"
    store_by_default: bool = False
    """Where the channel stores: each message that is not transient, also without being asked."""

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
                public=self.public, allow_anonymous=self.allow_anonymous, journal=self.journal
            )
        if kind is ChannelKind.DOCUMENT and self.live_history:
            return msgspec.structs.replace(self, live_history=False)
        return self


class Quotas(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Limits of one hub; 0 means no limit."""

    sessions: int = 0
    channels: int = 0
    messages_per_second: int = 0
    deliveries_per_second: int = 0
    stored_bytes: int = 0
    webhooks: int = 0
    """0 here means the usual limit."""
    webhook_requests_per_second: int = 0


class TrustedIssuer(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"
):
    """Somebody else whose signed tokens a hub accepts: `iss` and `aud` must be exactly these. The
    public keys are read from a JWKS document, or given here. The claims name the user and what
    they may do; everyone that this issuer vouches for has the same level, never admin."""

    issuer: str
    audience: str
    jwks_url: str | None = None
    keys: tuple[dict[str, Any], ...] = ()
    level: Literal["client", "service"] = "client"
    user_claim: str = "sub"
    channels_claim: str = "channels"
    rpcs_claim: str = "rpcs"
    extra_claim: str = "extra"
    addresses: Reach | None = None
    """Of `jwks_url`, as of an auth provider."""


class HubSettings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a tenant decides for all of its sessions and channels."""

    allow_anonymous: bool = False
    user_channel: bool = False
    default_public: bool = False
    default_rules: str | None = None
    topic_rules: str | None = None
    """What a channel that does not store gets as its own rules by the first put or durable
    subscription; None: such a channel refuses them."""
    auth_provider: str | None = None
    session_restore: bool = True
    allowed_origins: tuple[str, ...] = ()
    trusted_issuers: tuple[TrustedIssuer, ...] = ()
    quotas: Quotas = Quotas()
    open_topics: bool = False
    """Everybody may register topics of Light-PubSubHubbub, publish to those that have no key, and
    subscribe to them, as in the paper. It opens the topics that were made so, and no channel that
    somebody uses already or that has rules."""
    callback_addresses: Reach = "public"
    """Where what the hub sends may go: to the Internet only, or also to this machine (`loopback`)
    and to private networks (`private`). Only an operator may change it."""
    nats_subjects: tuple[str, ...] = ()
    """Subjects of NATS, with all below them, that routes and auth providers of the hub may name
    besides those that are derived from its name. Only an operator may change them."""


NATS_SCHEME = "nats:"
"""Before the subject of an auth provider or a service that is reached over NATS."""


class AuthProvider(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where a hub's clients are authenticated: at a URL, or over NATS at `nats:` and a subject."""

    url: str
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    timeout_seconds: float = 5.0
    addresses: Reach | None = None
    """Where it may be, if an operator decided so; None: as `callback_addresses` of the hub."""


class RpcRoute(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Who answers the methods that match a pattern: an HTTP endpoint, or `nats:` and a subject."""

    method: str
    url: str
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    timeout_seconds: float = 10.0
    addresses: Reach | None = None
    """As of an auth provider."""


class ChannelSettings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is set for one channel by name."""

    rules: str | None = None
    metadata: dict[str, object] = msgspec.field(default_factory=dict)


E = TypeVar("E", AuthProvider, RpcRoute)
P = TypeVar("P", AuthProvider, RpcRoute, TrustedIssuer)


class HubConfiguration(msgspec.Struct, frozen=True):
    """All settings of one hub, as one consistent snapshot that can answer for any channel."""

    hub: str
    settings: HubSettings = HubSettings()
    rules: Mapping[str, Rules] = {}
    namespaces: Mapping[str, str] = {}
    channels: Mapping[str, ChannelSettings] = {}
    auth_providers: Mapping[str, AuthProvider] = {}
    rpc_routes: Mapping[str, RpcRoute] = {}
    topic_keys: Mapping[str, bytes] = {}
    """Channels that take messages from who knows a key, and the key's SHA-256. They come from the
    registered topics, not from the settings."""

    def rules_for(self, channel: str) -> Rules:
        """The channel's own rules, else its namespace's, else the hub's default. Dead letters have
        the rules of their channel, unless somebody gave them rules of their own; they are stored
        like it in any case, so that none is lost."""
        rules = self._unfiltered_rules_for(channel).for_kind(kind_of(channel))
        origin = without_dead_letters(channel)
        if origin != channel and not rules.store and self.rules_for(origin).store:
            return msgspec.structs.replace(rules, store=True)
        return rules

    def is_decided(self, channel: str) -> bool:
        """Whether somebody decided what holds for this very channel, or for its namespace. Rules
        that the channel got by use, the `topic_rules`, are no decision."""
        own = self.channels.get(channel)
        if own is not None and own.rules not in (None, self.settings.topic_rules):
            return True
        return namespace_of(channel) in self.namespaces

    def _unfiltered_rules_for(self, channel: str) -> Rules:
        own = self.channels.get(channel)
        origin = without_dead_letters(channel)
        if origin != channel and (own is None or own.rules in (None, self.settings.topic_rules)):
            return self._unfiltered_rules_for(origin)
        namespace = namespace_of(channel)
        candidates = (
            own.rules if own else None,
            self.namespaces.get(namespace) if namespace is not None else None,
            self.settings.default_rules,
        )
        for rules_id in candidates:
            if rules_id is not None and rules_id in self.rules:
                return self.rules[rules_id]
        return Rules(
            public=self.settings.default_public, allow_anonymous=self.settings.allow_anonymous
        )

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
