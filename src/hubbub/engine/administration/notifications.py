"""Notifications, as services and administrators handle them."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import NotificationPage
from hubbub.domain.notifications import Marked, NotificationItem, NotificationResult, Selection
from hubbub.domain.requests import NotificationQuery
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.node import Node


class NotificationAdministration:
    """Of one hub at a time. Raises what `engine.notifications.service` raises, and
    `HubNotFound`."""

    def __init__(self, node: Node, audit: AuditLog) -> None:
        self._node = node
        self._audit = audit

    async def create(
        self,
        actor: Actor,
        hub: str,
        channel: str,
        items: Sequence[NotificationItem | HubbubError],
    ) -> list[NotificationResult]:
        known = self._node.hub(hub)
        return await self._node.notifications.create(known, actor.identity, channel, items)

    async def page(self, actor: Actor, hub: str, query: NotificationQuery) -> NotificationPage:
        return await self._node.notifications.page(self._node.hub(hub), actor.identity, query)

    async def mark(
        self, actor: Actor, hub: str, channel: str, which: Selection, read: bool
    ) -> Marked:
        service, known = self._node.notifications, self._node.hub(hub)
        mark = service.mark if read else service.mark_unread
        return await mark(known, actor.identity, channel, which)

    async def delete(self, actor: Actor, hub: str, channel: str, which: Selection) -> Marked:
        known = self._node.hub(hub)
        gone = await self._node.notifications.delete(known, actor.identity, channel, which)
        if gone.marked:
            about = {"deleted": gone.marked}
            await self._audit.note(actor, "notifications.delete", hub, channel, before=about)
        return gone
