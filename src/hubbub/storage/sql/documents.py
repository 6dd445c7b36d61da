"""SQL for documents."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.domain.audit import AuditEntry
from hubbub.domain.errors import Conflict
from hubbub.domain.history import PageRoom
from hubbub.ports.storage.documents import (
    ChangeAppend,
    ChangesPage,
    DocumentHead,
    DocumentPut,
    ListedDocument,
    SnapshotSaved,
    StoredChange,
    StoredDocument,
)
from hubbub.ports.storage.messages import Append
from hubbub.storage.sql.audit import append_audit
from hubbub.storage.sql.connection import ManyRows, Row, Sql, insert, rows_of, single_statement
from hubbub.storage.sql.usage import check_term, count_bytes

_KEY = {"hub": "text", "channel": "text"}
_HEAD = "epoch, version, updated_at, size, first_version, stored_bytes"
_CHANGE = "version, changed_at, author, change_id, ops"
# Column and table names only; every value is a parameter.
_READ_DOCUMENTS = ManyRows(
    table="documents",
    single="SELECT hub, channel, id, epoch, version, stored_bytes FROM documents"
    " WHERE hub = $1 AND channel = $2",
    arrays="SELECT hub, channel, id, epoch, version, stored_bytes FROM documents"  # noqa: S608
    f" JOIN {rows_of(_KEY)} USING (hub, channel)",
)
_CREATE_DOCUMENTS = insert(
    "documents",
    {
        **_KEY,
        "epoch": "text",
        "version": "bigint",
        "updated_at": "bigint",
        "size": "bigint",
        "first_version": "bigint",
        "stored_bytes": "bigint",
    },
    "RETURNING hub, channel, id",
)
_MOVED = {
    "id": "bigint",
    "version": "bigint",
    "updated_at": "bigint",
    "size": "bigint",
    "added": "bigint",
}
_MOVE_DOCUMENTS = ManyRows(
    table="documents",
    single="UPDATE documents SET version = $2, updated_at = $3, size = $4,"
    " stored_bytes = stored_bytes + $5 WHERE id = $1",
    arrays="UPDATE documents SET version = item.version, updated_at = item.updated_at,"  # noqa: S608
    f" size = item.size, stored_bytes = stored_bytes + item.added FROM {rows_of(_MOVED)}"
    " WHERE documents.id = item.id",
)
_INSERT_CHANGES = insert(
    "document_changes",
    {
        "document_id": "bigint",
        "version": "bigint",
        "changed_at": "bigint",
        "author": "text",
        "change_id": "text",
        "ops": "bytea",
    },
)
_INSERT_PUTS = insert(
    "document_puts",
    {
        "producer_id": "bigint",
        "sequence": "bigint",
        "epoch": "text",
        "version": "bigint",
        "changed_at": "bigint",
        "digest": "bytea",
    },
)
_AFTER = (
    f"SELECT {_CHANGE}, length(ops) + 200 AS size FROM document_changes"  # noqa: S608
    " WHERE document_id = $1 AND version > $2 ORDER BY version LIMIT $3"
)
_BEFORE = (
    f"SELECT {_CHANGE}, length(ops) + 200 AS size FROM document_changes"  # noqa: S608
    " WHERE document_id = $1 AND version < $2 ORDER BY version DESC LIMIT $3"
)
# The newest snapshot that lies so far back that enough changes behind it are kept.
_BASE = "SELECT max(version) FROM document_snapshots WHERE document_id = $1 AND version <= $2"


class _Document:
    """A document's row as this batch leaves it. A new document has no id yet."""

    __slots__ = ("accepted", "added", "epoch", "id", "last", "stored_bytes", "version")

    def __init__(self, id_: int | None, epoch: str, version: int, stored_bytes: int = 0) -> None:
        self.id = id_
        self.epoch = epoch
        self.version = version
        self.stored_bytes = stored_bytes
        self.added = 0
        self.accepted: list[StoredChange] = []
        self.last: ChangeAppend | None = None

    def accept(self, append: ChangeAppend) -> None:
        self.version = append.change.version
        self.added += len(append.change.ops)
        self.accepted.append(append.change)
        self.last = append


