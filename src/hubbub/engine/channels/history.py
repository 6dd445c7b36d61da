"""Pages of a channel's history, from the store or from the messages in memory."""

from __future__ import annotations

from hubbub.domain.history import HistoryQuery, Slice
from hubbub.domain.notices import HistoryPage
from hubbub.ports.storage.messages import MessageHistory, StoredPage


async def page_from_store(store: MessageHistory, query: HistoryQuery, epoch: str) -> HistoryPage:
    """Answers a query from disk; `epoch` is the channel's epoch if nothing was stored yet."""
    return page_of_stored(query, epoch, await _read(store, query))


def page_of_stored(query: HistoryQuery, epoch: str, page: StoredPage) -> HistoryPage:
    """The response for a page of the store; `epoch` as above. The beginning of a channel that
    stores is the same in every epoch: a channel gets its epoch with its first message."""
    if page.head is not None:
        epoch = page.head.epoch
    head = page.head.head if page.head else 0
    first = page.head.first if page.head else 1
    found = Slice(page.messages, _complete(query, page, head, first), page.more)
    same_epoch = query.epoch in (None, epoch) or query.after == 0
    return _page(query, epoch, head, found, same_epoch)


def page_of(query: HistoryQuery, epoch: str, head: int, found: Slice) -> HistoryPage:
    """The response for a channel with this head and epoch; a query for another epoch gets no
    messages."""
    return _page(query, epoch, head, found, query.epoch in (None, epoch))


def _page(
    query: HistoryQuery, epoch: str, head: int, found: Slice, same_epoch: bool
) -> HistoryPage:
    return HistoryPage(
        channel=query.channel,
        messages=found.messages if same_epoch else (),
        epoch=epoch,
        head=head,
        recovered=same_epoch and found.complete,
        more=found.more and same_epoch,
    )


def _complete(query: HistoryQuery, page: StoredPage, head: int, first: int) -> bool:
    """Whether all requested messages still exist. `first` is the oldest one that does."""
    if query.after is not None:
        return first - 1 <= query.after <= head
    if first == 1:
        return True  # nothing is gone at all
    if query.after_time is not None:
        # What is gone was older than the first that is left: if that one is too old, all of it is.
        if page.messages:
            return page.messages[0].serial > first
        return first <= head
    return page.more or len(page.messages) >= query.limit


async def _read(store: MessageHistory, query: HistoryQuery) -> StoredPage:
    hub, channel, limit = query.hub, query.channel, query.limit
    if query.after is not None:
        return await store.read_after(hub, channel, query.after, limit)
    if query.after_time is not None:
        return await store.read_after_time(hub, channel, query.after_time, limit)
    if query.before_time is not None:
        return await store.read_before_time(hub, channel, query.before_time, limit)
    return await store.read_before(hub, channel, query.before, limit)
