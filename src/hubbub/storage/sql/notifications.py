"""SQL for notifications. Each write locks the row of the channel, which holds its counters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from hubbub.domain.notifications import (
    Notification,
    NotificationItem,
    NotificationState,
    PageNotifications,
    Selection,
    StoredNotifications,
)
from hubbub.ports.storage.notifications import (
    ChangedNotifications,
    ChannelKey,
    CreatedNotifications,
    LoadedNotifications,
    NotificationBounds,
    StoredCreation,
)
from hubbub.storage.sql.connection import Row, Sql, insert, single_statement
from hubbub.storage.sql.pages import Pages
from hubbub.storage.sql.restoring import LIVE
from hubbub.storage.sql.usage import check_term, count_bytes

NEVER = 2**62
"""A time that is never reached."""
_STATE = "epoch, revision, unread, total, newest"
_INSERT = insert(
    "notifications",
    {
        "channel_id": "bigint",
        "at": "bigint",
        "id": "text",
        "event": "text",
        "payload": "bytea",
        "content_type": "text",
        "author": "text",
        "expires_at": "bigint",
        "due_at": "bigint",
    },
)
_CONTENT = "event, payload, content_type, author, expires_at"
_COLUMNS = f"at, id, {_CONTENT}, read_at, read_by, length(payload) AS size"
# Column and table names only; every value is a parameter.
_SAVE = (
    "UPDATE notification_channels"
    " SET revision = $2, unread = $3, total = $4, newest = $5, due_at = $6 WHERE id = $1"
)
_DELETE = "DELETE FROM notifications WHERE channel_id = $1 AND"
_DELETED = "RETURNING id, at, length(payload), read_at"


class _NotificationsRow:
    """A channel's row as the transaction leaves it."""

    def __init__(self, identifier: int, state: NotificationState, due_at: int) -> None:
        self.id = identifier
        self.state = state
        self.due_at = due_at

    def change(self, revisions: int, unread: int, total: int, newest: int = 0) -> None:
        """The arguments are differences, except `newest`, the timestamp of the newest
        notification."""
        state = self.state
        self.state = NotificationState(
            state.epoch,
            state.revision + revisions,
            state.unread + unread,
            state.total + total,
            max(state.newest, newest),
        )

    def removed(self, rows: Iterable[Row]) -> int:
        """Counts removed notifications. Returns their bytes."""
        gone = list(rows)
        self.change(0, -sum(row[3] is None for row in gone), -len(gone))
        return sum(row[2] for row in gone)


class NotificationWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

    async def create_notifications(
        self,
        key: ChannelKey,
        epoch: str,
        items: Sequence[NotificationItem],
        now: int,
        bounds: NotificationBounds,
    ) -> CreatedNotifications:
        channel = await self._own(key) or await self._make(key, epoch)
        known = await self._known(channel, [item.id or "" for item in items])
        rows: list[Row] = []
        creations: list[StoredCreation] = []
        timestamp = max(now - 1, channel.state.newest)
        for item in items:
            content = (item.event, item.payload, item.content_type, item.author, item.expires_at)
            identifier = item.id or ""
            if identifier in known:
                at, *found = known[identifier]
                same = tuple(found) == content
                creations.append(StoredCreation("duplicate", at) if same else _CONFLICT)
                continue
            timestamp += 1
            known[identifier] = (timestamp, *content)
            due_at = min(timestamp + bounds.age_ms, item.expires_at or NEVER)
            rows.append((channel.id, timestamp, identifier, *content, due_at))
            creations.append(StoredCreation("created", timestamp))
        if not rows:
            return CreatedNotifications(tuple(creations), channel.state, 0, channel.due_at)
        await self._sql.execute_many(_INSERT, rows)
        channel.change(len(rows), len(rows), len(rows), timestamp)
        channel.due_at = min(channel.due_at, *(row[-1] for row in rows))
        freed = await self._make_room(channel, bounds.most)
        await self._save(channel)
        await count_bytes(self._sql, {key.hub: sum(len(row[4]) for row in rows) - freed})
        return CreatedNotifications(tuple(creations), channel.state, freed, channel.due_at)

    async def _known(self, channel: _NotificationsRow, ids: Sequence[str]) -> dict[str, Row]:
        rows = await self._sql.fetch(
            f"SELECT id, at, {_CONTENT} FROM notifications"  # noqa: S608
            " WHERE channel_id = $1 AND id = ANY($2)",
            channel.id,
            list(ids),
        )
        return {row[0]: tuple(row[1:]) for row in rows}

    async def _make_room(self, channel: _NotificationsRow, most: int) -> int:
        """Deletes the oldest notifications beyond `most`. Returns their bytes."""
        over = channel.state.total - most
        if over <= 0:
            return 0
        return channel.removed(
            await self._sql.fetch(
                f"{_DELETE} at IN (SELECT at FROM notifications WHERE channel_id = $1"  # noqa: S608
                f" ORDER BY at LIMIT $2) {_DELETED}",
                channel.id,
                over,
            )
        )

    async def mark_notifications(
        self, key: ChannelKey, epoch: str, which: Selection, read_at: int | None, by: str | None
    ) -> ChangedNotifications:
        channel = await self._own(key)
        if channel is None:
            return _nothing(epoch, which)
        selected, value = _selected(which, channel, place=4)
        state = "IS NULL" if read_at is not None else "IS NOT NULL"
        rows = await self._sql.fetch(
            "UPDATE notifications SET read_at = $2, read_by = $3"  # noqa: S608
            f" WHERE channel_id = $1 AND {selected} AND read_at {state} RETURNING id, at",
            channel.id,
            read_at,
            by if read_at is not None else None,
            value,
        )
        if rows:
            channel.change(1, -len(rows) if read_at is not None else len(rows), 0)
            await self._save(channel)
        return await self._changed(channel, which, rows)

    async def delete_notifications(
        self, key: ChannelKey, epoch: str, which: Selection
    ) -> ChangedNotifications:
        channel = await self._own(key)
        if channel is None:
            return _nothing(epoch, which)
        selected, value = _selected(which, channel, place=2)
        # Before they go: which are not there?
        before = await self._changed(channel, which, ())
        rows = await self._sql.fetch(f"{_DELETE} {selected} {_DELETED}", channel.id, value)
        return await self._deleted(key, channel, rows, before.unknown)

    async def expire_notifications(
        self, key: ChannelKey, epoch: str, now: int
    ) -> ChangedNotifications:
        channel = await self._own(key)
        if channel is None:
            return _nothing(epoch, Selection())
        rows = await self._sql.fetch(f"{_DELETE} due_at <= $2 {_DELETED}", channel.id, now)
        ((due_at,),) = await self._sql.fetch(
            "SELECT min(due_at) FROM notifications WHERE channel_id = $1", channel.id
        )
        channel.due_at = NEVER if due_at is None else due_at
        return await self._deleted(key, channel, rows, ())

    async def _deleted(
        self,
        key: ChannelKey,
        channel: _NotificationsRow,
        rows: Sequence[Row],
        unknown: tuple[str, ...],
    ) -> ChangedNotifications:
        freed = channel.removed(rows)
        if rows:
            channel.change(1, 0, 0)
            await count_bytes(self._sql, {key.hub: -freed})
        await self._save(channel)
        changed = tuple((row[0], row[1]) for row in rows)
        return ChangedNotifications(changed, unknown, channel.state, freed, channel.due_at)

    async def forget_notifications(self, key: ChannelKey) -> int:
        found = await self._own(key)
        if found is None:
            return 0
        freed = found.removed(await self._sql.fetch(f"{_DELETE} true {_DELETED}", found.id))
        await self._sql.execute("DELETE FROM notification_channels WHERE id = $1", found.id)
        await count_bytes(self._sql, {key.hub: -freed})
        return freed

    async def anonymise_notifications(self, hub: str, user_id: str) -> int:
        return sum(
            [
                await self._sql.execute(
                    f"UPDATE notifications SET {column} = NULL WHERE {column} = $2"  # noqa: S608
                    " AND channel_id IN (SELECT id FROM notification_channels WHERE hub = $1)",
                    hub,
                    user_id,
                )
                for column in ("author", "read_by")
            ]
        )

    async def _own(self, key: ChannelKey) -> _NotificationsRow | None:
        """The channel's row, locked; None if there is none. Raises `StaleOwner`."""
        await check_term(self._sql, key.partition, key.term)
        rows = await self._sql.fetch(
            f"SELECT id, {_STATE}, due_at FROM notification_channels"  # noqa: S608
            " WHERE hub = $1 AND name = $2 FOR UPDATE",
            key.hub,
            key.channel,
        )
        for identifier, *state, due_at in rows:
            return _NotificationsRow(identifier, NotificationState(*state), due_at)
        return None

    async def _make(self, key: ChannelKey, epoch: str) -> _NotificationsRow:
        ((identifier,),) = await self._sql.fetch(
            f"INSERT INTO notification_channels (hub, name, {_STATE}, due_at)"  # noqa: S608
            " VALUES ($1, $2, $3, 0, 0, 0, 0, $4) RETURNING id",
            key.hub,
            key.channel,
            epoch,
            NEVER,
        )
        return _NotificationsRow(identifier, NotificationState(epoch, 0, 0, 0, 0), NEVER)

    async def _save(self, channel: _NotificationsRow) -> None:
        state = msgspec.structs.astuple(channel.state)[1:]
        await self._sql.execute(_SAVE, channel.id, *state, channel.due_at)

    async def _changed(
        self, channel: _NotificationsRow, which: Selection, rows: Iterable[Row]
    ) -> ChangedNotifications:
        changed = tuple((identifier, at) for identifier, at in rows)
        unknown: tuple[str, ...] = ()
        if len(changed) < len(which.ids):
            known = await self._sql.fetch(
                "SELECT id FROM notifications WHERE channel_id = $1 AND id = ANY($2)",
                channel.id,
                list(which.ids),
            )
            there = {identifier for (identifier,) in known}
            unknown = tuple(each for each in dict.fromkeys(which.ids) if each not in there)
        return ChangedNotifications(changed, unknown, channel.state, 0, channel.due_at)


