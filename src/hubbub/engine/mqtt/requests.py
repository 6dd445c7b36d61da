"""What a device asks of its session, and what the session answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from hubbub.domain.asking import Announcement
from hubbub.domain.errors import HubbubError
from hubbub.domain.events import Notice, Request
from hubbub.domain.requests import Position


class WantedChannels(msgspec.Struct, frozen=True):
    """The channels and patterns that one filter stands for."""

    names: tuple[str, ...]


class FollowFilters(Request, frozen=True):
    """Follow what the filters stand for. `kept` are names that other filters of the session stand
    for: they stay where a filter is refused. Answered by `FiltersFollowed`, then retained messages,
    then `FiltersSettled`."""

    filters: tuple[WantedChannels, ...]
    kept: frozenset[str]
    req_id: int
    places: tuple[Position, ...] | None = None
    """If the session goes on: where it was in its channels, whose retained messages it knows."""
    saving: Callable[[], Awaitable[None]] | None = None
    """Called first: the session must be on disk with the filters before they are granted. Raises
    `StoreUnavailable`."""
    since: int = 0
    """When the session was last alive, in milliseconds since 1970: messages of channels that began
    to match later are new."""


class FiltersFollowed(Notice, frozen=True):
    """For each filter, why it was refused; None: it was granted."""

    req_id: int
    errors: tuple[HubbubError | None, ...]


class FiltersSettled(Notice, frozen=True):
    """The retained messages of the last `FollowFilters` were sent."""


class DeviceConnected(Announcement, frozen=True, tag="device"):
    """A device connected at the sender: a connection of the same client id that another node still
    has is closed."""

    framed = True  # a node of the version before refuses it, instead of holding up its lane

    user_id: str | None
    client_id: str
