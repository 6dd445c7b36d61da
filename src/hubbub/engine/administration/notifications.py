"""Administration of notifications."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import NotificationPage
from hubbub.domain.notifications import MarkResult, NotificationItem, NotificationResult, Selection
from hubbub.domain.requests import NotificationQuery
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.node import Node
from hubbub.engine.notifications.service import NotificationService


class NotificationAdministration:
    """Raises the errors of `engine.notifications.service`, and `HubNotFound`."""

    def __init__(self, node: Node, audit: AuditLog) -> None:
        self._node = node
        self._notifications = node.feature(NotificationService)
        self._audit = audit

    async def create(
        self,
        actor: Actor,
        hub: str,
        channel: str,
        items: Sequence[NotificationItem | HubbubError],
    ) -> list[NotificationResult]:
        known = self._node.hub(hub)
        return await self._notifications.create(known, actor.identity, channel, items)

    async def page(self, actor: Actor, hub: str, query: NotificationQuery) -> NotificationPage:
        return await self._notifications.page(self._node.hub(hub), actor.identity, query)

    async def mark(
        self, actor: Actor, hub: str, channel: str, which: Selection, read: bool
    ) -> MarkResult:
        service, known = self._notifications, self._node.hub(hub)
        mark = service.mark if read else service.mark_unread
        return await mark(known, actor.identity, channel, which)

    async def delete(self, actor: Actor, hub: str, channel: str, which: Selection) -> MarkResult:
        known = self._node.hub(hub)
        audit = self._audit.entry(actor, "notifications.delete", hub, channel, before=_noted(which))
        gone = await self._notifications.delete(known, actor.identity, channel, which, audit)
        if gone.marked:
            await self._audit.ensure(audit)
        return gone


def _noted(which: Selection) -> dict[str, object]:
    """The value for the audit log. A list of ids, which may be long, becomes its length."""
    if which.ids:
        return {"ids": len(which.ids)}
    return {"all": True} if which.all else {"upTo": which.up_to}
