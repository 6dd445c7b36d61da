"""Durable subscriptions of anybody, as services and administrators see them."""

from __future__ import annotations

from hubbub.domain.errors import NotFound, NotSubscribed, TopicNotFound
from hubbub.domain.names import check_name
from hubbub.domain.topics import SubscriptionInfo, SubscriptionKey
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.node import Node

Position = tuple[str, str, str]
"""Channel, owner and name, by which they are ordered."""


class SubscriptionAdministration:
    def __init__(self, node: Node, audit: AuditLog) -> None:
        self._node = node
        self._audit = audit

    async def page(
        self,
        hub: str,
        limit: int,
        after: Position | None = None,
        channel: str | None = None,
        owner: str | None = None,
    ) -> tuple[list[SubscriptionInfo], Position | None]:
        """In order, those behind `after`; and where the next page begins, if there is one."""
        self._node.directory.get(hub)
        return await self._node.topics.list_all(hub, limit, channel, owner, after)

    async def get(self, key: SubscriptionKey) -> SubscriptionInfo:
        """Raises `NotFound`."""
        self._check(key)
        try:
            return await self._node.topics.describe(key)
        except NotSubscribed:
            raise _missing(key) from None

    async def remove(self, actor: Actor, key: SubscriptionKey) -> None:
        """Remove a durable subscription of any owner; no messages are kept for it any more. Raises
        `NotFound`."""
        self._check(key)
        try:
            before = await self._node.topics.describe(key)
            await self._node.topics.remove(key)
        except (NotSubscribed, TopicNotFound):
            raise _missing(key) from None
        about = {"owner": key.owner, "name": key.name, "floor": before.floor, "lag": before.lag}
        await self._audit.note(actor, "subscription.delete", key.hub, key.channel, before=about)

    def _check(self, key: SubscriptionKey) -> None:
        self._node.directory.get(key.hub)
        check_name(key.channel, "channel")
        check_name(key.name, "subscription")


def _missing(key: SubscriptionKey) -> NotFound:
    return NotFound(
        f"hub {key.hub!r} has no durable subscription {key.name!r} of {key.owner!r} to "
        f"{key.channel!r}"
    )
