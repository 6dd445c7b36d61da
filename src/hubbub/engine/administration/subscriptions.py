"""Administration of all users' durable subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.domain.errors import NotFound, NotSubscribed, TopicNotFound
from hubbub.domain.names import check_name
from hubbub.domain.topics import FindLags, Lag, SubscriptionInfo, SubscriptionKey
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.administration.lists import Ranked, cut, ranked
from hubbub.engine.administration.survey import Survey
from hubbub.engine.node import Node
from hubbub.engine.topics.service import Topics

Position = tuple[str, str, str]
"""Channel, owner and name: the sort key."""


class SubscriptionAdministration:
    def __init__(self, node: Node, audit: AuditLog, survey: Survey) -> None:
        self._survey = survey
        self._node = node
        self._topics = node.feature(Topics)
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
        """A page after `after`, the start of the next page if there is one, and the number of
        all."""
        self._node.directory.get(hub)
        topics = self._topics
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
        """Durable subscriptions or webhooks with a lag, the largest first, as of the nodes' last
        measurement; each node remembers the first 200 of a hub. The result is like that of
        `page`."""
        self._node.directory.get(hub)
        answers, _ = await self._survey.ask(FindLags(hub, webhooks))
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
        """The state of those subscriptions that still exist, in the given order."""
        return await self._topics.describe_some(keys)

    async def get(self, key: SubscriptionKey) -> SubscriptionInfo:
        """Raises `NotFound`."""
        self._check(key)
        try:
            return await self._topics.describe(key)
        except NotSubscribed:
            raise _missing(key) from None

    async def remove(self, actor: Actor, key: SubscriptionKey) -> None:
        """Deletes a durable subscription of any owner; messages are no longer kept for it. Raises
        `NotFound`."""
        self._check(key)
        try:
            before = await self._topics.describe(key)
            about = {"owner": key.owner, "name": key.name, "floor": before.floor, "lag": before.lag}
            audit = self._audit.entry(
                actor, "subscription.delete", key.hub, key.channel, before=about
            )
            await self._topics.remove(key, audit)
        except (NotSubscribed, TopicNotFound):
            raise _missing(key) from None
        await self._audit.ensure(audit)

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
