"""Events that a client reports to its application, besides messages."""

from __future__ import annotations

import msgspec

from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import (
    DocumentInfo,
    DocumentUpdated,
    Joined,
    Left,
    Member,
    NotificationInfo,
    NotificationNew,
    NotificationRead,
    Occupancy,
    Presence,
)

__all__ = [
    "AccessLost",
    "Connected",
    "Disconnected",
    "DocumentInfo",
    "DocumentUpdated",
    "Event",
    "Gap",
    "Joined",
    "Left",
    "Member",
    "NotificationInfo",
    "NotificationNew",
    "NotificationRead",
    "Occupancy",
    "Presence",
]


class Gap(msgspec.Struct, frozen=True):
    """Messages of a channel are missing here and can no longer be fetched.

    The last message before the gap was `after` in `epoch`. The number of missing messages is
    unknown: the channel may have begun a new epoch meanwhile.
    """

    channel: str
    reason: str
    epoch: str = ""
    after: int = 0


class Connected(msgspec.Struct, frozen=True):
    """The session is authenticated and subscribed. `restored`: it is the previous session."""

    session_id: str
    user_id: str | None
    restored: bool = False


class Disconnected(msgspec.Struct, frozen=True):
    """The connection ended. The next attempt follows in `retry_in` seconds; None: none follows."""

    error: HubbubError
    retry_in: float | None


class AccessLost(msgspec.Struct, frozen=True):
    """The hub ended a subscription."""

    channel: str
    error: HubbubError


Told = (
    Presence
    | Joined
    | Left
    | Occupancy
    | NotificationNew
    | NotificationRead
    | NotificationInfo
    | DocumentUpdated
    | DocumentInfo
)
"""The hub's notices about a channel, besides messages."""

Event = Connected | Disconnected | AccessLost | Gap | Told
