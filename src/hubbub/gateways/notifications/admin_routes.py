"""Routes of notifications that services and administrators use."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import (
    QuotaExceeded,
)
from hubbub.domain.notifications import MAX_BATCH, NotificationResult
from hubbub.engine.administration import Administration
from hubbub.gateways.admin.shapes import ErrorInfo, Shape
from hubbub.gateways.calls import NoQuery
from hubbub.gateways.http import error_shape
from hubbub.gateways.notifications.hub_routes import (
    CHANGING,
    PATH,
    READING,
    NotificationParameters,
)
from hubbub.gateways.public_shapes import NewNotification, NotificationPage, Open
from hubbub.gateways.routes import Access, AdminRequest, Routes
from hubbub.protocols.json.notifications_http import (
    Marked,
    NotificationSelection,
    marked_json,
    notification_items,
    notification_page_json,
    read_selection,
)


class NewNotifications(Shape, frozen=True):
    """Notifications to create in one channel."""

    notifications: Annotated[
        list[NewNotification],
        Meta(min_length=1, max_length=MAX_BATCH),
    ]


class CreationResult(Open, frozen=True):
    """The result for one notification of the request."""

    success: bool
    id: str | UnsetType = UNSET
    timestamp: int | UnsetType = msgspec.field(default=UNSET, name="ts")
    duplicate: bool | UnsetType = UNSET
    error: ErrorInfo | UnsetType = UNSET


class CreationResults(Open, frozen=True):
    """A result for each notification, in their order."""

    created: list[CreationResult]


ROUTES = Routes(
    "/v1/admin/hubs/{hub}", "Notifications", Access.SERVICE, CHANGING
)  # fmt: skip


@ROUTES.serve(
    "POST", PATH, body=NewNotifications, answers={200: CreationResults},
    max_body_bytes=64 * 1024 * 1024, reads_itself=True, errors=(*CHANGING, QuotaExceeded),
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


@ROUTES.serve("GET", PATH, answers={200: NotificationPage}, errors=READING, payloads=True)
async def list_notifications(
    admin: Administration, request: AdminRequest[NotificationParameters, None]
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


@ROUTES.serve(
    "POST", f"{PATH}/read", body=NotificationSelection, answers={200: Marked}, reads_itself=True
)
async def mark_notifications_read(
    admin: Administration, request: AdminRequest[NoQuery, bytes]
) -> bytes:
    """Mark notifications as read."""
    return await _marked(admin, request, read=True)


@ROUTES.serve(
    "POST", f"{PATH}/unread", body=NotificationSelection, answers={200: Marked}, reads_itself=True
)
async def mark_notifications_unread(
    admin: Administration, request: AdminRequest[NoQuery, bytes]
) -> bytes:
    """Mark notifications as unread."""
    return await _marked(admin, request, read=False)


@ROUTES.serve(
    "POST", f"{PATH}/delete", body=NotificationSelection, answers={200: Marked}, reads_itself=True
)
async def delete_notifications(
    admin: Administration, request: AdminRequest[NoQuery, bytes]
) -> bytes:
    """Delete notifications; `marked` says how many."""
    which = read_selection(request.raw)
    channel = request.path["channel"]
    return marked_json(await admin.notifications.delete(request.actor, request.hub, channel, which))
