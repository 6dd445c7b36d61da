"""Who may do what: identities, their grants, and the decision for one channel."""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec

from hubbub.domain.errors import InvalidToken, NotPermitted
from hubbub.domain.names import (
    COMMUNICATION_LOG,
    USER_NAMESPACE,
    USER_NOTIFICATIONS,
    namespace_of,
    user_channel,
    user_id_problem,
    user_notifications,
    without_dead_letters,
)
from hubbub.domain.patterns import covers, literal_start, matches_any, patterns_problem
from hubbub.domain.rules import BoundRules, HubConfiguration, Rules
from hubbub.domain.wire import ALWAYS


class Level(enum.Enum):
    """How far an identity reaches: its grants, reading about a hub, its hub, or everything."""

    CLIENT = "client"
    VIEWER = "viewer"
    """Reads what the admin API shows of a hub or, for `*`, of all, without messages; no channel is
    open to it."""
    SERVICE = "service"
    ADMIN = "admin"


class Grant(msgspec.Struct, frozen=True, omit_defaults=True):
    """Permission for the channels that match a pattern."""

    channel: str
    publish: Annotated[bool, ALWAYS] = False
    subscribe: Annotated[bool, ALWAYS] = False


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """The identity of a session. An anonymous one has no user id."""

    user_id: str | None = None
    level: Level = Level.CLIENT
    grants: tuple[Grant, ...] = ()
    rpcs: tuple[str, ...] = ()
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    expires_at: int | None = None
    """Seconds since 1970, or None for no expiry."""
    token_id: str | None = None
    parent_id: str | None = None
    """The id of the token that this one was given out for: a revocation of that one covers both."""
    issued_at: int = 0
    """When this was proven, in milliseconds since 1970; 0 where nobody said."""
    foreign: bool = False
    """Another issuer vouches for this identity."""
    issuer: str | None = None
    """Which one, as its tokens say (`iss`)."""
    all_hubs: bool = False
    """An administrator of all hubs, whom no single hub can revoke."""

    def __post_init__(self) -> None:
        """What comes with an identity must be fit to be kept, to be told to others and to be
        matched: names are bounded and without control characters, patterns are bounded. JSON, as
        which an identity arrives, also has halves of characters and numbers without end. Raises
        `InvalidToken`."""
        for claim, problem in (
            ("user id", user_id_problem(self.user_id) if self.user_id is not None else None),
            ("token id", user_id_problem(self.token_id) if self.token_id is not None else None),
            ("list of channels", patterns_problem([grant.channel for grant in self.grants])),
            ("list of rpcs", patterns_problem(self.rpcs)),
        ):
            if problem is not None:
                raise InvalidToken(f"the {claim} {problem}")
        try:
            msgspec.msgpack.encode((self.user_id, self.grants, self.rpcs, self.extra))
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidToken(
                f"the claims hold text that is not UTF-8, or a number over 64 bits: {error}"
            ) from None

    @property
    def authenticated(self) -> bool:
        return self.user_id is not None or self.level is not Level.CLIENT

    @property
    def trusted(self) -> bool:
        """A service or an administrator, who needs no grants in the hub."""
        return self.level is not Level.CLIENT and self.level is not Level.VIEWER


ANONYMOUS = Identity()


class Reader(msgspec.Struct, frozen=True, omit_defaults=True):
    """As whom somebody is given messages."""

    identity: Identity
    open_topic: bool = False
    """What it reads is a topic that was made through `open_topics`, which everybody may read."""


@lru_cache(maxsize=65536)
def granted(grants: tuple[Grant, ...], action: Literal["publish", "subscribe"], name: str) -> bool:
    """Whether one of the grants is for this action on the channel."""
    return matches_any(tuple(grant.channel for grant in grants if getattr(grant, action)), name)


def _is_own_user_channel(identity: Identity, channel: str, user_channels: bool) -> bool:
    return (
        user_channels and identity.user_id is not None and channel == user_channel(identity.user_id)
    )


def _open_to(identity: Identity, channel: str, rules: Rules, user_channels: bool) -> bool:
    """Whether the rules alone, without a grant, let this identity in."""
    if user_channels and namespace_of(channel) == USER_NAMESPACE:
        return False
    return rules.public and (rules.allow_anonymous or identity.authenticated)


