"""Notifications over HTTP: pages of them, and marks."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.notifications import MAX_PAGE
from hubbub.domain.requests import NotificationQuery
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.calls import HubRequest, NoQuery, given
from hubbub.gateways.credentials import require_identity
from hubbub.gateways.exchange import Exchange
from hubbub.gateways.http import Request, Target
from hubbub.protocols.json.notifications_http import (
    marked_json,
    notification_page_json,
    read_selection,
)

Time = Annotated[int, Meta(ge=0, le=10**17, description="Milliseconds since 1970.")]


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    unread: Annotated[bool, Meta(description="Only those.")] = False
    after: Annotated[Time, Meta(description="Later ones, in rising order.")] | UnsetType = UNSET
    before: Annotated[Time, Meta(description="Earlier ones, newest first.")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE, description="At most.")] = 100

    def of(self, channel: str) -> NotificationQuery:
        after, before = given(self.after), given(self.before)
        return NotificationQuery(channel, self.unread, after, before, self.limit)


class NotificationsApi:
    """Paths under /v1/hubs/{hub}/channels/{channel}/notifications."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def handle(self, request: Request, target: Target, exchange: Exchange, hub: Hub) -> None:
        identity = require_identity(request, target, hub, self._node)
        call = HubRequest(hub, identity, request, target)
        channel = target.segments[4]
        if target.segments[-1] == "read":
            call.expect(b"POST")
            exchange.complete(self._mark(call, exchange, channel))
        else:
            call.expect(b"GET", b"HEAD")
            exchange.run(self._page(call, exchange, channel))

    async def _page(self, call: HubRequest, exchange: Exchange, channel: str) -> None:
        query = call.query(PageQuery).of(channel)
        page = await self._node.notifications.page(call.hub, call.identity, query)
        exchange.answer_json(notification_page_json(page))

    async def _mark(self, call: HubRequest, exchange: Exchange, channel: str) -> None:
        call.query(NoQuery)
        which = read_selection(call.request.body)
        marked = await self._node.notifications.mark(call.hub, call.identity, channel, which)
        exchange.answer_json(marked_json(marked))
