"""The lag of durable subscriptions, measured periodically for monitoring.

Subscriptions that were not used for a while are on disk only, and are the ones most likely to lag:
so all are read, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest

import msgspec

from hubbub.domain.cursors import Cursor
from hubbub.domain.names import partition_of
from hubbub.domain.topics import FindLags, Lag, SubscriptionKey
from hubbub.domain.webhooks import WEBHOOK_OWNER
from hubbub.engine.channels.terms import Terms
from hubbub.engine.rooms import Room
from hubbub.engine.topics.cursors import cursor_of
from hubbub.engine.topics.durable import DurableSubscriptions
from hubbub.ports.storage.messages import ChannelHead
from hubbub.ports.storage.topics import SavedCursor, TopicStore

_PAGE = 500
MOST_OF_HUB = 200


class HubLag(msgspec.Struct):
    """The number of durable subscriptions of one hub and of their pending messages."""

    subscriptions: int = 0
    total: int = 0
    largest: int = 0


class LagSurvey(Room):
    """Lags in the channels that this node owns, as of the last `run`."""

    def __init__(
        self, store: TopicStore, terms: Terms, subscriptions: DurableSubscriptions, series: int
    ) -> None:
        """`series`: how many subscriptions to report singly, those with the largest lag."""
        self._store = store
        self._terms = terms
        self._subscriptions = subscriptions
        self._series = series
        self.hubs: Mapping[str, HubLag] = {}
        self.farthest: list[Lag] = []
        self._of_hub: Mapping[tuple[str, bool], list[Lag]] = {}
        self.node_requests = {FindLags: self._of_one_hub}

    async def _of_one_hub(self, _: str, request: FindLags) -> list[Lag]:
        """The largest lags first, at most `MOST_OF_HUB`."""
        return self._of_hub.get((request.hub, request.webhooks), [])

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
        return partition_of(saved.hub, saved.channel) in self._terms

    def _lag(self, saved: SavedCursor, head: ChannelHead | None) -> Lag:
        key = SubscriptionKey(saved.hub, saved.channel, saved.owner, saved.name)
        known = self._subscriptions.cursor_in_memory(key)
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