_CONFLICT = StoredCreation("conflict")


def _nothing(epoch: str, which: Selection) -> ChangedNotifications:
    """The result for a channel in which nothing was ever created."""
    state = NotificationState(epoch, 0, 0, 0, 0)
    return ChangedNotifications((), tuple(dict.fromkeys(which.ids)), state, 0, NEVER)


def _selected(which: Selection, channel: _NotificationsRow, place: int) -> tuple[str, object]:
    """An SQL condition and its parameter."""
    if which.ids:
        return f"id = ANY(${place})", list(which.ids)
    return f"at <= ${place}", channel.state.newest if which.up_to is None else which.up_to


class NotificationReads(Pages):
    """Part of `Reads`."""

    @single_statement
    async def read_notification_state(self, hub: str, channel: str) -> LoadedNotifications | None:
        found = await self._notification_channel(hub, channel)
        return found[1] if found is not None else None

    async def _notification_channel(
        self, hub: str, channel: str
    ) -> tuple[int, LoadedNotifications] | None:
        rows = await self._sql.fetch(
            f"SELECT id, {_STATE}, due_at FROM notification_channels"  # noqa: S608
            " WHERE hub = $1 AND name = $2",
            hub,
            channel,
        )
        for identifier, *state, due_at in rows:
            return identifier, LoadedNotifications(NotificationState(*state), due_at)
        return None

    async def read_notifications(self, query: PageNotifications) -> StoredNotifications | None:
        found = await self._notification_channel(query.hub, query.channel)
        if found is None:
            return None
        channel_id, loaded = found
        forwards = query.after is not None
        unread = " AND read_at IS NULL" if query.unread else ""
        statement = (
            f"SELECT {_COLUMNS} FROM notifications WHERE channel_id = $1{unread}"  # noqa: S608
            f" AND at {'>' if forwards else '<'} $2 ORDER BY at{'' if forwards else ' DESC'}"
            " LIMIT $3"
        )
        page = self._page(query.limit)
        start = query.after if query.after is not None else query.before
        await self._fill(page, statement, channel_id, start=NEVER if start is None else start)
        return StoredNotifications(tuple(map(_notification, page.rows)), page.more, loaded.state)

    @single_statement
    async def read_due_notifications(
        self, now: int, after: tuple[str, str], limit: int
    ) -> list[tuple[str, str]]:
        rows = await self._sql.fetch(
            "SELECT hub, name FROM notification_channels"  # noqa: S608
            f" WHERE due_at <= $1 AND (hub, name) > ($2, $3) AND {LIVE}"
            " ORDER BY hub, name LIMIT $4",
            now,
            *after,
            limit,
        )
        return [(hub, name) for hub, name in rows]


def _notification(row: Row) -> Notification:
    at, identifier, *others = row
    return Notification(identifier, at, *others)
