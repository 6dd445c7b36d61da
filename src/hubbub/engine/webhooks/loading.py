"""Loads the positions of webhooks when their driver starts, from the cursors on disk, without
opening their channels."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.domain.webhooks import WEBHOOK_OWNER
from hubbub.engine.topics.cursors import cursor_of
from hubbub.engine.webhooks.driven import DrivenWebhook
from hubbub.ports.storage import Store
from hubbub.ports.storage.topics import SavedCursor
from hubbub.tasks import gather_some

_AT_ONCE = 16


async def load_places(store: Store, driven_webhooks: Sequence[DrivenWebhook]) -> None:
    """Sets the position of each webhook from its cursor; those that lag become `behind`. The row of
    an active webhook without a cursor is deleted: subscribing, or unsubscribing, was
    interrupted."""
    channels: dict[tuple[str, str], list[DrivenWebhook]] = {}
    for driven in driven_webhooks:
        channels.setdefault((driven.key.hub, driven.key.channel), []).append(driven)

    async def load(hub: str, channel: str, of_channel: list[DrivenWebhook]) -> None:
        cursors = await store.read_cursors(hub, channel, WEBHOOK_OWNER)
        head = await store.read_head(hub, channel)
        places = {cursor.name: cursor for cursor in cursors}
        for driven in of_channel:
            saved = places.get(driven.key.name)
            if saved is not None:
                newest = head.head if head is not None else 0
                _stand(driven, saved, head.epoch if head is not None else "", newest)
            elif driven.active:
                driven.gone = True
                await store.delete_webhook(hub, driven.key.name)
            else:
                driven.behind = True  # its place is made when it is confirmed

    await gather_some(_AT_ONCE, (load(*key, each) for key, each in channels.items()))


def _stand(driven: DrivenWebhook, saved: SavedCursor, epoch: str, newest: int) -> None:
    cursor = cursor_of(saved, epoch)
    if cursor.lag(newest):
        driven.begin_at(cursor.floor)
        driven.behind = True
    elif not driven.behind:
        driven.begin_at(newest)
