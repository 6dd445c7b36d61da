"""The common part of the SQL stores: the whole port except opening and closing."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from hubbub.domain.audit import Audit, AuditEntry
from hubbub.domain.communication.steps import CommunicationStep
from hubbub.domain.errors import STORE_FULL, HubbubError, StoreUnavailable
from hubbub.domain.notifications import NotificationItem
from hubbub.domain.search import INDEXED_BYTES
from hubbub.ports.storage.exports import Exported
from hubbub.ports.storage.messages import (
    Append,
    Deleted,
    MessagesOfUser,
)
from hubbub.ports.storage.notifications import (
    ChannelKey,
    CreatedNotifications,
    NotificationBounds,
)
from hubbub.ports.storage.restoring import Value
from hubbub.ports.storage.settings import SettingsEntry
from hubbub.storage.sql.communication import LOG
from hubbub.storage.sql.fair_queue import Bound
from hubbub.storage.sql.hub_tables import hub_tables
from hubbub.storage.sql.links import OPERATION_BYTES, StoreLink
from hubbub.storage.sql.reads import Reads
from hubbub.storage.sql.restoring import counted_tables, replaced, staged
from hubbub.storage.sql.writes import Writes

_ENVELOPE_BYTES = 300
_APPEND_SLICE = 1000
_DELETE_SLICE = 2000
_INDEX_SLICE = 2000
SEARCH_SLICE = 4000
_TEXTS_SLICE = 100
"""Small: words are made of each of these messages, and written into an index."""
_INDEXING = 16
"""A byte of text that is indexed takes as long as so many that are only stored: other writes of the
same transaction wait for it."""
_RETAINED_SLICE = 500
_RECLAIM_SLICE = 500
"""Small, since it runs all the time beside the appends of the same hub."""
_NO_HUB = ""
CHANNEL_SETTINGS = "channel"
"""The kind of channels' settings."""
READS_AT_ONCE = 4
"""How many small reads a SQLite store groups. A page, which takes milliseconds, is read alone:
small reads of other hubs wait for at most the two pages in progress."""

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_Deletion = Callable[[Writes, T, int], Coroutine[Any, Any, int]]
"""Deletes at most a given number of rows, and returns how many."""
_Arguments = tuple[Any, ...]
_Lane = Callable[[_Arguments], str]
_Size = Callable[[_Arguments], int]
_StoreMethod = Callable[Concatenate["SqlStore", P], Coroutine[Any, Any, R]]


def _of_hub(arguments: _Arguments) -> str:
    """The lane for methods whose first argument is the hub."""
    return arguments[0] or _NO_HUB


def _of_record(arguments: _Arguments) -> str:
    """The lane for methods whose first argument is a record of a hub."""
    hub: str = arguments[0].hub
    return hub


def _size_of(append: Append) -> int:
    size = len(append.message.payload) + _ENVELOPE_BYTES
    if append.communication is not None:
        size += _ENVELOPE_BYTES * len(append.communication.added)
    if append.search:
        size += _INDEXING * min(len(append.message.payload), INDEXED_BYTES)
    return size if append.change is None else size + len(append.change.change.ops)


def _step_bytes(arguments: _Arguments) -> int:
    step: CommunicationStep = arguments[1]
    rows = (step.added, step.moved, step.dropped, step.planned, step.closed, step.dropped_of)
    return _ENVELOPE_BYTES * (sum(map(len, rows)) + 1)


def _common(_: _Arguments) -> str:
    return _NO_HUB


def _read(
    method: Callable[Concatenate[Reads, P], Coroutine[Any, Any, R]],
    lane: _Lane = _of_hub,
    weight: int = 1,
) -> _StoreMethod[P, R]:
    """Creates a method of the store that calls this read."""
    return _calling(lambda store: store._reads, method, lane, weight)


def _read_page(
    method: Callable[Concatenate[Reads, P], Coroutine[Any, Any, R]], lane: _Lane = _of_hub
) -> _StoreMethod[P, R]:
    """Like `_read`, for results that may be as large as a page of history."""
    return _read(method, lane, READS_AT_ONCE)


