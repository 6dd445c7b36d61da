"""SQL for webhooks and web topics."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hubbub.domain.names import partition_of
from hubbub.domain.permissions import Reader
from hubbub.domain.webhooks import PendingVerification, Webhook, WebTopic
from hubbub.storage.sql.connection import Row, Sql, holds, put, single_statement
from hubbub.storage.sql.restoring import LIVE

_TOPIC_COLUMNS = WebTopic.__struct_fields__[:10]
"""Columns of the registration; the others describe fetches."""
_READ_TOPICS = f"SELECT {', '.join(WebTopic.__struct_fields__)} FROM web_topics"  # noqa: S608
_PING = (
    "INSERT INTO web_topics (hub, channel, created_at, url, open, pinged_at, partition_id)"
    " VALUES ($1, $2, $3, $4, 0, $3, $5) ON CONFLICT (hub, channel) DO UPDATE SET"
    " url = COALESCE(web_topics.url, excluded.url), partition_id = excluded.partition_id,"
    " pinged_at = CASE WHEN web_topics.pinged_at >= excluded.pinged_at"
    " THEN web_topics.pinged_at + 1 ELSE excluded.pinged_at END"
)
_PUT_TOPIC = put("web_topics", _TOPIC_COLUMNS, "hub", "channel")
_ADD_TOPIC = f"{_PUT_TOPIC.partition(' ON CONFLICT')[0]} ON CONFLICT (hub, channel) DO NOTHING"
_COLUMNS = tuple("encryption_key" if name == "key" else name for name in Webhook.__struct_fields__)
_READ_WEBHOOKS = f"SELECT {', '.join(_COLUMNS)} FROM webhooks"  # noqa: S608
_PUT_WEBHOOK = put("webhooks", (*_COLUMNS, "partition_id"), "hub", "id")

_SEARCHED = ("id", "channel", "callback")

_encoder = msgspec.msgpack.Encoder()
_pending = msgspec.msgpack.Decoder(PendingVerification)
_acting = msgspec.msgpack.Decoder(Reader)


def _topic_row(topic: WebTopic) -> Row:
    columns = msgspec.structs.astuple(topic)
    return (*columns[:9], int(topic.open))


def _topic(row: Row) -> WebTopic:
    topic = WebTopic(*row)
    return msgspec.structs.replace(topic, open=bool(topic.open))


def _to_row(webhook: Webhook) -> Row:
    *columns, pending, acting = msgspec.structs.astuple(webhook)
    blobs = [None if each is None else _encoder.encode(each) for each in (pending, acting)]
    return (*columns, *blobs, partition_of(webhook.hub, webhook.channel))


def _from_row(row: Row) -> Webhook:
    pending, acting = row[-2:]
    columns = (
        *row[:-2],
        None if pending is None else _pending.decode(pending),
        None if acting is None else _acting.decode(acting),
    )
    return Webhook(*columns)


class WebhookWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

    async def add_web_topic(self, topic: WebTopic) -> bool:
        return await self._sql.execute(_ADD_TOPIC, *_topic_row(topic)) > 0

    async def save_web_topic(self, topic: WebTopic) -> None:
        await self._sql.execute(_PUT_TOPIC, *_topic_row(topic))

    async def note_ping(self, hub: str, channel: str, url: str, now: int) -> None:
        await self._sql.execute(_PING, hub, channel, now, url, partition_of(hub, channel))

    async def note_failed_fetch(self, hub: str, channel: str, failures: int, error: str) -> None:
        await self._sql.execute(
            "UPDATE web_topics SET fetch_failures = $3, fetch_error = $4"
            " WHERE hub = $1 AND channel = $2",
            hub,
            channel,
            failures,
            error,
        )

    async def end_ping(self, hub: str, channel: str, pinged_at: int, well: bool) -> bool:
        cleared = ", fetch_failures = 0, fetch_error = NULL" if well else ""
        return (
            await self._sql.execute(
                f"UPDATE web_topics SET pinged_at = NULL{cleared}"  # noqa: S608
                " WHERE hub = $1 AND channel = $2 AND pinged_at = $3",
                hub,
                channel,
                pinged_at,
            )
            > 0
        )

    async def delete_web_topic(self, hub: str, channel: str) -> bool:
        which = "DELETE FROM web_topics WHERE hub = $1 AND channel = $2"
        return await self._sql.execute(which, hub, channel) > 0

    async def save_webhook(self, webhook: Webhook) -> None:
        await self._sql.execute(_PUT_WEBHOOK, *_to_row(webhook))

    async def delete_webhook(self, hub: str, webhook: str) -> bool:
        which = "DELETE FROM webhooks WHERE hub = $1 AND id = $2"
        return await self._sql.execute(which, hub, webhook) > 0


class WebhookReads:
    """Part of `Reads`."""

    _sql: Sql

    @single_statement
    async def read_web_topic(self, hub: str, channel: str) -> WebTopic | None:
        rows = await self._sql.fetch(
            f"{_READ_TOPICS} WHERE hub = $1 AND channel = $2", hub, channel
        )
        return _topic(rows[0]) if rows else None

    @single_statement
    async def list_web_topics(self, hub: str, after: str, limit: int) -> list[WebTopic]:
        which = "WHERE hub = $1 AND channel > $2 ORDER BY channel LIMIT $3"
        rows = await self._sql.fetch(f"{_READ_TOPICS} {which}", hub, after, limit)
        return [_topic(row) for row in rows]

    @single_statement
    async def read_pinged(self, partitions: Sequence[int]) -> list[WebTopic]:
        which = f"WHERE pinged_at IS NOT NULL AND partition_id = ANY($1) AND {LIVE}"
        rows = await self._sql.fetch(f"{_READ_TOPICS} {which}", partitions)
        return [_topic(row) for row in rows]

    @single_statement
    async def read_topic_keys(self, hub: str | None = None) -> list[tuple[str, str, bytes]]:
        columns = "SELECT hub, channel, key_hash FROM web_topics WHERE key_hash IS NOT NULL"
        if hub is None:
            rows = await self._sql.fetch(f"{columns} AND {LIVE}")
        else:
            rows = await self._sql.fetch(f"{columns} AND hub = $1", hub)
        return [(of_hub, channel, bytes(key_hash)) for of_hub, channel, key_hash in rows]

    @single_statement
    async def read_webhook(self, hub: str, webhook: str) -> Webhook | None:
        rows = await self._sql.fetch(f"{_READ_WEBHOOKS} WHERE hub = $1 AND id = $2", hub, webhook)
        return _from_row(rows[0]) if rows else None

    @single_statement
    async def read_webhooks(
        self,
        hub: str | None = None,
        channel: str | None = None,
        partitions: Sequence[int] | None = None,
        after: tuple[str, str] | None = None,
        limit: int | None = None,
        text: str = "",
        owner: str | None = None,
        peers: bool | None = None,
    ) -> list[Webhook]:
        values: list[object] = list(after or ("", ""))
        tests = _tests(values, hub, channel, partitions, text, owner, peers)
        if hub is None:
            tests += f" AND {LIVE}"
        statement = f"{_READ_WEBHOOKS} WHERE (hub, id) > ($1, $2){tests} ORDER BY hub, id"
        if limit is not None:
            values.append(limit)
            statement += f" LIMIT ${len(values)}"
        return [_from_row(row) for row in await self._sql.fetch(statement, *values)]

    @single_statement
    async def count_webhooks(
        self,
        hub: str,
        channel: str | None = None,
        text: str = "",
        owner: str | None = None,
        peers: bool | None = None,
    ) -> int:
        values: list[object] = [hub]
        tests = _tests(values, None, channel, None, text, owner, peers)
        statement = f"SELECT count(*) FROM webhooks WHERE hub = $1{tests}"  # noqa: S608
        ((count,),) = await self._sql.fetch(statement, *values)
        return int(count)


def _tests(
    values: list[object],
    hub: str | None,
    channel: str | None,
    partitions: Sequence[int] | None,
    text: str,
    owner: str | None,
    peers: bool | None,
) -> str:
    """The conditions of a statement; appends their parameters to `values`."""
    tests = ""
    for test, value in (
        ("hub = ${n}", hub),
        ("channel = ${n}", channel),
        ("partition_id = ANY(${n})", partitions),
        ("owner = ${n}", owner),
    ):
        if value is not None:
            values.append(value)
            tests += " AND " + test.format(n=len(values))
    if text:
        values.append(text)
        tests += f" AND ({holds(_SEARCHED, len(values))})"
    if peers is not None:
        tests += f" AND kind {'=' if peers else '<>'} 'peer'"
    return tests
