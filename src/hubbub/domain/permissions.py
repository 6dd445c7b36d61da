"""Authorization: identities, their grants, and the decision for one channel."""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

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
    """The reach of an identity: its grants, read access to a hub's administration, its hub, or
    everything."""

    CLIENT = "client"
    VIEWER = "viewer"
    """Reads what the admin API shows of a hub (for `*`: of all hubs), without messages; has no
    access to channels."""
    SERVICE = "service"
    ADMIN = "admin"


class Grant(msgspec.Struct, frozen=True, omit_defaults=True):
    """Permission for the channels that match a pattern."""

    channel: str
    publish: Annotated[bool, ALWAYS] = False
    subscribe: Annotated[bool, ALWAYS] = False


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """The identity of a session. An anonymous identity has no user id."""

    user_id: str | None = None
    level: Level = Level.CLIENT
    grants: tuple[Grant, ...] = ()
    rpcs: tuple[str, ...] = ()
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    expires_at: int | None = None
    """Seconds since 1970; None: never."""
    token_id: str | None = None
    parent_id: str | None = None
    """The id of the token from which this one was derived: revoking that token revokes both."""
    issued_at: int = 0
    """When the identity was authenticated, in milliseconds since 1970; 0: unknown."""
    foreign: bool = False
    """Whether the identity comes from an external issuer."""
    issuer: str | None = None
    """The external issuer's `iss` claim."""
    all_hubs: bool = False
    """An administrator of all hubs, whom a single hub cannot revoke."""

    def __post_init__(self) -> None:
        """Checks that an identity can be stored, sent and matched: names are bounded and free of
        control characters, patterns are bounded. JSON can also contain lone surrogates and infinite
        numbers. Raises `InvalidToken`."""
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
        """Whether the identity is a service or an administrator, who needs no grants in the hub."""
        return self.level is not Level.CLIENT and self.level is not Level.VIEWER


ANONYMOUS = Identity()


class Reader(msgspec.Struct, frozen=True, omit_defaults=True):
    """The identity under which messages are read."""

    identity: Identity
    open_topic: bool = False
    """The reader reads a topic created through `open_topics`, which is open to everybody."""


class DoorReader(Reader, frozen=True, kw_only=True):
    """A reader whom a door admits to one channel by rules of its own, for example by a token that
    says nothing about channels."""

    channel: str

    def is_admitted(self, configuration: HubConfiguration) -> bool:
        """Whether the reader may receive messages of the channel under the hub's settings."""
        raise NotImplementedError


@lru_cache(maxsize=65536)
def granted(grants: tuple[Grant, ...], action: Literal["publish", "subscribe"], name: str) -> bool:
    """Whether one of the grants permits this action on the channel."""
    return matches_any(tuple(grant.channel for grant in grants if getattr(grant, action)), name)


def _is_own_user_channel(identity: Identity, channel: str, user_channels: bool) -> bool:
    return (
        user_channels and identity.user_id is not None and channel == user_channel(identity.user_id)
    )


def _open_to(identity: Identity, channel: str, rules: Rules, user_channels: bool) -> bool:
    """Whether the rules alone, without a grant, permit access."""
    if user_channels and namespace_of(without_dead_letters(channel)) == USER_NAMESPACE:
        return False
    return rules.public and (rules.allow_anonymous or identity.authenticated)


def may_subscribe(identity: Identity, channel: str, rules: Rules, user_channels: bool) -> bool:
    """`user_channels`: the hub gives each user a private channel `u:<user id>` and the
    notifications `notification:u:<user id>`; no grant opens them to other users. Whoever may read a
    channel may read its dead letters. An owned channel admits its participants while it is
    active."""
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


NEVER: Final = 1 << 62
"""Later than every time in milliseconds."""


def could_subscribe_since(
    identity: Identity, channel: str, rules: Rules, user_channels: bool
) -> int:
    """Since when (milliseconds since 1970) an identity that may subscribe now has surely been
    allowed to: if only a grant opens the channel, since the grant's token was issued."""
    by_grant = (
        identity.level is Level.CLIENT
        and not _is_own_user_channel(identity, without_dead_letters(channel), user_channels)
        and not _open_to(identity, channel, rules, user_channels)
    )
    return (identity.issued_at or NEVER) if by_grant else 0


def may_read(reader: Reader, channel: str, configuration: HubConfiguration, rules: Rules) -> bool:
    """Whether the reader may receive messages of the channel, whose effective rules are `rules`,
    over any protocol: the hub admits the reader, and the rules or a grant open the channel."""
    identity, settings = reader.identity, configuration.settings
    if isinstance(reader, DoorReader):
        return reader.channel == channel and reader.is_admitted(configuration)
    if isinstance(rules, BoundRules):
        return may_subscribe(identity, channel, rules, settings.user_channel)
    if reader.open_topic and settings.open_topics and not configuration.is_decided(channel):
        return True
    return (identity.authenticated or settings.allow_anonymous) and may_subscribe(
        identity, channel, rules, settings.user_channel
    )


def may_stay(reader: Reader, channel: str, configuration: HubConfiguration, rules: Rules) -> bool:
    """Whether the reader's existing subscription may stay. An owned channel keeps its participants'
    subscriptions while it is inactive."""
    if isinstance(rules, BoundRules) and not isinstance(reader, DoorReader):
        return _takes_part(reader.identity, rules)
    return may_read(reader, channel, configuration, rules)


def refusal(identity: Identity, action: str, channel: str, rules: Rules) -> NotPermitted:
    """The error for an identity that may not `publish to` or `subscribe to` the channel. Only
    participants learn that the channel has an owner."""
    if isinstance(rules, BoundRules) and not rules.binding.active and _takes_part(identity, rules):
        return NotPermitted(f"no permission to {action} {channel!r}: its owner made it inactive")
    return NotPermitted(f"no permission to {action} {channel!r}")


def _takes_part(identity: Identity, rules: BoundRules) -> bool:
    if identity.level is not Level.CLIENT:
        return identity.trusted
    return rules.binding.admits(identity.user_id)


def may_read_pattern(reader: Reader, pattern: str, configuration: HubConfiguration) -> bool:
    """Whether the reader may subscribe to a pattern as a whole: one grant covers it, or the rules
    of its namespace do. Each matching channel is checked separately (`may_read`)."""
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
    """A grant to publish overrides a disabled `client_publish`. An owned channel admits its
    participants while it is active."""
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
