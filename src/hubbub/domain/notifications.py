"""Notifications: messages of a `notification:` channel that are read or unread.

The read state belongs to the channel, so all who may read the channel share it. Times are
milliseconds since 1970. A notification's `timestamp` is unique in its channel and rises with each
one that is created: a page that begins behind a timestamp neither repeats nor leaves out any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar

import msgspec

from hubbub.domain.errors import (
    BadRequest,
    Conflict,
    HubbubError,
    InvalidName,
    TooLarge,
    WrongChannelKind,
)
from hubbub.domain.names import ChannelKind, kind_of, user_id_problem
from hubbub.domain.wire import OPTIONAL, derived

MAX_BATCH = 1000
"""Notifications that one request may create, or mark by their ids."""
MAX_PAGE = 1000
MAX_ID_CHARS = 64
MAX_REQUEST_BYTES = 1024 * 1024
"""Payloads that one request to an owner, and one event to its followers, may hold together; a
single notification may be larger."""


class Notification(msgspec.Struct, frozen=True, gc=False):
    id: str
    timestamp: int
    event: Annotated[str, OPTIONAL]
    payload: bytes
    content_type: Annotated[str, OPTIONAL]
    author: str | None = None
    expires_at: int | None = None
    read_at: int | None = None
    """None: it is unread."""
    read_by: str | None = None

    @derived
    def read(self) -> bool:
        return self.read_at is not None


class NotificationItem(msgspec.Struct, frozen=True, gc=False):
    """A notification to create. The id makes the creation repeatable: the same content again is a
    duplicate, other content a conflict."""

    event: Annotated[str, OPTIONAL]
    payload: bytes
    content_type: Annotated[str, OPTIONAL]
    id: str | None = None
    """None: the hub gives one."""
    author: str | None = None
    expires_at: int | None = None

    def at(self, timestamp: int) -> Notification:
        return Notification(
            self.id or "",
            timestamp,
            self.event,
            self.payload,
            self.content_type,
            self.author,
            self.expires_at,
        )


class NotificationState(msgspec.Struct, frozen=True):
    """A channel in numbers. `revision` rises by one with each notification that is created, and
    with each change of others; `newest` is the timestamp of the last one ever created, 0 before
    the first. Positions of another epoch mean nothing."""

    epoch: str
    revision: int
    unread: int
    total: int
    newest: int


class NotificationResult(msgspec.Struct, frozen=True):
    """What became of one that was to be created."""

    id: str | None
    timestamp: int = 0
    duplicate: bool = False
    error: HubbubError | None = None


class Created(msgspec.Struct, frozen=True):
    """`results` in the order of what was asked for."""

    results: tuple[NotificationResult, ...]
    state: NotificationState


class Marked(msgspec.Struct, frozen=True):
    """`marked` notifications changed; `unknown` ids are not there (any more)."""

    marked: int
    unknown: tuple[str, ...]
    state: NotificationState


class StoredNotifications(msgspec.Struct, frozen=True):
    """A page: newest first, or in rising order where it begins behind a timestamp."""

    notifications: tuple[Notification, ...]
    more: bool
    state: NotificationState


class Selection(msgspec.Struct, frozen=True):
    """Which notifications: those with these ids, all up to a timestamp, or all that there are when
    the request is carried out."""

    ids: tuple[str, ...] = ()
    up_to: int | None = None
    all: bool = False

    def checked(self, where: str) -> Selection:
        """Raises `BadRequest` unless exactly one of the three is given, and `TooLarge`."""
        if bool(self.ids) + (self.up_to is not None) + self.all != 1:
            raise BadRequest(f"{where}: give exactly one of `ids` (not empty), `upTo` and `all`")
        if len(self.ids) > MAX_BATCH:
            raise TooLarge(f"{where}: {len(self.ids)} ids; at most {MAX_BATCH} are allowed")
        return self


class _OfChannel(msgspec.Struct, frozen=True, tag=True):
    hub: str
    channel: str


class CreateNotifications(_OfChannel, frozen=True):
    """Every item has an id, so that the request may be repeated."""

    answer: ClassVar[Any] = Created
    items: tuple[NotificationItem, ...]


class MarkNotifications(_OfChannel, frozen=True):
    """As read, or as unread."""

    answer: ClassVar[Any] = Marked
    which: Selection
    read: bool = True
    by: str | None = None


class DeleteNotifications(_OfChannel, frozen=True):
    answer: ClassVar[Any] = Marked
    which: Selection


class ForgetNotifications(_OfChannel, frozen=True):
    """Delete the whole channel: whatever comes after has a new epoch."""

    answer: ClassVar[Any] = int


class PageNotifications(_OfChannel, frozen=True):
    """At most one of the bounds is given; without one, the newest."""

    answer: ClassVar[Any] = StoredNotifications
    limit: int
    unread: bool = False
    after: int | None = None
    before: int | None = None


class DescribeNotifications(_OfChannel, frozen=True):
    answer: ClassVar[Any] = NotificationState


NotificationRequest = (
    CreateNotifications
    | MarkNotifications
    | DeleteNotifications
    | ForgetNotifications
    | PageNotifications
    | DescribeNotifications
)
NotificationAnswer = Created | Marked | StoredNotifications | NotificationState | int


def check_kind(channel: str) -> str:
    """Raises `WrongChannelKind`."""
    if kind_of(channel) is not ChannelKind.NOTIFICATION:
        raise WrongChannelKind(
            f"{channel!r} is not a notification channel; their names begin with 'notification:'"
        )
    return channel


def check_item(item: NotificationItem, largest_bytes: int, now: int) -> NotificationItem:
    """Raises `InvalidName`, `TooLarge` and `BadRequest`."""
    if item.id is not None and not (0 < len(item.id) <= MAX_ID_CHARS and item.id.isprintable()):
        raise InvalidName(
            f"the id {item.id[:20]!r} is not 1 to {MAX_ID_CHARS} printable characters"
        )
    if item.author is not None and (problem := user_id_problem(item.author)) is not None:
        raise InvalidName(f"the author {problem}")
    if len(item.payload) > largest_bytes:
        raise TooLarge(
            f"the payload has {len(item.payload)} bytes; a notification may have {largest_bytes}"
        )
    if item.expires_at is not None and item.expires_at <= now:
        raise BadRequest(f"`expiresAt` is {item.expires_at}, which is over; give a later time (ms)")
    return item


def taken_id(identifier: str) -> Conflict:
    return Conflict(
        f"the channel has a notification {identifier!r} with other content; choose another id"
    )


def portions(items: Sequence[NotificationItem]) -> Iterator[tuple[NotificationItem, ...]]:
    """The items in order, `MAX_REQUEST_BYTES` at a time."""
    portion: list[NotificationItem] = []
    size = 0
    for item in items:
        if portion and size + len(item.payload) > MAX_REQUEST_BYTES:
            yield tuple(portion)
            portion, size = [], 0
        portion.append(item)
        size += len(item.payload)
    if portion:
        yield tuple(portion)