def _write(
    method: Callable[Concatenate[Writes, P], Coroutine[Any, Any, R]],
    lane: _Lane = _of_hub,
    size: _Size | None = None,
    bounded: bool = False,
) -> _StoreMethod[P, R]:
    """Creates a method of the store that calls this write; `size` returns the bytes that it adds,
    if these can be many. `bounded`: it is rolled back if the hub of its lane would exceed its quota
    and grow. Writes that must always succeed are not bounded: progress of subscriptions and
    deliveries, and deletions."""
    return _calling(lambda store: store._writes, method, lane, size=size, bounded=bounded)


def _calling(
    link: Callable[[SqlStore], StoreLink],
    method: Callable[Concatenate[T, P], Coroutine[Any, Any, R]],
    lane: _Lane,
    weight: int = 1,
    size: _Size | None = None,
    bounded: bool = False,
) -> _StoreMethod[P, R]:
    complete = _completing(method)

    async def call(self: SqlStore, /, *arguments: P.args, **named: P.kwargs) -> R:
        whole = complete(*arguments, **named)
        taken = OPERATION_BYTES if size is None else size(whole)
        hub = lane(whole)
        bound = self._bound(hub) if bounded else None
        answer: R = await link(self).submit(
            hub, method, whole, weight, taken, bound=bound, audit=self._audit
        )
        return answer

    return call


def _completing(method: Callable[..., Any]) -> Callable[..., _Arguments]:
    """Returns a function that makes all arguments positional and fills in defaults."""
    parameters = list(inspect.signature(method).parameters.values())[1:]

    def complete(*given: Any, **named: Any) -> _Arguments:
        if len(given) == len(parameters):
            return given
        return given + tuple(named.get(p.name, p.default) for p in parameters[len(given) :])

    return complete


