"""SQL for owned channels and users' subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hubbub.domain.commands.jids import HUB_USER, Jid
from hubbub.domain.commands.objects import HChannel
from hubbub.domain.commands.records import binding_of, user_of
from hubbub.ports.storage.commands import RecordSaved, UserInRecord
from hubbub.storage.sql.connection import Sql, put, single_statement
from hubbub.storage.sql.restoring import LIVE

_PUT = put("channel_records", ("hub", "channel", "owner", "record"), "hub", "channel")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(HChannel).decode


class CommandWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

    async def save_channel_record(
        self, hub: str, record: HChannel, most: int, share: int
    ) -> RecordSaved:
        await self._sql.lock("channel_records")
        which = "SELECT owner FROM channel_records WHERE hub = $1 AND channel = $2"
        known = await self._sql.fetch(which, hub, record.channel)
        if known and known[0][0] not in (record.owner, _hub_itself(hub)):
            return "owned"
        if not known and await self._count("hub = $1", hub) >= most:
            return "full"
        is_new = not known or known[0][0] != record.owner
        if is_new and await self._count("hub = $1 AND owner = $2", hub, record.owner) >= share:
            return "share"
        await self._put_record(hub, record)
        return "replaced" if known else "created"

    async def take_user_off_record(
        self, hub: str, channel: str, user_id: str
    ) -> frozenset[UserInRecord]:
        await self._sql.lock("channel_records")
        which = "SELECT record FROM channel_records WHERE hub = $1 AND channel = $2"
        was: set[UserInRecord] = set()
        for (encoded,) in await self._sql.fetch(which, hub, channel):
            record = _decode(encoded)
            if user_of(record.owner, hub) == user_id:
                was.add("owner")
                record = msgspec.structs.replace(record, owner=_hub_itself(hub))
            left = tuple(each for each in record.participants if user_of(each, hub) != user_id)
            if left != record.participants:
                was.add("participant")
                record = msgspec.structs.replace(record, participants=left)
            if was:
                await self._put_record(hub, record)
        return frozenset(was)

    async def _put_record(self, hub: str, record: HChannel) -> None:
        await self._sql.execute(_PUT, hub, record.channel, record.owner, _encode(record))
        await self._keep_subscriptions(hub, record)

    async def _count(self, which: str, *values: str) -> int:
        counted = f"SELECT count(*) FROM channel_records WHERE {which}"  # noqa: S608
        (row,) = await self._sql.fetch(counted, *values)
        return int(row[0])

    async def _keep_subscriptions(self, hub: str, record: HChannel) -> None:
        """Deletes the subscriptions of users who are not participants."""
        kept = binding_of(record, hub).participants
        which = "SELECT user_id FROM user_subscriptions WHERE hub = $1 AND channel = $2"
        for (user_id,) in await self._sql.fetch(which, hub, record.channel):
            if user_id not in kept:
                await self.delete_user_subscription(hub, record.channel, user_id)

    async def add_user_subscription(self, hub: str, channel: str, user_id: str) -> bool:
        statement = (
            "INSERT INTO user_subscriptions (hub, channel, user_id) VALUES ($1, $2, $3)"
            " ON CONFLICT (hub, channel, user_id) DO NOTHING"
        )
        return await self._sql.execute(statement, hub, channel, user_id) > 0

    async def delete_user_subscription(self, hub: str, channel: str, user_id: str) -> bool:
        statement = (
            "DELETE FROM user_subscriptions WHERE hub = $1 AND channel = $2 AND user_id = $3"
        )
        return await self._sql.execute(statement, hub, channel, user_id) > 0

    async def delete_user_subscriptions_of(self, hub: str, user_id: str) -> int:
        statement = "DELETE FROM user_subscriptions WHERE hub = $1 AND user_id = $2"
        return await self._sql.execute(statement, hub, user_id)


def _hub_itself(hub: str) -> str:
    return str(Jid(HUB_USER, hub))


class CommandReads:
    """Part of `Reads`."""

    _sql: Sql

    @single_statement
    async def read_channel_record(self, hub: str, channel: str) -> HChannel | None:
        which = "SELECT record FROM channel_records WHERE hub = $1 AND channel = $2"
        rows = await self._sql.fetch(which, hub, channel)
        return _decode(rows[0][0]) if rows else None

    @single_statement
    async def read_channel_records(self, hub: str, channels: Sequence[str]) -> list[HChannel]:
        which = (
            "SELECT record FROM channel_records WHERE hub = $1 AND channel = ANY($2)"
            " ORDER BY channel"
        )
        rows = await self._sql.fetch(which, hub, list(channels))
        return [_decode(record) for (record,) in rows]

    @single_statement
    async def list_channel_records(
        self, after: tuple[str, str], limit: int
    ) -> list[tuple[str, HChannel]]:
        which = (
            f"SELECT hub, record FROM channel_records WHERE (hub, channel) > ($1, $2) AND {LIVE}"  # noqa: S608
            " ORDER BY hub, channel LIMIT $3"
        )
        rows = await self._sql.fetch(which, *after, limit)
        return [(hub, _decode(record)) for hub, record in rows]

    @single_statement
    async def read_user_subscriptions(self, hub: str, user_id: str) -> list[str]:
        which = (
            "SELECT channel FROM user_subscriptions WHERE hub = $1 AND user_id = $2"
            " ORDER BY channel"
        )
        return [channel for (channel,) in await self._sql.fetch(which, hub, user_id)]

    @single_statement
    async def read_subscribed_users(self, hub: str, channel: str) -> list[str]:
        which = (
            "SELECT user_id FROM user_subscriptions WHERE hub = $1 AND channel = $2"
            " ORDER BY user_id"
        )
        return [user_id for (user_id,) in await self._sql.fetch(which, hub, channel)]
