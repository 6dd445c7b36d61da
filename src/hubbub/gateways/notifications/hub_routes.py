"""Notifications over HTTP: pages of them, and marks."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import (
    NotFound,
    NotPermitted,
    TooLarge,
    Unavailable,
    WrongChannelKind,
)
from hubbub.domain.notifications import MAX_PAGE
from hubbub.domain.requests import NotificationQuery
from hubbub.engine.node import Node
from hubbub.engine.notifications.service import NotificationService
from hubbub.gateways.calls import HubRequest, NoQuery, given
from hubbub.gateways.public_shapes import NotificationPage
from hubbub.gateways.routes import Access, Routes
from hubbub.protocols.json.notifications_http import (
    Marked,
    NotificationSelection,
    Time,
    marked_json,
    notification_page_json,
    read_selection,
)

PATH = "/channels/{channel}/notifications"
READING = (NotFound, NotPermitted, WrongChannelKind, Unavailable)
CHANGING = (*READING, TooLarge)


class NotificationParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    unread: Annotated[bool, Meta(description="Only those.")] = False
    after: Annotated[Time, Meta(description="Later ones, in rising order.")] | UnsetType = UNSET
    before: Annotated[Time, Meta(description="Earlier ones, newest first.")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE, description="At most.")] = 100

    def of(self, channel: str) -> NotificationQuery:
        after, before = given(self.after), given(self.before)
        return NotificationQuery(channel, self.unread, after, before, self.limit)


ROUTES = Routes("/v1/hubs/{hub}", "Notifications", Access.HUB, READING)


@ROUTES.serve("GET", PATH, answers={200: NotificationPage})
async def read_notifications(node: Node, request: HubRequest[NotificationParameters]) -> bytes:
    """Read a page of notifications, newest first; behind `after` in rising order."""
    query = request.query.of(request.path["channel"])
    return notification_page_json(
        await node.feature(NotificationService).page(request.hub, request.identity, query)
    )


@ROUTES.serve(
    "POST", f"{PATH}/read", body=NotificationSelection, answers={200: Marked}, errors=CHANGING
)
async def mark_notifications(node: Node, request: HubRequest[NoQuery]) -> bytes:
    """Mark notifications as read, for all who share the channel."""
    which, channel = read_selection(request.request.body), request.path["channel"]
    return marked_json(
        await node.feature(NotificationService).mark(request.hub, request.identity, channel, which)
    )
