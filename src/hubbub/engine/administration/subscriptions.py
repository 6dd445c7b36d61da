"""Durable subscriptions of anybody, as services and administrators see them."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.domain.errors import NotFound, NotSubscribed, TopicNotFound
from hubbub.domain.names import check_name
from hubbub.domain.topics import Lag, SubscriptionInfo, SubscriptionKey
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.administration.lists import Ranked, cut, ranked
from hubbub.engine.administration.survey import FindLags, Survey
from hubbub.engine.node import Node

Position = tuple[str, str, str]
"""Channel, owner and name, by which they are ordered."""


class SubscriptionAdministration:
    def __init__(self, node: Node, audit: AuditLog, survey: Survey) -> None:
        self._survey = survey
        self._node = node
        self._audit = audit

    async def page(
        self,
        hub: str,
        limit: int,
        after: Position | None = None,
        channel: str | None = None,
        owner: str | None = None,
        q: str = "",
    ) -> tuple[list[SubscriptionInfo], Position | None, int]:
        """In order, those behind `after`; where the next page begins, if there is one; and how
        many there are in all."""
        self._node.directory.get(hub)
        topics = self._node.topics
        found, following = await topics.list_all(hub, limit, channel, owner, after, q)
        return found, following, await topics.count_all(hub, channel, owner, q)

    async def farthest(
        self,
        hub: str,
        limit: int,
        after: str = "",
        channel: str | None = None,
        owner: str | None = None,
        q: str = "",
        webhooks: bool = False,
    ) -> tuple[list[SubscriptionKey], str | None, int]:
        """Durable subscriptions or webhooks that are behind, the farthest first, in the order that
        nodes last found; each node remembers the first 200 of a hub. Then as `page`."""
        self._node.directory.get(hub)
        answers, _ = await self._survey.ask(FindLags(hub, webhooks), list[Lag])
        order = ranked(after)
        lags = {
            _ranked(lag): lag.key
            for answer in answers
            for lag in answer
            if channel in (None, lag.key.channel)
            and owner in (None, lag.key.owner)
            and any(q in each for each in (lag.key.channel, lag.key.owner, lag.key.name))
        }
        behind = sorted((place for place in lags if place < order), reverse=True)
        page, following = cut(behind, limit, lambda place: place.cursor)
        return [lags[place] for place in page], following, len(lags)

    async def describe(self, keys: Sequence[SubscriptionKey]) -> list[SubscriptionInfo]:
        """Those of them that are still there, in the same order."""
        return await self._node.topics.describe_some(keys)

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


def _ranked(lag: Lag) -> Ranked:
    key = lag.key
    return Ranked(lag.messages, "\n".join((key.channel, key.owner, key.name)))


def _missing(key: SubscriptionKey) -> NotFound:
    return NotFound(
        f"hub {key.hub!r} has no durable subscription {key.name!r} of {key.owner!r} to "
        f"{key.channel!r}"
    )
