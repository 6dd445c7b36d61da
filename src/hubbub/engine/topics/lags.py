"""How far durable subscriptions are behind, counted from time to time for those who watch.

Subscriptions that nobody has asked for in a while are on disk only, and they are the ones that fall
behind: so all are looked at, page by page.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest

import msgspec

from hubbub.domain.cursors import Cursor
from hubbub.domain.names import partition_of
from hubbub.domain.topics import Lag, SubscriptionKey
from hubbub.domain.webhooks import WEBHOOK_OWNER
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.topics.cursors import cursor_of
from hubbub.ports.storage.messages import ChannelHead
from hubbub.ports.storage.topics import SavedCursor, TopicStore

_PAGE = 500
MOST_OF_HUB = 200


class HubLag(msgspec.Struct):
    """Of one hub: its durable subscriptions, and what they still have to get."""

    subscriptions: int = 0
    total: int = 0
    largest: int = 0


class LagSurvey:
    """Of the channels that this node owns, as the last `run` found them."""

    def __init__(self, store: TopicStore, owner: ChannelOwner, series: int) -> None:
        """`series`: how many single subscriptions to remember, those farthest behind."""
        self._store = store
        self._owner = owner
        self._series = series
        self.hubs: Mapping[str, HubLag] = {}
        self.farthest: list[Lag] = []
        self._of_hub: Mapping[tuple[str, bool], list[Lag]] = {}

    def of_hub(self, hub: str, webhooks: bool) -> list[Lag]:
        """The durable subscriptions of a hub, or its webhooks, that are farthest behind, the
        farthest first; at most `MOST_OF_HUB`."""
        return self._of_hub.get((hub, webhooks), [])

    async def run(self) -> None:
        """Raises `StoreUnavailable`."""
        hubs: dict[str, HubLag] = {}
        farthest: list[Lag] = []
        each_hub: dict[tuple[str, bool], list[Lag]] = {}
        after = None
        while True:
            page = await self._store.read_cursor_page(after, _PAGE)
            found = [
                self._lag(*subscription) for subscription in page if self._owned(subscription[0])
            ]
            for lag in found:
                of_hub = hubs.setdefault(lag.key.hub, HubLag())
                of_hub.subscriptions += 1
                of_hub.total += lag.messages
                of_hub.largest = max(of_hub.largest, lag.messages)
                if lag.messages:
                    kind = (lag.key.hub, lag.key.owner == WEBHOOK_OWNER)
                    each_hub.setdefault(kind, []).append(lag)
            for kind in {(lag.key.hub, lag.key.owner == WEBHOOK_OWNER) for lag in found}:
                if len(each_hub.get(kind, ())) > MOST_OF_HUB:
                    each_hub[kind] = nlargest(MOST_OF_HUB, each_hub[kind], key=_order)
            if self._series:
                farthest = nlargest(self._series, farthest + found, key=lambda lag: lag.messages)
            if len(page) < _PAGE:
                break
            last = page[-1][0]
            after = (last.hub, last.channel, last.owner, last.name)
        for lags in each_hub.values():
            lags.sort(key=_order, reverse=True)
        self.hubs, self.farthest, self._of_hub = hubs, farthest, each_hub

    def _owned(self, saved: SavedCursor) -> bool:
        return partition_of(saved.hub, saved.channel) in self._owner.terms

    def _lag(self, saved: SavedCursor, head: ChannelHead | None) -> Lag:
        key = SubscriptionKey(saved.hub, saved.channel, saved.owner, saved.name)
        known = self._owner.cursor_in_memory(key)
        if known is not None:
            return _lag_of(key, *known)
        if head is None:
            return Lag(key, 0)
        cursor = cursor_of(saved, head.epoch)
        cursor.lose_before(head.first)  # what is gone is not waited for
        return _lag_of(key, cursor, head.head)


def _lag_of(key: SubscriptionKey, cursor: Cursor, head: int) -> Lag:
    return Lag(
        key,
        cursor.lag(head),
        handed_out=cursor.handed_out,
        redeliveries=cursor.redeliveries,
        dead_letters=max(0, cursor.dead_letters - cursor.replayed),
    )


def _order(lag: Lag) -> tuple[int, str, str, str]:
    key = lag.key
    return lag.messages, key.channel, key.owner, key.name
