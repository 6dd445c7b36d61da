"""The embedded store: one SQLite file, written by one process and read by another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from hubbub.domain.errors import StoreUnavailable
from hubbub.domain.messages import Message
from hubbub.ports.store import (
    Append,
    AuditEntry,
    AuditQuery,
    ChannelHead,
    PushToken,
    Retained,
    Revocation,
    SessionSnapshot,
    SettingsEntry,
    StoredPage,
)
from hubbub.storage.reads import Reads
from hubbub.storage.worker_link import WorkerLink
from hubbub.storage.worker_protocol import WorkerOptions
from hubbub.storage.worker_queue import Limits
from hubbub.storage.writes import Writes

_log = logging.getLogger(__name__)
_ENVELOPE_BYTES = 300
_APPEND_SLICE = 1000
_DELETE_SLICE = 2000
_NO_HUB = ""


class SqliteStore:
    """Implements `hubbub.ports.store.Store` on the database file `path`, which belongs to one
    hub process at a time.

    `max_bytes` bounds the file. `page_bytes` bounds the payload in one page of history.
    `lock_patience_seconds` is how long `open` waits for another process to let go of the file,
    `check_seconds` how long it looks for damage.
    """

    def __init__(
        self,
        path: Path,
        *,
        limits: Limits = Limits(),  # noqa: B008 - immutable
        max_bytes: int | None = None,
        page_bytes: int = 8 * 1024 * 1024,
        lock_patience_seconds: float = 5.0,
        check_seconds: float = 5.0,
    ) -> None:
        options = WorkerOptions(
            role="writer",
            path=str(path.absolute()),
            lock_patience_seconds=lock_patience_seconds,
            page_bytes=page_bytes,
            max_bytes=max_bytes,
            check_seconds=check_seconds,
        )
        self._writer = WorkerLink(options, limits, merged=Writes.append)
        self._reader = WorkerLink(msgspec.structs.replace(options, role="reader"), limits)

    async def open(self) -> None:
        """Both processes load their code at the same time; the writer opens the file first."""
        try:
            await self._writer.start()
            await self._reader.start()
            for note in await self._writer.open():
                _log.warning(note)
            await self._reader.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The processes that work for this store right now: writer, reader. For telemetry."""
        return tuple(link.pid for link in (self._writer, self._reader) if link.pid is not None)

    # -- ownership ----------------------------------------------------------------------------

    async def acquire_partitions(self, partitions: Sequence[int], owner: str) -> dict[int, int]:
        return await self._writer.call(_NO_HUB, Writes.acquire_partitions, list(partitions), owner)

    # -- messages -----------------------------------------------------------------------------

    async def read_head(self, hub: str, channel: str) -> ChannelHead | None:
        return await self._reader.call(hub, Reads.read_head, hub, channel)

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
        return self._writer.submit(hub, Writes.append, appends, len(appends), size)

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
        return await self._reader.call(hub, Reads.read_after, hub, channel, serial, limit)

    async def read_before(
        self, hub: str, channel: str, serial: int | None, limit: int
    ) -> StoredPage:
        return await self._reader.call(hub, Reads.read_before, hub, channel, serial, limit)

    async def read_after_time(self, hub: str, channel: str, time: int, limit: int) -> StoredPage:
        return await self._reader.call(hub, Reads.read_after_time, hub, channel, time, limit)

    async def read_before_time(self, hub: str, channel: str, time: int, limit: int) -> StoredPage:
        return await self._reader.call(hub, Reads.read_before_time, hub, channel, time, limit)

    async def delete_before(self, hub: str, channel: str, serial: int) -> int:
        """In slices, so that nobody's write waits for a long deletion."""
        total = 0
        while True:
            deleted = await self._writer.call(
                hub, Writes.delete_before, hub, channel, serial, _DELETE_SLICE
            )
            total += deleted
            if deleted < _DELETE_SLICE:
                return total

    async def stored_bytes(self, hub: str) -> int:
        return await self._reader.call(hub, Reads.stored_bytes, hub)

    # -- retained -----------------------------------------------------------------------------

    async def save_retained(
        self, message: Message, expires_at: int, partition: int, term: int
    ) -> None:
        size = len(message.payload) + _ENVELOPE_BYTES
        arguments = (message, expires_at, partition, term)
        await self._writer.submit(message.hub, Writes.save_retained, arguments, 1, size)

    async def read_retained(self, hub: str, channel: str, now: int) -> Retained | None:
        return await self._reader.call(hub, Reads.read_retained, hub, channel, now)

    async def delete_retained(self, hub: str, channel: str, partition: int, term: int) -> None:
        await self._writer.call(hub, Writes.delete_retained, hub, channel, partition, term)

    # -- settings -----------------------------------------------------------------------------

    async def put_settings(
        self,
        entries: Sequence[SettingsEntry],
        expected: Mapping[str, int] | None = None,
        audit: AuditEntry | None = None,
    ) -> list[SettingsEntry]:
        versions = None if expected is None else dict(expected)
        return await self._writer.call(_NO_HUB, Writes.put_settings, list(entries), versions, audit)

    async def delete_settings(
        self,
        kind: str,
        hub: str,
        name: str,
        expected: int | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        return await self._writer.call(
            _NO_HUB, Writes.delete_settings, kind, hub, name, expected, audit
        )

    async def read_settings(self, hub: str | None = None) -> list[SettingsEntry]:
        return await self._reader.call(_NO_HUB, Reads.read_settings, hub)

    async def delete_hub(self, hub: str, audit: AuditEntry | None = None) -> bool:
        found = await self._writer.call(_NO_HUB, Writes.delete_settings_of, hub, audit)
        while True:
            deleted = await self._writer.call(hub, Writes.delete_data_of, hub, _DELETE_SLICE)
            found = found or deleted > 0
            if deleted < _DELETE_SLICE:
                return found

    # -- administration -----------------------------------------------------------------------

    async def append_audit(self, entry: AuditEntry) -> None:
        await self._writer.call(_NO_HUB, Writes.append_audit, entry)

    async def read_audit(self, query: AuditQuery) -> list[AuditEntry]:
        return await self._reader.call(_NO_HUB, Reads.read_audit, query)

    async def delete_audit_before(self, time: int) -> int:
        total = 0
        while True:
            deleted = await self._writer.call(
                _NO_HUB, Writes.delete_audit_before, time, _DELETE_SLICE
            )
            total += deleted
            if deleted < _DELETE_SLICE:
                return total

    async def save_revocation(
        self, revocation: Revocation, audit: AuditEntry | None = None
    ) -> None:
        await self._writer.call(_NO_HUB, Writes.save_revocation, revocation, audit)

    async def read_revocations(self, hub: str | None, now: int) -> list[Revocation]:
        return await self._reader.call(_NO_HUB, Reads.read_revocations, hub, now)

    # -- sessions -----------------------------------------------------------------------------

    async def save_sessions(self, snapshots: Sequence[SessionSnapshot]) -> None:
        await self._writer.call(_NO_HUB, Writes.save_sessions, list(snapshots))

    async def read_session(self, key_hash: bytes, now: int) -> SessionSnapshot | None:
        return await self._reader.call(_NO_HUB, Reads.read_session, key_hash, now)

    async def delete_sessions(self, key_hashes: Sequence[bytes]) -> None:
        await self._writer.call(_NO_HUB, Writes.delete_sessions, list(key_hashes))

    # -- push tokens --------------------------------------------------------------------------

    async def save_push_token(self, token: PushToken) -> None:
        await self._writer.call(token.hub, Writes.save_push_token, token)

    async def read_push_tokens(self, hub: str, user_id: str) -> list[PushToken]:
        return await self._reader.call(hub, Reads.read_push_tokens, hub, user_id)

    async def delete_push_token(self, hub: str, platform: str, token: str) -> bool:
        return await self._writer.call(hub, Writes.delete_push_token, hub, platform, token)

    # -- upkeep -------------------------------------------------------------------------------

    async def delete_expired(self, now: int) -> int:
        total = 0
        while True:
            deleted = await self._writer.call(_NO_HUB, Writes.delete_expired, now, _DELETE_SLICE)
            total += deleted
            if deleted < _DELETE_SLICE:
                return total
