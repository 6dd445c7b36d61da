"""Routes of notifications: those that services and administrators use, and, for the description,
those that `gateways.notifications_api` serves."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import (
    NotFound,
    NotPermitted,
    QuotaExceeded,
    TooLarge,
    Unavailable,
    WrongChannelKind,
)
from hubbub.domain.fields import UserId
from hubbub.domain.notifications import MAX_BATCH, NotificationResult
from hubbub.engine.administration import Administration
from hubbub.gateways.admin.public_shapes import Open, Payload
from hubbub.gateways.admin.routes import Access, AdminRequest, Routes
from hubbub.gateways.admin.shapes import ErrorInfo, Shape
from hubbub.gateways.calls import EventName, NoQuery
from hubbub.gateways.http import error_shape
from hubbub.gateways.notifications_api import PageQuery, Time
from hubbub.protocols.json.notifications_http import (
    Identifier,
    marked_json,
    notification_items,
    notification_page_json,
    read_selection,
)

_PATH = "/channels/{channel}/notifications"
_READING = (NotFound, NotPermitted, WrongChannelKind, Unavailable)
_CHANGING = (*_READING, TooLarge)


class NewNotification(Open, frozen=True, kw_only=True):
    """An `id` makes it repeatable: the same content again is a duplicate."""

    payload: Payload
    id: Identifier | None = None
    event: EventName | None = None
    content_type: str | None = None
    author: UserId | None = None
    expires_at: Time | None = None


class NewNotifications(Shape, frozen=True):
    notifications: Annotated[list[NewNotification], Meta(min_length=1, max_length=MAX_BATCH)]


class CreationResult(Open, frozen=True):
    success: bool
    id: str | UnsetType = UNSET
    timestamp: int | UnsetType = msgspec.field(default=UNSET, name="ts")
    duplicate: bool | UnsetType = UNSET
    error: ErrorInfo | UnsetType = UNSET


class CreationResults(Open, frozen=True):
    """A result for each notification, in their order."""

    created: list[CreationResult]


class Notification(Open, frozen=True, kw_only=True):
    """`ts` is unique in the channel and rises; times are ms since 1970."""

    id: str
    timestamp: int = msgspec.field(name="ts")
    payload: Payload
    read: bool
    event: str | UnsetType = UNSET
    content_type: str | UnsetType = UNSET
    author: str | UnsetType = UNSET
    expires_at: int | UnsetType = UNSET
    read_at: int | UnsetType = UNSET
    read_by: str | UnsetType = UNSET


class NotificationPage(Open, frozen=True):
    """`revision` rises with each change, `newest` is the `ts` of the last one ever created."""

    channel: str
    notifications: list[Notification]
    more: bool
    epoch: str
    revision: int
    unread: int
    total: int
    newest: int


class NotificationSelection(Shape, frozen=True):
    """Exactly one of the three; `upTo` is a `ts`."""

    ids: Annotated[list[Identifier], Meta(max_length=MAX_BATCH)] | UnsetType = UNSET
    up_to: Time | UnsetType = UNSET
    all: bool | UnsetType = UNSET


class Marked(Open, frozen=True):
    """`unread` are left; `unknown` ids are not there."""

    marked: int
    unread: int
    unknown: list[str]


NOTIFICATION_ROUTES = Routes(
    "/v1/admin/hubs/{hub}", "Notifications", Access.SERVICE, _CHANGING
)  # fmt: skip


@NOTIFICATION_ROUTES.serve(
    "POST", _PATH, body=NewNotifications, answers={200: CreationResults},
    max_body_bytes=64 * 1024 * 1024, reads_itself=True, errors=(*_CHANGING, QuotaExceeded),
)  # fmt: skip
async def create_notifications(
    admin: Administration, request: AdminRequest[NoQuery, bytes]
) -> dict[str, Any]:
    """Create notifications in a channel, with a result for each."""
    items = notification_items(request.raw)
    results = await admin.notifications.create(
        request.actor, request.hub, request.path["channel"], items
    )
    return {"created": [_result(result) for result in results]}


def _result(result: NotificationResult) -> dict[str, Any]:
    shown: dict[str, Any] = {"success": result.error is None}
    if result.id is not None:
        shown["id"] = result.id
    if result.error is not None:
        return {**shown, "error": error_shape(result.error)}
    return {**shown, "ts": result.timestamp, "duplicate": result.duplicate}


@NOTIFICATION_ROUTES.serve(
    "GET", _PATH, answers={200: NotificationPage}, errors=_READING, payloads=True
)
async def list_notifications(
    admin: Administration, request: AdminRequest[PageQuery, None]
) -> bytes:
    """Read a page of the notifications of a channel, newest first."""
    asked = request.query.of(request.path["channel"])
    return notification_page_json(await admin.notifications.page(request.actor, request.hub, asked))


async def _marked(
    admin: Administration, request: AdminRequest[NoQuery, bytes], read: bool
) -> bytes:
    which = read_selection(request.raw)
    channel = request.path["channel"]
    return marked_json(
        await admin.notifications.mark(request.actor, request.hub, channel, which, read)
    )


@NOTIFICATION_ROUTES.serve(
    "POST", f"{_PATH}/read", body=NotificationSelection, answers={200: Marked}, reads_itself=True
)
async def mark_notifications_read(
    admin: Administration, request: AdminRequest[NoQuery, bytes]
) -> bytes:
    """Mark notifications as read."""
    return await _marked(admin, request, read=True)


@NOTIFICATION_ROUTES.serve(
    "POST", f"{_PATH}/unread", body=NotificationSelection, answers={200: Marked}, reads_itself=True
)
async def mark_notifications_unread(
    admin: Administration, request: AdminRequest[NoQuery, bytes]
) -> bytes:
    """Mark notifications as unread."""
    return await _marked(admin, request, read=False)


@NOTIFICATION_ROUTES.serve(
    "POST", f"{_PATH}/delete", body=NotificationSelection, answers={200: Marked}, reads_itself=True
)
async def delete_notifications(
    admin: Administration, request: AdminRequest[NoQuery, bytes]
) -> bytes:
    """Delete notifications; `marked` says how many."""
    which = read_selection(request.raw)
    channel = request.path["channel"]
    return marked_json(await admin.notifications.delete(request.actor, request.hub, channel, which))


PUBLIC_NOTIFICATION_ROUTES = Routes("/v1/hubs/{hub}", "Notifications", Access.HUB, _READING)
PUBLIC_NOTIFICATION_ROUTES.describe(
    "GET", _PATH, "readNotifications",
    "Read a page of notifications, newest first; behind `after` in rising order",
    query=PageQuery, answers={200: NotificationPage},
)  # fmt: skip
PUBLIC_NOTIFICATION_ROUTES.describe(
    "POST", f"{_PATH}/read", "markNotifications", "Mark notifications as read, for all who share "
    "the channel", body=NotificationSelection, answers={200: Marked}, errors=_CHANGING,
)  # fmt: skip