class SqlStore:
    """Each call waits in the lane of its hub, or in a common lane if it concerns all hubs."""

    def __init__(self, writer: StoreLink, reader: StoreLink) -> None:
        self._writes = writer
        self._reads = reader
        self._quota_of: Callable[[str], int] = lambda hub: 0
        self._audit: AuditEntry | None = None
        """The audit entry to store with the next write."""

    def audited(self, entry: Audit) -> Self:
        if not isinstance(entry, AuditEntry):
            return self
        store = copy.copy(self)
        store._audit = entry
        return store

    def bound_by(self, quota_of: Callable[[str], int]) -> None:
        self._quota_of = quota_of

    def _bound(self, hub: str) -> Bound | None:
        quota = self._quota_of(hub)
        return Bound(hub, quota) if quota else None

    @property
    def problem(self) -> str | None:
        return self._writes.problem or self._reads.problem

    def look_again(self) -> None:
        self._writes.look_again()
        self._reads.look_again()

    # -- ownership ----------------------------------------------------------------------------

    acquire_partitions = _write(Writes.acquire_partitions, _common)
    read_terms = _read(Reads.read_terms, _common)
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
        """For appends of several hubs, or very many: each hub's part waits in that hub's lane, in
        slices. If some parts fail, their results are `StoreUnavailable`."""
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
        """Deletes in slices, so that no write waits for a long deletion."""
        which = (hub, channel, serial, partition, term, spare_unread)
        messages = stored_bytes = 0
        limit = _RECLAIM_SLICE
        while True:
            deleted, limit = await self._delete_slice(hub, Writes.delete_before, which, limit)
            messages += deleted.messages
            stored_bytes += deleted.stored_bytes
            if deleted.messages < limit:
                return Deleted(messages, stored_bytes, deleted.first)

    erase_messages = _write(Writes.erase_messages)
    _find_published = _read_page(Reads.find_published)
    _count_correspondence = _read(Reads.count_correspondence)

    async def find_published(self, hub: str, user_id: str) -> dict[str, int]:
        """Reads in slices, so that no read waits for a long history."""
        found: Counter[str] = Counter()
        part = MessagesOfUser({}, "", 0, more=True)
        while part.more:
            place = (part.channel, part.after)
            part = await self._find_published(hub, user_id, *place, SEARCH_SLICE)
            found.update(part.found)
        found[LOG] += await self._count_correspondence(hub, user_id)
        return {channel: count for channel, count in sorted(found.items()) if count}

    # -- erasure ------------------------------------------------------------------------------

    count_named = _read(Reads.count_named)
    _find_retained = _read_page(Reads.find_retained)

    async def find_retained(self, hub: str, user_id: str) -> list[str]:
        found: list[str] = []
        after: str | None = ""
        while after is not None:
            part = await self._find_retained(hub, user_id, after, _RETAINED_SLICE)
            found += part.channels
            after = part.next
        return found

    async def anonymise_changes(self, hub: str, user_id: str) -> int:
        return await self._in_slices(hub, Writes.anonymise_changes, hub, user_id)

    async def rename_producers(self, hub: str, principal: str, alias: str) -> int:
        return await self._in_slices(hub, Writes.rename_producers, hub, principal, alias)

    async def _in_slices(
        self, hub: str, write: Callable[..., Coroutine[Any, Any, int]], *arguments: str
    ) -> int:
        """Changes rows in slices, so that no other write waits. Returns how many."""
        count = _INDEX_SLICE
        changed = 0
        while count == _INDEX_SLICE:
            count = await self._writes.call(hub, write, *arguments, _INDEX_SLICE)
            changed += count
        return changed

    # -- threads ------------------------------------------------------------------------------

    threads_indexed = _read(Reads.threads_indexed)
    read_threads = _read_page(Reads.read_threads, _of_record)
    read_conversation = _read_page(Reads.read_conversation)
    read_conversation_before = _read_page(Reads.read_conversation_before)

    async def index_threads(self, hub: str, channel: str, partition: int, term: int) -> None:
        """Indexes in slices, so that no write waits for a long history."""
        which = (hub, channel, partition, term)
        while await self._writes.call(hub, Writes.index_threads, *which, _INDEX_SLICE):
            pass

    # -- search -------------------------------------------------------------------------------

    read_indexed_channels = _read(Reads.read_indexed_channels)
    find_texts = _read_page(Reads.find_texts)
    first_serials_at = _read(Reads.first_serials_at)
    read_messages = _read_page(Reads.read_messages)
    _index_texts = _write(Writes.index_texts, bounded=True)

    async def index_texts(self, hub: str, channel: str, partition: int, term: int) -> None:
        while await self._index_texts(hub, channel, partition, term, _TEXTS_SLICE):
            pass

    async def drop_texts(self, hub: str, channel: str, partition: int, term: int) -> None:
        which = (hub, channel, partition, term)
        while await self._writes.call(hub, Writes.drop_texts, *which, _TEXTS_SLICE):
            pass

    # -- what is stored -----------------------------------------------------------------------

    stored_bytes = _read(Reads.stored_bytes)
    used_bytes = _read(Reads.used_bytes)
    read_stored_hubs = _read(Reads.read_stored_hubs, _common)
    read_channels = _read(Reads.read_channels)
    read_channels_named = _read(Reads.read_channels_named)
    first_at = _read(Reads.first_at)
    first_within = _read(Reads.first_within)

    # -- topics -------------------------------------------------------------------------------

    open_producer = _write(Writes.open_producer, bounded=True)
    read_producer = _read(Reads.read_producer)
    read_put = _read(Reads.read_put, lambda arguments: arguments[2])

    save_cursor = _write(
        Writes.save_cursor, _of_record, lambda given: len(given[0].state) + _ENVELOPE_BYTES
    )
    create_cursor = _write(Writes.save_cursor, _of_record, bounded=True)
    delete_cursor = _write(Writes.delete_cursor)
    read_cursors = _read(Reads.read_cursors)
    count_cursors = _read(Reads.count_cursors)
    read_cursor_page = _read(Reads.read_cursor_page, _common)

    # -- documents ----------------------------------------------------------------------------

    read_document = _read_page(Reads.read_document)
    read_document_changes = _read_page(Reads.read_document_changes)
    read_document_put = _read(Reads.read_document_put, _common)
    read_documents = _read_page(Reads.read_documents)

    save_snapshot = _write(Writes.save_snapshot, size=lambda given: len(given[5]) + _ENVELOPE_BYTES)

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

    add_web_topic = _write(Writes.add_web_topic, _of_record, bounded=True)
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
    create_webhook = _write(Writes.save_webhook, _of_record, bounded=True)
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

    save_retained = _write(
        Writes.save_retained,
        _of_record,
        lambda given: len(given[0].payload) + _ENVELOPE_BYTES,
        bounded=True,
    )
    measure = _read(Reads.measure)
    read_retained = _read(Reads.read_retained)
    read_retained_channels = _read(Reads.read_retained_channels)
    delete_retained = _write(Writes.delete_retained)

    # -- settings -----------------------------------------------------------------------------

    _put_settings = _write(Writes.put_settings, _common)

    async def put_settings(
        self,
        entries: Sequence[SettingsEntry],
        expected: Mapping[str, int] | None = None,
    ) -> list[SettingsEntry]:
        """Only channels' settings count toward the quota, since there may be very many."""
        hubs = {each.hub for each in entries if each.kind == CHANNEL_SETTINGS}
        if len(hubs) != 1 or not (bound := self._bound(hubs.pop())):
            return await self._put_settings(entries, expected)
        saved: list[SettingsEntry] = await self._writes.submit(
            _NO_HUB, Writes.put_settings, (entries, expected), bound=bound, audit=self._audit
        )
        return saved

    delete_settings = _write(Writes.delete_settings, _common)
    read_settings = _read(Reads.read_settings, _common)
    read_named_settings = _read(Reads.read_named_settings)

    async def delete_hub(self, hub: str) -> bool:
        found: bool = await self._writes.submit(
            _NO_HUB, Writes.delete_settings_of, (hub,), audit=self._audit
        )
        return await self._delete_in_slices(hub, Writes.delete_data_of, hub) > 0 or found

    # -- administration -----------------------------------------------------------------------

    append_audit = _write(Writes.append_audit, _common)
    read_audit = _read(Reads.read_audit, _common)

    async def delete_audit_before(self, time: int) -> int:
        return await self._delete_in_slices(_NO_HUB, Writes.delete_audit_before, time)

    save_revocation = _write(Writes.save_revocation, _common)
    read_revocations = _read(Reads.read_revocations, _common)

    # -- counters that survive ----------------------------------------------------------------

    add_metered = _write(Writes.add_metered, _common)
    read_metered = _read(Reads.read_metered)
    read_metered_hours = _read(Reads.read_metered_hours)
    read_metered_total = _read(Reads.read_metered_total)

    async def delete_metered_before(self, time: int) -> int:
        return await self._delete_in_slices(_NO_HUB, Writes.delete_metered_before, time)

    # -- sessions -----------------------------------------------------------------------------

    save_sessions = _write(Writes.save_sessions, _common)
    hold_sessions = _write(Writes.hold_sessions, _common)
    read_session = _read(Reads.read_session, _common)
    delete_sessions_named = _write(Writes.delete_sessions_named)
    count_sessions = _read(Reads.count_sessions)
    delete_sessions = _write(Writes.delete_sessions, _common)

    # -- push ---------------------------------------------------------------------------------

    save_push_token = _write(Writes.save_push_token, _of_record, bounded=True)
    read_push_tokens = _read(Reads.read_push_tokens)
    delete_push_token = _write(Writes.delete_push_token)
    note_push_results = _write(Writes.note_push_results)
    save_following = _write(Writes.save_following, _of_record, bounded=True)
    read_followings = _read(Reads.read_followings)
    read_followings_of = _read(Reads.read_followings_of)
    list_followings = _read(Reads.list_followings)
    delete_following = _write(Writes.delete_following)
    delete_followings_of = _write(Writes.delete_followings_of)
    put_push_credential = _write(Writes.put_push_credential, _of_record, bounded=True)
    add_first_credential = _write(Writes.add_first_credential, _of_record, bounded=True)
    read_push_credentials = _read(Reads.read_push_credentials)
    delete_push_credential = _write(Writes.delete_push_credential)

    # -- commands -----------------------------------------------------------------------------

    save_channel_record = _write(Writes.save_channel_record, bounded=True)
    take_user_off_record = _write(Writes.take_user_off_record)
    read_channel_record = _read(Reads.read_channel_record)
    read_channel_records = _read_page(Reads.read_channel_records)
    list_channel_records = _read_page(Reads.list_channel_records, _common)
    add_user_subscription = _write(Writes.add_user_subscription, bounded=True)
    delete_user_subscription = _write(Writes.delete_user_subscription)
    read_user_subscriptions = _read(Reads.read_user_subscriptions)
    read_subscribed_users = _read(Reads.read_subscribed_users)
    delete_user_subscriptions_of = _write(Writes.delete_user_subscriptions_of)

    # -- communication ------------------------------------------------------------------------

    save_step = _write(Writes.save_step, size=_step_bytes)
    read_logged = _read_page(Reads.read_logged)
    read_open = _read_page(Reads.read_open)
    read_deliveries = _read_page(Reads.read_deliveries)
    read_deliveries_of = _read(Reads.read_deliveries_of)
    read_busy_hubs = _read(Reads.read_busy_hubs, _common)
    query_log = _read_page(Reads.query_log, _of_record)
    save_peers = _write(Writes.save_peers, bounded=True)
    read_peers = _read_page(Reads.read_peers)
    list_peers = _read_page(Reads.list_peers)
    delete_peer = _write(Writes.delete_peer)
    save_collective = _write(Writes.save_collective, bounded=True)
    read_collective = _read_page(Reads.read_collective)
    list_collectives = _read(Reads.list_collectives)
    delete_collective = _write(Writes.delete_collective)
    add_member = _write(Writes.add_member, bounded=True)
    delete_member = _write(Writes.delete_member)
    save_peer_token = _write(Writes.save_peer_token, _of_record)
    read_peer_token = _read(Reads.read_peer_token)

    # -- restoring ----------------------------------------------------------------------------

    async def begin_restore(self, restore: str) -> None:
        await self._writes.call(_NO_HUB, Writes.mark_restore, restore)

    async def stage_rows(
        self, restore: str, table: str, rows: Sequence[Sequence[Value]]
    ) -> list[int]:
        """Uses a separate lane, so that no hub's operations wait for it."""
        lane = staged(restore)
        named = [list(row) for row in rows]
        place = hub_tables()[table].place("hub")
        if place is not None:
            for row in named:
                row[place] = lane
        texts = (value for row in named for value in row if isinstance(value, str | bytes))
        size = sum(map(len, texts)) + _ENVELOPE_BYTES * len(named)
        ids: list[int] = await self._writes.submit(
            lane, Writes.stage_rows, (lane, table, named), len(named), size
        )
        return ids

    def hold_writes(self, hub: str, error: HubbubError) -> None:
        self._writes.hold(hub, error)

    def release_writes(self, hub: str) -> None:
        self._writes.release(hub)

    async def settle_writes(self, hub: str) -> None:
        await self._reads.call(hub, Reads.count_rows, hub, "hub_usage")
        await self._writes.submit(hub, Writes.pass_lane, (), held=False)

    switch_hub = _write(Writes.switch_hub, _common)

    async def give_up_restore(self, restore: str) -> bool:
        return await self._writes.call(_NO_HUB, Writes.unmark_restore, restore)

    async def discard_restore(self, restore: str) -> None:
        await self.give_up_restore(restore)
        for name in (staged(restore), replaced(restore)):
            await self._delete_in_slices(name, Writes.discard_rows, name, _RECLAIM_SLICE)

    read_restores = _read(Reads.read_restores, _common)

    async def count_hub_rows(self, hub: str) -> dict[str, int]:
        return {
            name: await self._reads.call(hub, Reads.count_rows, hub, name)
            for name in counted_tables()
        }

    # -- upkeep -------------------------------------------------------------------------------

    async def delete_expired(self, now: int) -> int:
        return await self._delete_in_slices(_NO_HUB, Writes.delete_expired, now)

    async def _delete_in_slices(
        self, lane: str, method: _Deletion[T], which: T, limit: int = _DELETE_SLICE
    ) -> int:
        """Deletes in slices, so that no write waits. Returns how many rows were deleted."""
        total: int = 0
        while True:
            deleted, limit = await self._delete_slice(lane, method, (which,), limit)
            total += deleted
            if deleted < limit:
                return total

    async def _delete_slice(
        self, lane: str, method: Callable[..., Any], which: Sequence[Any], limit: int
    ) -> tuple[Any, int]:
        """Returns the result, and the limit of the next slice. On a full disk a slice may be too
        large for the reserve, since SQLite overwrites deleted data with zeros."""
        while True:
            try:
                return await self._writes.submit(lane, method, (*which, limit)), limit
            except StoreUnavailable as error:
                if error.message != STORE_FULL or limit == 1:
                    raise
                limit = max(1, limit // 8)
