"""Where webhooks stand when their driver starts: from the cursors on disk, without opening their
channels."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.domain.webhooks import WEBHOOK_OWNER
from hubbub.engine.topics.cursors import cursor_of
from hubbub.engine.webhooks.push import Push
from hubbub.ports.storage import Store
from hubbub.ports.storage.topics import SavedCursor
from hubbub.tasks import gather_some

_AT_ONCE = 16


async def load_places(store: Store, pushes: Sequence[Push]) -> None:
    """Set the position of each push from its cursor; pushes that lag are `behind` then. The row of
    an active webhook without a cursor is deleted: subscribing, or unsubscribing, was
    interrupted."""
    channels: dict[tuple[str, str], list[Push]] = {}
    for push in pushes:
        channels.setdefault((push.key.hub, push.key.channel), []).append(push)

    async def load(hub: str, channel: str, of_channel: list[Push]) -> None:
        cursors = await store.read_cursors(hub, channel, WEBHOOK_OWNER)
        head = await store.read_head(hub, channel)
        places = {cursor.name: cursor for cursor in cursors}
        for push in of_channel:
            saved = places.get(push.key.name)
            if saved is not None:
                newest = head.head if head is not None else 0
                _stand(push, saved, head.epoch if head is not None else "", newest)
            elif push.active:
                push.gone = True
                await store.delete_webhook(hub, push.key.name)
            else:
                push.behind = True  # its place is made when it is confirmed

    await gather_some(_AT_ONCE, (load(*key, each) for key, each in channels.items()))


def _stand(push: Push, saved: SavedCursor, epoch: str, newest: int) -> None:
    cursor = cursor_of(saved, epoch)
    if cursor.lag(newest):
        push.begin_at(cursor.floor)
        push.behind = True
    elif not push.behind:
        push.begin_at(newest)
