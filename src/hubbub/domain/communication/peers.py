"""Peers (people or services) with their addresses, and collectives of peers."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import BadRequest, InvalidAttribute, InvalidName
from hubbub.domain.fields import wire_name
from hubbub.domain.names import user_id_problem

MAX_ID: Final = 200
MOST_MEMBERS: Final = 10_000
"""The most members of a collective."""

PeerPolicy = Literal["TO_ALL_CHANNELS", "AT_LEAST_ONE", "PREFERRED", "IN_ORDER"]
GivenPolicy = Literal[
    "TO_ALL_CHANNELS", "AT_LEAST_ONE", "PREFERRED", "IN_ORDER", "TO_ALL", "TO_ANY"
]
_ALIASES: Final[dict[str, PeerPolicy]] = {
    "TO_ALL": "TO_ALL_CHANNELS",
    "TO_ANY": "AT_LEAST_ONE",
}
CollectivePolicy = Literal["TO_ALL_MEMBERS", "TO_ANY", "IN_ORDER"]
IN_ORDER: Final = "IN_ORDER"
"""The policy of a peer or collective whose addresses or members take turns."""
NextAfterMs = Annotated[int, Meta(ge=1, le=86_400_000 * 30)]
ADDRESS_TURN_MS: Final = 60_000
MEMBER_TURN_MS: Final = 300_000


class Address(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where an adapter reaches a peer: the adapter's name, and the adapter's own address, such as
    an e-mail address or a URL."""

    adapter: str
    parameters: tuple[str, ...] = ()


class TimeWindow(msgspec.Struct, frozen=True, rename=wire_name, forbid_unknown_fields=True):
    """A daily time window; if it ends before it begins, it spans midnight."""

    begins: Annotated[str, Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
    """The start as hours and minutes, such as `08:00`."""
    ends: Annotated[str, Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
    zone: Annotated[str, Meta(extra_json_schema={"format": "time-zone"})] = "UTC"
    """A time zone such as `Europe/Vienna`."""


class PrivacyPolicy(msgspec.Struct, frozen=True, rename=wire_name, forbid_unknown_fields=True):
    """Selects the messages that a peer accepts. A message must match all given fields; a list
    matches any of its values."""

    effect: Literal["allow", "deny"]
    """`allow`: only matching messages are accepted. `deny`: matching messages are rejected."""
    types: tuple[str, ...] = ()
    subtypes: tuple[str, ...] = ()
    senders: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    during: TimeWindow | None = None


class PeerInfo(msgspec.Struct, frozen=True, rename=wire_name, forbid_unknown_fields=True):
    """How to reach a peer: addresses in order of preference."""

    addresses: Annotated[tuple[Address, ...], Meta(max_length=50)] = ()
    policy: GivenPolicy = "TO_ALL_CHANNELS"
    """`TO_ALL` and `TO_ANY` are aliases of the first two values. `IN_ORDER` tries one address after
    the other, until one has the message."""
    privacy: Annotated[tuple[PrivacyPolicy, ...], Meta(max_length=50)] = ()
    next_after_ms: NextAfterMs | UnsetType = UNSET
    """With `IN_ORDER`: after how many milliseconds without an acknowledgement the next address is
    tried, too. Default: 60000. A failure leads to the next address at once."""

    def __post_init__(self) -> None:
        canonical = _ALIASES.get(self.policy)
        if canonical is not None:
            msgspec.structs.force_setattr(self, "policy", canonical)

    @property
    def turn_ms(self) -> int:
        """How long an address may take before the next one begins; 0: all begin at once."""
        return _turn_ms(self.policy, self.next_after_ms, ADDRESS_TURN_MS)


def _turn_ms(policy: str, given: int | UnsetType, default: int) -> int:
    if policy != IN_ORDER:
        return 0
    return default if isinstance(given, UnsetType) else given


ID_SCHEMA: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_ID,
    "pattern": r"^[^\u0000-\u001f\u007f-\u009f:]+$",
}
PeerId = Annotated[str, Meta(extra_json_schema=ID_SCHEMA)]
"""A peer's id. `check_identifier` reports an invalid one as `InvalidName`."""


class CollectiveInfo(msgspec.Struct, frozen=True, rename=wire_name, forbid_unknown_fields=True):
    """A group of peers with one identifier."""

    members: Annotated[tuple[PeerId, ...], Meta(extra_json_schema={"maxItems": MOST_MEMBERS})] = ()
    policy: CollectivePolicy = "TO_ALL_MEMBERS"
    """`TO_ANY` sends to all members and needs one; `IN_ORDER` tries one member after the other."""
    next_after_ms: NextAfterMs | UnsetType = UNSET
    """With `IN_ORDER`: after how many milliseconds without an acknowledgement the next member is
    tried, too. Default: 300000. A failure leads to the next member at once."""

    @property
    def turn_ms(self) -> int:
        """How long a member may take before the next one begins; 0: all begin at once."""
        return _turn_ms(self.policy, self.next_after_ms, MEMBER_TURN_MS)


def read_peer(tree: Any) -> PeerInfo:
    """Reads a peer from the JSON of an administrator or a callback. Raises `InvalidAttribute`."""
    try:
        peer = msgspec.convert(tree, PeerInfo)
    except msgspec.ValidationError as error:
        raise InvalidAttribute(f"the peer: {error}") from None
    return check_peer(peer)


def check_peer(peer: PeerInfo) -> PeerInfo:
    """Raises `InvalidAttribute` for a time zone that is unknown."""
    for window in (policy.during for policy in peer.privacy):
        if window is not None:
            check_zone(window.zone)
    return peer


def read_collective(tree: Any) -> CollectiveInfo:
    """Returns the collective with duplicate members removed, order kept. Raises `BadRequest`."""
    try:
        found = msgspec.convert(tree, CollectiveInfo)
    except msgspec.ValidationError as error:
        raise InvalidAttribute(f"the collective: {error}") from None
    return check_collective(found)


def check_collective(found: CollectiveInfo) -> CollectiveInfo:
    """Returns the collective with duplicate members removed, order kept. Raises `BadRequest` for
    too many members."""
    if len(found.members) > MOST_MEMBERS:
        raise BadRequest(
            f"{len(found.members)} members are too many; a collective has {MOST_MEMBERS} at most"
        )
    return msgspec.structs.replace(found, members=tuple(dict.fromkeys(found.members)))


def check_zone(zone: str) -> ZoneInfo:
    """Raises `InvalidAttribute` for a time zone that is unknown."""
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidAttribute(
            f"the time zone {zone[:64]!r} is unknown; give one such as 'Europe/Vienna'"
        ) from None


def check_identifier(name: str, what: str) -> str:
    """Checks the id of a peer or the name of a collective. Raises `InvalidName`."""
    problem = user_id_problem(name)
    if problem is not None or ":" in name or len(name) > MAX_ID:
        raise InvalidName(
            f"the {what} {name[:64]!r} is not 1 to {MAX_ID} characters without a colon and control"
            " characters"
        )
    return name
