"""Documents of channels: changes, which are appended with the channel's messages (`Append.change`),
and snapshots, from which documents are loaded."""

from __future__ import annotations

from typing import Protocol

import msgspec

from hubbub.domain.audit import AuditEntry
from hubbub.ports.storage.audited import Audited


class StoredChange(msgspec.Struct, frozen=True):
    """The change that led to this version. `at` is in milliseconds since 1970 and never decreases;
    `ops` is a JSON list of operations."""

    version: int
    at: int
    author: str | None
    change_id: str
    ops: bytes


class ChangeAppend(msgspec.Struct, frozen=True):
    """A change to store. Its version continues the document's, in its epoch; a document without a
    row gets a new epoch and version 1. A change without effect (empty `ops`) has the current
    version and is stored only as a producer's put.

    `size` is the document's size afterwards; `digest` distinguishes puts with the same sequence
    number. With `deletes`, the document is deleted with all changes and snapshots; `epoch` is then
    the next document's epoch, and producers' puts stay known.
    """

    epoch: str
    change: StoredChange
    size: int
    digest: bytes = b""
    deletes: bool = False
    audit: AuditEntry | None = None


class DocumentHead(msgspec.Struct, frozen=True):
    """The position of a stored document. Changes from `first` to `version` are stored."""

    epoch: str
    version: int
    updated_at: int
    size: int
    first: int
    stored_bytes: int


class StoredDocument(msgspec.Struct, frozen=True):
    """The newest snapshot up to a version (b"" if there is none: the document began as `{}`), and
    the changes from there to that version. If the version is no longer stored, the result's version
    is lower than the snapshot's; -1 if its number is unknown as well."""

    head: DocumentHead
    version: int
    snapshot: bytes
    snapshot_version: int
    snapshot_at: int
    changes: tuple[StoredChange, ...]


class ChangesPage(msgspec.Struct, frozen=True):
    """Changes in ascending order. A page is also bounded in bytes, but never empty while there are
    `more`. `bytes_behind` is the total size of the stored operations in the direction of the
    query."""

    head: DocumentHead | None
    changes: tuple[StoredChange, ...] = ()
    more: bool = False
    bytes_behind: int = 0


class ListedDocument(msgspec.Struct, frozen=True):
    channel: str
    head: DocumentHead


class DocumentPut(msgspec.Struct, frozen=True):
    """The outcome of a producer's change."""

    epoch: str
    version: int
    at: int
    digest: bytes


class SnapshotSaved(msgspec.Struct, frozen=True):
    """The oldest stored change, and the growth of the store in bytes."""

    first: int
    added_bytes: int


class DocumentStore(Audited, Protocol):
    async def read_document(
        self,
        hub: str,
        channel: str,
        at: int | None = None,
        at_time: int | None = None,
        before: int | None = None,
    ) -> StoredDocument | None:
        """Returns the document now, at a version, or at a time (ms); with `before`, from the newest
        snapshot before that version. None: never written, or deleted."""

    async def read_document_changes(
        self, hub: str, channel: str, after: int, before: int | None, limit: int
    ) -> ChangesPage:
        """The oldest changes after `after`; with `before`, the newest before that version."""

    async def read_document_put(self, producer: int, sequence: int) -> DocumentPut | None: ...

    async def read_documents(
        self, hub: str, after: str, limit: int, prefix: str = ""
    ) -> list[ListedDocument]:
        """Documents by channel name, after `after`, whose names begin with `prefix`."""

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
        """Stores a snapshot, and deletes the changes that it or an earlier snapshot covers, except
        the last `keep_changes` (0: keep all). Returns None if the document has another epoch now.
        Raises `StaleOwner`."""
