"""What the stores on SQL databases have in common: all of the port but opening and closing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from hubbub.domain.errors import StoreUnavailable
from hubbub.domain.messages import Message
from hubbub.domain.webhooks import Webhook, WebTopic
from hubbub.ports.store import (
    Append,
    AuditEntry,
    AuditQuery,
    ChannelHead,
    Cursor,
    Deleted,
    Exported,
    Producer,
    PushToken,
    Retained,
    Revocation,
    SessionSnapshot,
    SettingsEntry,
    StoredChannel,
    StoredPage,
)
from hubbub.storage.sql.links import Link
from hubbub.storage.sql.reads import Reads
from hubbub.storage.sql.writes import Writes

_ENVELOPE_BYTES = 300
_APPEND_SLICE = 1000
_DELETE_SLICE = 2000
_RECLAIM_SLICE = 500
"""Smaller: it goes on all the time, beside the appends of the same hub."""
_NO_HUB = ""


class SqlStore:
    """Each call waits in the lane of its hub, or in a common one where it concerns all."""

    def __init__(self, writer: Link, reader: Link) -> None:
        self._writes = writer
        self._reads = reader

    # -- ownership ----------------------------------------------------------------------------

    async def acquire_partitions(self, partitions: Sequence[int], owner: str) -> dict[int, int]:
        return await self._writes.call(_NO_HUB, Writes.acquire_partitions, list(partitions), owner)

    async def count_beat(self, node: str) -> dict[str, int]:
        return await self._writes.call(_NO_HUB, Writes.count_beat, node)

    async def forget_node(self, node: str) -> None:
        await self._writes.call(_NO_HUB, Writes.forget_node, node)

    # -- messages -----------------------------------------------------------------------------

    async def read_head(self, hub: str, channel: str) -> ChannelHead | None:
        return await self._reads.call(hub, Reads.read_head, hub, channel)

    async def append(self, appends: Sequence[Append]) -> list[Exception | None]:
        if not appends:
            return []
        hub = appends[0].message.hub
        size = 0
        for append in appends:
            if append.message.hub != hub:
                return await self._append_parts(appends)
            size += len(append.message.payload) + _ENVELOPE_BYTES
        if len(appends) > _APPEND_SLICE:
            return await self._append_parts(appends)
        return await self._submit_appends(hub, appends, size)

    def _submit_appends(
        self, hub: str, appends: Sequence[Append], size: int
    ) -> asyncio.Future[list[Exception | None]]:
        return self._writes.submit(hub, Writes.append, appends, len(appends), size)

    async def _append_parts(self, appends: Sequence[Append]) -> list[Exception | None]:
        """Appends of several hubs, or very many: each hub's share waits in that hub's own lane,
        in slices. Where only some could be stored, the others answer `StoreUnavailable`."""
        indexes: dict[str, list[int]] = {}
        for index, append in enumerate(appends):
            indexes.setdefault(append.message.hub, []).append(index)
        slices = [
            (hub, all_of_hub[start : start + _APPEND_SLICE])
            for hub, all_of_hub in indexes.items()
            for start in range(0, len(all_of_hub), _APPEND_SLICE)
        ]
        parts = [self._append_part(hub, [appends[index] for index in part]) for hub, part in slices]
        answers = await asyncio.gather(*parts, return_exceptions=True)
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        if len(failures) == len(parts):
            raise failures[0]
        result: list[Exception | None] = [None] * len(appends)
        for (_, part), answer in zip(slices, answers, strict=True):
            if isinstance(answer, StoreUnavailable):
                answer = [answer] * len(part)
            elif isinstance(answer, BaseException):
                raise answer
            for index, refused in zip(part, answer, strict=True):
                result[index] = refused
        return result

    def _append_part(
        self, hub: str, part: Sequence[Append]
    ) -> asyncio.Future[list[Exception | None]]:
        size = sum(len(append.message.payload) + _ENVELOPE_BYTES for append in part)
        try:
            return self._submit_appends(hub, part, size)
        except StoreUnavailable as error:
            refused: asyncio.Future[list[Exception | None]]
            refused = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused

    async def read_after(self, hub: str, channel: str, serial: int, limit: int) -> StoredPage:
        return await self._reads.call(hub, Reads.read_after, hub, channel, serial, limit)

    async def read_before(
        self, hub: str, channel: str, serial: int | None, limit: int
    ) -> StoredPage:
        return await self._reads.call(hub, Reads.read_before, hub, channel, serial, limit)

    async def read_after_time(self, hub: str, channel: str, time: int, limit: int) -> StoredPage:
        return await self._reads.call(hub, Reads.read_after_time, hub, channel, time, limit)

    async def read_before_time(self, hub: str, channel: str, time: int, limit: int) -> StoredPage:
        return await self._reads.call(hub, Reads.read_before_time, hub, channel, time, limit)

    async def delete_before(
        self,
        hub: str,
        channel: str,
        serial: int,
        partition: int,
        term: int,
        spare_unread: bool = False,
    ) -> Deleted:
        """In slices, so that nobody's write waits for a long deletion."""
        which = (hub, channel, serial, partition, term, spare_unread)
        messages = stored_bytes = 0
        while True:
            deleted = await self._writes.call(hub, Writes.delete_before, *which, _RECLAIM_SLICE)
            messages += deleted.messages
            stored_bytes += deleted.stored_bytes
            if deleted.messages < _RECLAIM_SLICE:
                return Deleted(messages, stored_bytes, deleted.first)

    async def stored_bytes(self, hub: str) -> int:
        return await self._reads.call(hub, Reads.stored_bytes, hub)

    async def read_stored_hubs(self) -> list[str]:
        return await self._reads.call(_NO_HUB, Reads.read_stored_hubs)

    async def read_channels(self, hub: str, after: str, limit: int) -> list[StoredChannel]:
        return await self._reads.call(hub, Reads.read_channels, hub, after, limit)

    async def first_at(self, hub: str, channel: str, time: int) -> int:
        return await self._reads.call(hub, Reads.first_at, hub, channel, time)

    async def first_within(self, hub: str, channel: str, most_bytes: int) -> int:
        return await self._reads.call(hub, Reads.first_within, hub, channel, most_bytes)

    # -- topics -------------------------------------------------------------------------------

    async def open_producer(
        self,
        hub: str,
        channel: str,
        principal: str,
        producer: str,
        partition: int,
        term: int,
        take_over: bool,
    ) -> Producer:
        return await self._writes.call(
            hub,
            Writes.open_producer,
            hub,
            channel,
            principal,
            producer,
            partition,
            term,
            take_over,
        )

    async def read_producer(
        self, hub: str, channel: str, principal: str, producer: str
    ) -> Producer | None:
        return await self._reads.call(hub, Reads.read_producer, hub, channel, principal, producer)

    async def read_put(
        self, producer_id: int, sequence: int, hub: str, channel: str
    ) -> Message | None:
        return await self._reads.call(hub, Reads.read_put, producer_id, sequence, hub, channel)

    async def save_cursor(self, cursor: Cursor, partition: int, term: int) -> None:
        size = len(cursor.state) + _ENVELOPE_BYTES
        arguments = (cursor, partition, term)
        await self._writes.submit(cursor.hub, Writes.save_cursor, arguments, 1, size)

    async def delete_cursor(
        self, hub: str, channel: str, owner: str, name: str, partition: int, term: int
    ) -> bool:
        return await self._writes.call(
            hub, Writes.delete_cursor, hub, channel, owner, name, partition, term
        )

    async def read_cursors(
        self,
        hub: str,
        channel: str | None = None,
        owner: str | None = None,
        after: tuple[str, str, str] | None = None,
        limit: int | None = None,
    ) -> list[Cursor]:
        return await self._reads.call(hub, Reads.read_cursors, hub, channel, owner, after, limit)

    async def read_places(
        self, after: tuple[str, str, str, str] | None, limit: int
    ) -> list[tuple[Cursor, ChannelHead | None]]:
        return await self._reads.call(_NO_HUB, Reads.read_places, after, limit)

    # -- webhooks -----------------------------------------------------------------------------

    async def add_web_topic(self, topic: WebTopic) -> bool:
        return await self._writes.call(topic.hub, Writes.add_web_topic, topic)

    async def save_web_topic(self, topic: WebTopic) -> None:
        await self._writes.call(topic.hub, Writes.save_web_topic, topic)

    async def read_web_topic(self, hub: str, channel: str) -> WebTopic | None:
        return await self._reads.call(hub, Reads.read_web_topic, hub, channel)

    async def list_web_topics(self, hub: str, after: str, limit: int) -> list[WebTopic]:
        return await self._reads.call(hub, Reads.list_web_topics, hub, after, limit)

    async def read_topic_keys(self, hub: str | None = None) -> list[tuple[str, str, bytes]]:
        return await self._reads.call(_NO_HUB, Reads.read_topic_keys, hub)

    async def delete_web_topic(self, hub: str, channel: str) -> bool:
        return await self._writes.call(hub, Writes.delete_web_topic, hub, channel)

    async def save_webhook(self, webhook: Webhook) -> None:
        await self._writes.call(webhook.hub, Writes.save_webhook, webhook)

    async def delete_webhook(self, hub: str, webhook: str) -> bool:
        return await self._writes.call(hub, Writes.delete_webhook, hub, webhook)

    async def read_webhook(self, hub: str, webhook: str) -> Webhook | None:
        return await self._reads.call(hub, Reads.read_webhook, hub, webhook)

    async def read_webhooks(
        self,
        hub: str | None = None,
        channel: str | None = None,
        partitions: Sequence[int] | None = None,
        after: tuple[str, str] | None = None,
        limit: int | None = None,
    ) -> list[Webhook]:
        chosen = None if partitions is None else list(partitions)
        return await self._reads.call(
            hub or _NO_HUB, Reads.read_webhooks, hub, channel, chosen, after, limit
        )

    async def count_webhooks(self, hub: str) -> int:
        return await self._reads.call(hub, Reads.count_webhooks, hub)

    # -- the journal --------------------------------------------------------------------------

    async def save_exported(self, exported: Sequence[Exported]) -> None:
        for start in range(0, len(exported), _APPEND_SLICE):
            part = list(exported[start : start + _APPEND_SLICE])
            await self._writes.call(_NO_HUB, Writes.save_exported, part)

    async def read_exported(self, hub: str, channel: str) -> int:
        return await self._reads.call(hub, Reads.read_exported, hub, channel)

    async def read_unexported(
        self, after: tuple[str, str] | None, limit: int
    ) -> list[tuple[str, str]]:
        return await self._reads.call(_NO_HUB, Reads.read_unexported, *(after or ("", "")), limit)

    # -- retained -----------------------------------------------------------------------------

    async def save_retained(
        self, message: Message, expires_at: int, partition: int, term: int
    ) -> None:
        size = len(message.payload) + _ENVELOPE_BYTES
        arguments = (message, expires_at, partition, term)
        await self._writes.submit(message.hub, Writes.save_retained, arguments, 1, size)

    async def read_retained(self, hub: str, channel: str, now: int) -> Retained | None:
        return await self._reads.call(hub, Reads.read_retained, hub, channel, now)

    async def delete_retained(self, hub: str, channel: str, partition: int, term: int) -> None:
        await self._writes.call(hub, Writes.delete_retained, hub, channel, partition, term)

    # -- settings -----------------------------------------------------------------------------

    async def put_settings(
        self,
        entries: Sequence[SettingsEntry],
        expected: Mapping[str, int] | None = None,
        audit: AuditEntry | None = None,
    ) -> list[SettingsEntry]:
        versions = None if expected is None else dict(expected)
        return await self._writes.call(_NO_HUB, Writes.put_settings, list(entries), versions, audit)

    async def delete_settings(
        self,
        kind: str,
        hub: str,
        name: str,
        expected: int | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        return await self._writes.call(
            _NO_HUB, Writes.delete_settings, kind, hub, name, expected, audit
        )

    async def read_settings(self, hub: str | None = None) -> list[SettingsEntry]:
        return await self._reads.call(_NO_HUB, Reads.read_settings, hub)

    async def delete_hub(self, hub: str, audit: AuditEntry | None = None) -> bool:
        found = await self._writes.call(_NO_HUB, Writes.delete_settings_of, hub, audit)
        while True:
            deleted = await self._writes.call(hub, Writes.delete_data_of, hub, _DELETE_SLICE)
            found = found or deleted > 0
            if deleted < _DELETE_SLICE:
                return found

    # -- administration -----------------------------------------------------------------------

    async def append_audit(self, entry: AuditEntry) -> None:
        await self._writes.call(_NO_HUB, Writes.append_audit, entry)

    async def read_audit(self, query: AuditQuery) -> list[AuditEntry]:
        return await self._reads.call(_NO_HUB, Reads.read_audit, query)

    async def delete_audit_before(self, time: int) -> int:
        total = 0
        while True:
            deleted = await self._writes.call(
                _NO_HUB, Writes.delete_audit_before, time, _DELETE_SLICE
            )
            total += deleted
            if deleted < _DELETE_SLICE:
                return total

    async def save_revocation(
        self, revocation: Revocation, audit: AuditEntry | None = None
    ) -> None:
        await self._writes.call(_NO_HUB, Writes.save_revocation, revocation, audit)

    async def read_revocations(self, hub: str | None, now: int) -> list[Revocation]:
        return await self._reads.call(_NO_HUB, Reads.read_revocations, hub, now)

    # -- sessions -----------------------------------------------------------------------------

    async def save_sessions(self, snapshots: Sequence[SessionSnapshot]) -> None:
        await self._writes.call(_NO_HUB, Writes.save_sessions, list(snapshots))

    async def read_session(self, key_hash: bytes, now: int) -> SessionSnapshot | None:
        return await self._reads.call(_NO_HUB, Reads.read_session, key_hash, now)

    async def delete_sessions(self, key_hashes: Sequence[bytes]) -> None:
        await self._writes.call(_NO_HUB, Writes.delete_sessions, list(key_hashes))

    # -- push tokens --------------------------------------------------------------------------

    async def save_push_token(self, token: PushToken) -> None:
        await self._writes.call(token.hub, Writes.save_push_token, token)

    async def read_push_tokens(self, hub: str, user_id: str) -> list[PushToken]:
        return await self._reads.call(hub, Reads.read_push_tokens, hub, user_id)

    async def delete_push_token(self, hub: str, platform: str, token: str) -> bool:
        return await self._writes.call(hub, Writes.delete_push_token, hub, platform, token)

    # -- upkeep -------------------------------------------------------------------------------

    async def delete_expired(self, now: int) -> int:
        total = 0
        while True:
            deleted = await self._writes.call(_NO_HUB, Writes.delete_expired, now, _DELETE_SLICE)
            total += deleted
            if deleted < _DELETE_SLICE:
                return total
