"""Notifications: messages of a `notification:` channel, each read or unread.

The read state belongs to the channel and is shared by all its readers. Times are milliseconds since
1970. A notification's `timestamp` is unique in its channel and ascends: a page that starts after a
timestamp neither repeats nor skips notifications.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Generic

import msgspec
from msgspec import UNSET

from hubbub.domain.asking import Answer, ChannelRequest, FeedEvent
from hubbub.domain.audit import Audit
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
"""The most notifications that one request may create, or mark by id."""
MAX_PAGE = 1000
MAX_ID_CHARS = 64
MAX_REQUEST_BYTES = 1024 * 1024
"""The total payload size of one request to an owner, and of one event to its followers; a single
notification may be larger."""


class Notification(msgspec.Struct, frozen=True, gc=False):
    id: str
    timestamp: int
    event: Annotated[str, OPTIONAL]
    payload: bytes
    content_type: Annotated[str, OPTIONAL]
    author: str | None = None
    expires_at: int | None = None
    read_at: int | None = None
    """None: unread."""
    read_by: str | None = None

    @derived
    def read(self) -> bool:
        return self.read_at is not None


class NotificationItem(msgspec.Struct, frozen=True, gc=False):
    """A notification to create. The id makes creation idempotent: a repeat with the same content is
    a duplicate, with other content a conflict."""

    event: Annotated[str, OPTIONAL]
    payload: bytes
    content_type: Annotated[str, OPTIONAL]
    id: str | None = None
    """None: the hub assigns one."""
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
    """Counters of a channel. `revision` rises by one with each created notification and each other
    change; `newest` is the timestamp of the last notification ever created, 0 before the first.
    Positions of another epoch are invalid."""

    epoch: str
    revision: int
    unread: int
    total: int
    newest: int


class NotificationResult(msgspec.Struct, frozen=True):
    """The result of creating one notification."""

    id: str | None
    timestamp: int = 0
    duplicate: bool = False
    error: HubbubError | None = None


class Created(msgspec.Struct, frozen=True):
    """`results` are in the order of the request."""

    results: tuple[NotificationResult, ...]
    state: NotificationState


class MarkResult(msgspec.Struct, frozen=True):
    """`marked` is the number of changed notifications; `unknown` ids do not exist (any more)."""

    marked: int
    unknown: tuple[str, ...]
    state: NotificationState


class StoredNotifications(msgspec.Struct, frozen=True):
    """A page: newest first, or in ascending order if it starts after a timestamp."""

    notifications: tuple[Notification, ...]
    more: bool
    state: NotificationState


class Selection(msgspec.Struct, frozen=True):
    """Selects notifications: by ids, all up to a timestamp, or all that exist when the request is
    processed."""

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


class _Request(ChannelRequest[Answer], Generic[Answer], frozen=True, tag=True):
    travels_in = ("notifications", "request")


class CreateNotifications(_Request[Created], frozen=True):
    """Every item has an id, so that the request is idempotent."""

    items: tuple[NotificationItem, ...]


class SetReadMarks(_Request[MarkResult], frozen=True, tag="MarkNotifications"):
    """Marks notifications as read or unread."""

    which: Selection
    read: bool = True
    by: str | None = None


class DeleteNotifications(_Request[MarkResult], frozen=True):
    which: Selection
    audit: Audit = UNSET


class ForgetNotifications(_Request[int], frozen=True):
    """Deletes the whole channel; later notifications have a new epoch."""


class PageNotifications(_Request[StoredNotifications], frozen=True):
    """At most one bound is given; without a bound, the newest notifications are returned."""

    limit: int
    unread: bool = False
    after: int | None = None
    before: int | None = None


class DescribeNotifications(_Request[NotificationState], frozen=True):
    """Returns how many notifications there are, and how many of them are unread."""


NotificationOwnerRequest = (
    CreateNotifications
    | SetReadMarks
    | DeleteNotifications
    | ForgetNotifications
    | PageNotifications
    | DescribeNotifications
)
NotificationAnswer = Created | MarkResult | StoredNotifications | NotificationState | int


class ReadMark(msgspec.Struct, frozen=True):
    """The notifications that were marked as read: by ids, or all up to a timestamp."""

    read_at: int
    ids: tuple[str, ...] = ()
    up_to: int | None = None
    read_by: str | None = None


class NotificationsChanged(FeedEvent, frozen=True, tag="notifications"):
    """Notifications were created or read, or (neither field set) deleted or marked as unread.
    `state` is the state afterwards. Events are in the order of revisions."""

    state: NotificationState
    created: tuple[Notification, ...] = ()
    read: ReadMark | None = None


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
    """The items in order, grouped into at most `MAX_REQUEST_BYTES` each."""
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
