"""The common part of the stores on SQL databases: all of the port but opening and closing."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from hubbub.domain.errors import StoreUnavailable
from hubbub.domain.messages import Message
from hubbub.domain.notifications import NotificationItem
from hubbub.ports.storage.administration import AuditEntry
from hubbub.ports.storage.documents import SnapshotSaved
from hubbub.ports.storage.exports import Exported
from hubbub.ports.storage.messages import (
    Append,
    Deleted,
)
from hubbub.ports.storage.notifications import (
    ChannelKey,
    CreatedNotifications,
    NotificationBounds,
)
from hubbub.ports.storage.topics import SavedCursor
from hubbub.storage.sql.links import Link
from hubbub.storage.sql.reads import Reads
from hubbub.storage.sql.writes import Writes

_ENVELOPE_BYTES = 300
_APPEND_SLICE = 1000
_DELETE_SLICE = 2000
_INDEX_SLICE = 2000
_RECLAIM_SLICE = 500
"""Smaller: it goes on all the time, beside the appends of the same hub."""
_NO_HUB = ""
READS_AT_ONCE = 4
"""Small reads that a SQLite store answers together. A page, which takes milliseconds, is answered
alone: the small reads of other hubs wait for two pages at most, those that are under way."""

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_Deletion = Callable[[Writes, T, int], Coroutine[Any, Any, int]]
"""Deletes at most so many, and answers how many they were."""
_Arguments = tuple[Any, ...]
_Lane = Callable[[_Arguments], str]
_StoreMethod = Callable[Concatenate["SqlStore", P], Coroutine[Any, Any, R]]


def _of_hub(arguments: _Arguments) -> str:
    """The hub is the first argument."""
    return arguments[0] or _NO_HUB


def _of_record(arguments: _Arguments) -> str:
    """The first argument is a record of a hub."""
    hub: str = arguments[0].hub
    return hub


def _size_of(append: Append) -> int:
    size = len(append.message.payload) + _ENVELOPE_BYTES
    return size if append.change is None else size + len(append.change.change.ops)


def _common(_: _Arguments) -> str:
    return _NO_HUB


def _read(
    method: Callable[Concatenate[Reads, P], Coroutine[Any, Any, R]],
    lane: _Lane = _of_hub,
    weight: int = 1,
) -> _StoreMethod[P, R]:
    """A method of the store that is this read."""
    return _calling(lambda store: store._reads, method, lane, weight)


def _read_page(
    method: Callable[Concatenate[Reads, P], Coroutine[Any, Any, R]], lane: _Lane = _of_hub
) -> _StoreMethod[P, R]:
    """The same where the answer may be as large as a page of history."""
    return _read(method, lane, READS_AT_ONCE)


def _write(
    method: Callable[Concatenate[Writes, P], Coroutine[Any, Any, R]], lane: _Lane = _of_hub
) -> _StoreMethod[P, R]:
    """A method of the store that is this write."""
    return _calling(lambda store: store._writes, method, lane)


def _calling(
    link: Callable[[SqlStore], Link],
    method: Callable[Concatenate[T, P], Coroutine[Any, Any, R]],
    lane: _Lane,
    weight: int = 1,
) -> _StoreMethod[P, R]:
    complete = _completing(method)

    async def call(self: SqlStore, /, *arguments: P.args, **named: P.kwargs) -> R:
        whole = complete(*arguments, **named)
        answer: R = await link(self).submit(lane(whole), method, whole, weight)
        return answer

    return call


def _completing(method: Callable[..., Any]) -> Callable[..., _Arguments]:
    """All arguments of the method by position, with the defaults of those that are left out."""
    parameters = list(inspect.signature(method).parameters.values())[1:]

    def complete(*given: Any, **named: Any) -> _Arguments:
        if len(given) == len(parameters):
            return given
        return given + tuple(named.get(p.name, p.default) for p in parameters[len(given) :])

    return complete


class SqlStore:
    """Each call waits in the lane of its hub, or in a common one where it concerns all."""

    def __init__(self, writer: Link, reader: Link) -> None:
        self._writes = writer
        self._reads = reader

    # -- ownership ----------------------------------------------------------------------------

    acquire_partitions = _write(Writes.acquire_partitions, _common)
    count_beat = _write(Writes.count_beat, _common)
    forget_node = _write(Writes.forget_node, _common)

    # -- messages -----------------------------------------------------------------------------

    read_head = _read(Reads.read_head)

    async def append(self, appends: Sequence[Append]) -> list[Exception | None]:
        if not appends:
            return []
        hub = appends[0].message.hub
        size = 0
        for append in appends:
            if append.message.hub != hub:
                return await self._append_parts(appends)
            size += _size_of(append)
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
        size = sum(map(_size_of, part))
        try:
            return self._submit_appends(hub, part, size)
        except StoreUnavailable as error:
            refused: asyncio.Future[list[Exception | None]]
            refused = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused

    read_after = _read_page(Reads.read_after)
    read_before = _read_page(Reads.read_before)
    read_after_time = _read_page(Reads.read_after_time)
    read_before_time = _read_page(Reads.read_before_time)

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

    # -- threads ------------------------------------------------------------------------------

    threads_indexed = _read(Reads.threads_indexed)
    read_threads = _read_page(Reads.read_threads, _of_record)
    read_conversation = _read_page(Reads.read_conversation)
    read_conversation_before = _read_page(Reads.read_conversation_before)

    async def index_threads(self, hub: str, channel: str, partition: int, term: int) -> None:
        """In slices, so that nobody's write waits for a long history."""
        which = (hub, channel, partition, term)
        while await self._writes.call(hub, Writes.index_threads, *which, _INDEX_SLICE):
            pass

    # -- what is stored -----------------------------------------------------------------------

    stored_bytes = _read(Reads.stored_bytes)
    read_stored_hubs = _read(Reads.read_stored_hubs, _common)
    read_channels = _read(Reads.read_channels)
    first_at = _read(Reads.first_at)
    first_within = _read(Reads.first_within)

    # -- topics -------------------------------------------------------------------------------

    open_producer = _write(Writes.open_producer)
    read_producer = _read(Reads.read_producer)
    read_put = _read(Reads.read_put, lambda arguments: arguments[2])

    async def save_cursor(self, cursor: SavedCursor, partition: int, term: int) -> None:
        size = len(cursor.state) + _ENVELOPE_BYTES
        arguments = (cursor, partition, term)
        await self._writes.submit(cursor.hub, Writes.save_cursor, arguments, 1, size)

    delete_cursor = _write(Writes.delete_cursor)
    read_cursors = _read(Reads.read_cursors)
    read_cursor_page = _read(Reads.read_cursor_page, _common)

    # -- documents ----------------------------------------------------------------------------

    read_document = _read_page(Reads.read_document)
    read_document_changes = _read_page(Reads.read_document_changes)
    read_document_put = _read(Reads.read_document_put, _common)
    read_documents = _read_page(Reads.read_documents)

    async def save_snapshot(
        self,
        hub: str,
        channel: str,
        epoch: str,
        version: int,
        at: int,
        content: bytes,
        keep_changes: int,
        partition: int,
        term: int,
    ) -> SnapshotSaved | None:
        arguments = (hub, channel, epoch, version, at, content, keep_changes, partition, term)
        size = len(content) + _ENVELOPE_BYTES
        saved: SnapshotSaved | None
        saved = await self._writes.submit(hub, Writes.save_snapshot, arguments, 1, size)
        return saved

    # -- notifications ------------------------------------------------------------------------

    async def create_notifications(
        self,
        key: ChannelKey,
        epoch: str,
        items: Sequence[NotificationItem],
        now: int,
        bounds: NotificationBounds,
    ) -> CreatedNotifications:
        size = sum(len(item.payload) + _ENVELOPE_BYTES for item in items)
        arguments = (key, epoch, items, now, bounds)
        created: CreatedNotifications = await self._writes.submit(
            key.hub, Writes.create_notifications, arguments, len(items), size
        )
        return created

    mark_notifications = _write(Writes.mark_notifications, _of_record)
    delete_notifications = _write(Writes.delete_notifications, _of_record)
    expire_notifications = _write(Writes.expire_notifications, _of_record)
    forget_notifications = _write(Writes.forget_notifications, _of_record)
    anonymise_notifications = _write(Writes.anonymise_notifications)
    read_notification_state = _read(Reads.read_notification_state)
    read_notifications = _read_page(Reads.read_notifications, _of_record)
    read_due_notifications = _read(Reads.read_due_notifications, _common)

    # -- webhooks -----------------------------------------------------------------------------

    add_web_topic = _write(Writes.add_web_topic, _of_record)
    save_web_topic = _write(Writes.save_web_topic, _of_record)
    read_web_topic = _read(Reads.read_web_topic)
    list_web_topics = _read(Reads.list_web_topics)
    read_topic_keys = _read(Reads.read_topic_keys, _common)
    delete_web_topic = _write(Writes.delete_web_topic)
    note_ping = _write(Writes.note_ping)
    note_failed_fetch = _write(Writes.note_failed_fetch)
    end_ping = _write(Writes.end_ping)
    read_pinged = _read(Reads.read_pinged, _common)
    save_webhook = _write(Writes.save_webhook, _of_record)
    delete_webhook = _write(Writes.delete_webhook)
    read_webhook = _read(Reads.read_webhook)

    read_webhooks = _read(Reads.read_webhooks)
    count_webhooks = _read(Reads.count_webhooks)

    # -- the journal --------------------------------------------------------------------------

    async def save_exported(self, exported: Sequence[Exported]) -> None:
        for start in range(0, len(exported), _APPEND_SLICE):
            part = list(exported[start : start + _APPEND_SLICE])
            await self._writes.call(_NO_HUB, Writes.save_exported, part)

    read_exported = _read(Reads.read_exported)

    read_unexported = _read(Reads.read_unexported, _common)

    # -- retained -----------------------------------------------------------------------------

    async def save_retained(
        self, message: Message, expires_at: int, partition: int, term: int
    ) -> None:
        size = len(message.payload) + _ENVELOPE_BYTES
        arguments = (message, expires_at, partition, term)
        await self._writes.submit(message.hub, Writes.save_retained, arguments, 1, size)

    read_retained = _read(Reads.read_retained)
    delete_retained = _write(Writes.delete_retained)

    # -- settings -----------------------------------------------------------------------------

    put_settings = _write(Writes.put_settings, _common)
    delete_settings = _write(Writes.delete_settings, _common)
    read_settings = _read(Reads.read_settings, _common)

    async def delete_hub(self, hub: str, audit: AuditEntry | None = None) -> bool:
        found = await self._writes.call(_NO_HUB, Writes.delete_settings_of, hub, audit)
        return await self._delete_in_slices(hub, Writes.delete_data_of, hub) > 0 or found

    # -- administration -----------------------------------------------------------------------

    append_audit = _write(Writes.append_audit, _common)
    read_audit = _read(Reads.read_audit, _common)

    async def delete_audit_before(self, time: int) -> int:
        return await self._delete_in_slices(_NO_HUB, Writes.delete_audit_before, time)

    save_revocation = _write(Writes.save_revocation, _common)
    read_revocations = _read(Reads.read_revocations, _common)

    # -- sessions -----------------------------------------------------------------------------

    save_sessions = _write(Writes.save_sessions, _common)
    hold_sessions = _write(Writes.hold_sessions, _common)
    read_session = _read(Reads.read_session, _common)
    delete_sessions = _write(Writes.delete_sessions, _common)

    # -- push ---------------------------------------------------------------------------------

    save_push_token = _write(Writes.save_push_token, _of_record)
    read_push_tokens = _read(Reads.read_push_tokens)
    delete_push_token = _write(Writes.delete_push_token)
    note_push_results = _write(Writes.note_push_results)
    save_following = _write(Writes.save_following, _of_record)
    read_followings = _read(Reads.read_followings)
    read_followings_of = _read(Reads.read_followings_of)
    list_followings = _read(Reads.list_followings)
    delete_following = _write(Writes.delete_following)
    delete_followings_of = _write(Writes.delete_followings_of)
    put_push_credential = _write(Writes.put_push_credential, _of_record)
    add_first_credential = _write(Writes.add_first_credential, _of_record)
    read_push_credentials = _read(Reads.read_push_credentials)
    delete_push_credential = _write(Writes.delete_push_credential)

    # -- commands -----------------------------------------------------------------------------

    save_channel_record = _write(Writes.save_channel_record)
    take_user_off_record = _write(Writes.take_user_off_record)
    read_channel_record = _read(Reads.read_channel_record)
    read_channel_records = _read_page(Reads.read_channel_records)
    list_channel_records = _read_page(Reads.list_channel_records, _common)
    add_user_subscription = _write(Writes.add_user_subscription)
    delete_user_subscription = _write(Writes.delete_user_subscription)
    read_user_subscriptions = _read(Reads.read_user_subscriptions)
    read_subscribed_users = _read(Reads.read_subscribed_users)
    delete_user_subscriptions_of = _write(Writes.delete_user_subscriptions_of)

    # -- upkeep -------------------------------------------------------------------------------

    async def delete_expired(self, now: int) -> int:
        return await self._delete_in_slices(_NO_HUB, Writes.delete_expired, now)

    async def _delete_in_slices(self, lane: str, method: _Deletion[T], which: T) -> int:
        """How many were deleted. Nobody's write waits for a long deletion."""
        total = 0
        while True:
            deleted = await self._writes.call(lane, method, which, _DELETE_SLICE)
            total += deleted
            if deleted < _DELETE_SLICE:
                return total