def may_subscribe(identity: Identity, channel: str, rules: Rules, user_channels: bool) -> bool:
    """`user_channels`: the hub gives each user a private channel `u:<user id>`, and the
    notifications `notification:u:<user id>`, which no grant opens to other users. Who may read a
    channel may read its dead letters. Of a channel with an owner: its participants, as long as it
    is active."""
    if isinstance(rules, BoundRules):
        return rules.binding.active and _takes_part(identity, rules)
    if identity.level is not Level.CLIENT:
        return identity.trusted
    if user_channels and channel.startswith(USER_NOTIFICATIONS):
        return identity.user_id is not None and channel == user_notifications(identity.user_id)
    origin = without_dead_letters(channel)
    return (
        _is_own_user_channel(identity, origin, user_channels)
        or _open_to(identity, channel, rules, user_channels)
        or granted(identity.grants, "subscribe", channel)
        or (origin != channel and granted(identity.grants, "subscribe", origin))
    )


def may_read(reader: Reader, channel: str, configuration: HubConfiguration, rules: Rules) -> bool:
    """Whether messages of the channel, which has these `rules` in the configuration, may be handed
    to the reader, whatever the door: it gets into the hub, and the rules or a grant open the
    channel."""
    identity, settings = reader.identity, configuration.settings
    if isinstance(rules, BoundRules):
        return may_subscribe(identity, channel, rules, settings.user_channel)
    if reader.open_topic and settings.open_topics and not configuration.is_decided(channel):
        return True
    return (identity.authenticated or settings.allow_anonymous) and may_subscribe(
        identity, channel, rules, settings.user_channel
    )


def may_stay(reader: Reader, channel: str, configuration: HubConfiguration, rules: Rules) -> bool:
    """Whether a subscription that the reader has may stay. A channel with an owner keeps those of
    its participants while it is not active."""
    if isinstance(rules, BoundRules):
        return _takes_part(reader.identity, rules)
    return may_read(reader, channel, configuration, rules)


def refusal(action: str, channel: str, rules: Rules) -> NotPermitted:
    """The error of who may not do this (`publish to`, `subscribe to`) with the channel."""
    if not isinstance(rules, BoundRules):
        return NotPermitted(f"no permission to {action} {channel!r}")
    if rules.binding.active:
        return NotPermitted(f"no permission to {action} {channel!r}: only its participants have it")
    return NotPermitted(f"no permission to {action} {channel!r}: its owner made it inactive")


def _takes_part(identity: Identity, rules: BoundRules) -> bool:
    if identity.level is not Level.CLIENT:
        return identity.trusted
    return rules.binding.admits(identity.user_id)


def may_read_pattern(reader: Reader, pattern: str, configuration: HubConfiguration) -> bool:
    """Whether the reader may subscribe to a pattern as a whole: one grant covers it, or the rules
    of the place that it names open that. Which of the channels that match it may be read is asked
    for each of them (`may_read`)."""
    identity, settings = reader.identity, configuration.settings
    if not (identity.authenticated or settings.allow_anonymous):
        return False
    if identity.level is not Level.CLIENT:
        return identity.trusted
    if any(grant.subscribe and covers(grant.channel, pattern) for grant in identity.grants):
        return True
    place = literal_start(pattern)
    inside = f"{namespace_of(place)}:" if namespace_of(place) is not None else ""
    return _open_to(identity, inside, configuration.rules_for(inside), settings.user_channel)


def may_publish(identity: Identity, channel: str, rules: Rules, user_channels: bool) -> bool:
    """A grant to publish overrides `client_publish` off. To a channel with an owner: its
    participants, as long as it is active."""
    if isinstance(rules, BoundRules):
        if channel == COMMUNICATION_LOG:
            return False
        return rules.binding.active and _takes_part(identity, rules)
    if identity.level is not Level.CLIENT:
        return identity.trusted
    return (
        _is_own_user_channel(identity, channel, user_channels)
        or (rules.client_publish and _open_to(identity, channel, rules, user_channels))
        or granted(identity.grants, "publish", channel)
    )
