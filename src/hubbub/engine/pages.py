"""Pages of stored history."""

from __future__ import annotations

from hubbub.domain.history import HistoryQuery
from hubbub.domain.notices import HistoryPage
from hubbub.ports.store import Store, StoredPage


async def page_from_store(store: Store, query: HistoryQuery, epoch: str) -> HistoryPage:
    """Answer a query from disk; `epoch` is the channel's where nothing was stored yet."""
    page = await _read(store, query)
    if page.head is not None:
        epoch = page.head.epoch
    head = page.head.head if page.head else 0
    first = page.head.first if page.head else 1
    same_epoch = query.epoch is None or query.epoch == epoch
    if query.after is not None:
        complete = first - 1 <= query.after <= head
    else:
        complete = page.more or first == 1  # what lay before the first one was there once
    return HistoryPage(
        channel=query.channel,
        messages=page.messages if same_epoch else (),
        epoch=epoch,
        head=head,
        recovered=same_epoch and complete,
        more=page.more,
    )


async def _read(store: Store, query: HistoryQuery) -> StoredPage:
    hub, channel, limit = query.hub, query.channel, query.limit
    if query.after is not None:
        return await store.read_after(hub, channel, query.after, limit)
    if query.after_time is not None:
        return await store.read_after_time(hub, channel, query.after_time, limit)
    if query.before_time is not None:
        return await store.read_before_time(hub, channel, query.before_time, limit)
    return await store.read_before(hub, channel, query.before, limit)