class DocumentAppends:
    """The document changes in a batch of appends."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        self._documents: dict[tuple[str, str], _Document] = {}
        self._puts: list[Row] = []
        self._deleted: list[int] = []
        self._audits: list[AuditEntry] = []

    async def read(self, appends: Sequence[Append]) -> None:
        """Reads the heads of the documents."""
        for append in appends:
            if append.change is not None:
                key = (append.message.hub, append.message.channel)
                self._documents.setdefault(key, _Document(None, append.change.epoch, 0))
        if self._documents:
            rows = await self._sql.fetch_many(_READ_DOCUMENTS, list(self._documents))
            for hub, channel, *row in rows:
                self._documents[hub, channel] = _Document(*row)

    def refuse(self, append: Append, change: ChangeAppend) -> Conflict | None:
        document = self._documents[append.message.hub, append.message.channel]
        if change.deletes:
            return None
        expected = document.version + (1 if change.change.ops else 0)
        if (change.epoch, change.change.version) == (document.epoch, expected):
            return None
        if document.id is None and not document.version and not change.change.ops:
            return None  # of no effect on a document that was never written
        return Conflict(
            f"version {change.change.version} in epoch {change.epoch!r} does not continue the"
            f" document {append.message.channel!r} of hub {append.message.hub!r}, which stands at"
            f" {document.version} in epoch {document.epoch!r}"
        )

    def accept(self, append: Append, change: ChangeAppend) -> int:
        """Accepts a change; returns the bytes that it adds."""
        key = (append.message.hub, append.message.channel)
        if change.audit is not None:
            self._audits.append(change.audit)
        if change.deletes:
            gone, self._documents[key] = self._documents[key], _Document(None, change.epoch, 0)
            if gone.id is not None:
                self._deleted.append(gone.id)
            return -gone.stored_bytes - gone.added
        if append.producer:
            self._puts.append(
                (
                    append.producer,
                    append.sequence,
                    change.epoch,
                    change.change.version,
                    change.change.at,
                    change.digest,
                )
            )
        if not change.change.ops:
            return 0
        self._documents[key].accept(change)
        return len(change.change.ops)

    async def store(self) -> None:
        for entry in self._audits:
            await append_audit(self._sql, entry)
        for document in self._deleted:
            await _drop_documents(self._sql, "id = $1", document)
        changed = {key: each for key, each in self._documents.items() if each.last is not None}
        new = []
        moved = []
        for key, each in changed.items():
            assert each.last is not None
            state = (each.version, each.last.change.at, each.last.size)
            if each.id is None:
                new.append((*key, each.epoch, *state, 1, each.added))
            else:
                moved.append((each.id, *state, each.added))
        if new:
            for hub, channel, document_id in await self._sql.fetch_many(_CREATE_DOCUMENTS, new):
                changed[hub, channel].id = document_id
        rows = [
            (each.id, change.version, change.at, change.author, change.change_id, change.ops)
            for each in changed.values()
            for change in each.accepted
        ]
        if rows:
            await self._sql.execute_many(_INSERT_CHANGES, rows)
        if moved:
            await self._sql.execute_many(_MOVE_DOCUMENTS, moved)
        if self._puts:
            await self._sql.execute_many(_INSERT_PUTS, self._puts)


class DocumentWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

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
        await check_term(self._sql, partition, term)
        rows = await self._sql.fetch(
            "SELECT id, version FROM documents WHERE hub = $1 AND channel = $2 AND epoch = $3",
            hub,
            channel,
            epoch,
        )
        if not rows:
            return None
        ((document, head),) = rows
        added = len(content) * await self._sql.execute(
            "INSERT INTO document_snapshots (document_id, version, changed_at, content)"
            " VALUES ($1, $2, $3, $4) ON CONFLICT (document_id, version) DO NOTHING",
            document,
            version,
            at,
            content,
        )
        if keep_changes:
            ((base,),) = await self._sql.fetch(_BASE, document, head - keep_changes)
            if base is not None:
                added -= await self._drop_before(document, base)
        ((first,),) = await self._sql.fetch(
            "UPDATE documents SET stored_bytes = stored_bytes + $2 WHERE id = $1"
            " RETURNING first_version",
            document,
            added,
        )
        await count_bytes(self._sql, {hub: added})
        return SnapshotSaved(first, added)

    async def _drop_before(self, document: int, base: int) -> int:
        """Deletes everything that the snapshot at this version covers; returns the freed bytes."""
        ((freed,),) = await self._sql.fetch(
            "SELECT coalesce((SELECT sum(length(ops)) FROM document_changes"
            " WHERE document_id = $1 AND version <= $2), 0)"
            " + coalesce((SELECT sum(length(content)) FROM document_snapshots"
            " WHERE document_id = $1 AND version < $2), 0)",
            document,
            base,
        )
        for which in (
            "document_changes WHERE document_id = $1 AND version <= $2",
            "document_snapshots WHERE document_id = $1 AND version < $2",
        ):
            await self._sql.execute(f"DELETE FROM {which}", document, base)  # noqa: S608
        await self._sql.execute(
            "UPDATE documents SET first_version = $2 WHERE id = $1", document, base + 1
        )
        return int(freed)


async def _drop_documents(sql: Sql, which: str, value: object) -> None:
    for table in ("document_changes", "document_snapshots"):
        await sql.execute(
            f"DELETE FROM {table} WHERE document_id IN"  # noqa: S608
            f" (SELECT id FROM documents WHERE {which})",
            value,
        )
    await sql.execute(f"DELETE FROM documents WHERE {which}", value)  # noqa: S608


async def delete_documents_of(sql: Sql, hub: str) -> None:
    """Deletes the documents of a deleted hub, before its producers."""
    await _drop_documents(sql, "hub = $1", hub)
    await sql.execute(
        "DELETE FROM document_puts WHERE producer_id IN (SELECT id FROM producers WHERE hub = $1)",
        hub,
    )


class DocumentReads:
    """Part of `Reads`."""

    _sql: Sql
    _page_bytes: int

    async def _document(self, hub: str, channel: str) -> tuple[int, DocumentHead | None]:
        rows = await self._sql.fetch(
            f"SELECT id, {_HEAD} FROM documents WHERE hub = $1 AND channel = $2",  # noqa: S608
            hub,
            channel,
        )
        return (rows[0][0], DocumentHead(*rows[0][1:])) if rows else (0, None)

    async def read_document(
        self,
        hub: str,
        channel: str,
        at: int | None = None,
        at_time: int | None = None,
        before: int | None = None,
    ) -> StoredDocument | None:
        document, head = await self._document(hub, channel)
        if head is None:
            return None
        if at_time is not None:
            at = await self._version_at(document, head, at_time)
        version = head.version if at is None else at
        snapshots = await self._sql.fetch(
            "SELECT version, changed_at, content FROM document_snapshots WHERE document_id = $1"
            " AND version <= $2 ORDER BY version DESC LIMIT 1",
            document,
            version if before is None else min(version, before - 1),
        )
        base, taken_at, content = snapshots[0] if snapshots else (head.first - 1, 0, b"")
        changes = await self._sql.fetch(
            f"SELECT {_CHANGE} FROM document_changes WHERE document_id = $1"  # noqa: S608
            " AND version > $2 AND version <= $3 ORDER BY version",
            document,
            base,
            version,
        )
        found = tuple(StoredChange(*row) for row in changes)
        return StoredDocument(head, version, content, base, taken_at, found)

    async def _version_at(self, document: int, head: DocumentHead, time: int) -> int:
        """The version at this time; -1 if it is no longer stored."""
        if time >= head.updated_at:
            return head.version
        ((found,),) = await self._sql.fetch(
            "SELECT max(version) FROM ("
            " SELECT version FROM document_changes WHERE document_id = $1 AND changed_at <= $2"
            " UNION ALL"
            " SELECT version FROM document_snapshots WHERE document_id = $1 AND changed_at <= $2"
            ") AS known",
            document,
            time,
        )
        if found is None:
            return 0 if head.first == 1 else -1
        return int(found)

    async def read_document_changes(
        self, hub: str, channel: str, after: int, before: int | None, limit: int
    ) -> ChangesPage:
        document, head = await self._document(hub, channel)
        statement, start = (_AFTER, after) if before is None else (_BEFORE, before)
        rows = await self._sql.fetch_sized(statement, self._page_bytes, document, start, limit + 1)
        room = PageRoom(limit, self._page_bytes)
        found: list[StoredChange] = []
        for row in rows:
            if row[0] <= after or not room.take(row[-1]):
                break
            found.append(StoredChange(*row[:-1]))
        more = len(found) < len(rows) and rows[len(found)][0] > after
        ((behind,),) = await self._sql.fetch(
            "SELECT coalesce(sum(length(ops)), 0) FROM document_changes"
            " WHERE document_id = $1 AND version > $2",
            document,
            after,
        )
        found.sort(key=lambda change: change.version)
        return ChangesPage(head, tuple(found), more, int(behind))

    @single_statement
    async def read_document_put(self, producer: int, sequence: int) -> DocumentPut | None:
        rows = await self._sql.fetch(
            "SELECT epoch, version, changed_at, digest FROM document_puts"
            " WHERE producer_id = $1 AND sequence = $2",
            producer,
            sequence,
        )
        return DocumentPut(*rows[0]) if rows else None

    @single_statement
    async def read_documents(
        self, hub: str, after: str, limit: int, prefix: str = ""
    ) -> list[ListedDocument]:
        rows = await self._sql.fetch(
            f"SELECT channel, {_HEAD} FROM documents"  # noqa: S608
            " WHERE hub = $1 AND channel > $2 AND substr(channel, 1, $4) = $5"
            " ORDER BY channel LIMIT $3",
            hub,
            after,
            limit,
            len(prefix),
            prefix,
        )
        return [ListedDocument(row[0], DocumentHead(*row[1:])) for row in rows]
