"""Documents of channels: their changes, which are appended with the channel's messages
(`Append.change`), and snapshots, from which they are loaded."""

from __future__ import annotations

from typing import Protocol

import msgspec


class DocumentChange(msgspec.Struct, frozen=True):
    """What raised a document to this version. `at` is in milliseconds since 1970 and never falls
    from one version to the next; `ops` is a JSON list of operations."""

    version: int
    at: int
    author: str | None
    change_id: str
    ops: bytes


class ChangeAppend(msgspec.Struct, frozen=True):
    """A change to store. Its version continues the document's, in its epoch; for a document that
    has no row yet the epoch is new and the version is 1. A change of no effect (`ops` empty) has
    the document's present version, and is stored as a producer's put alone.

    `size` is that of the document afterwards; `digest` tells the put of a producer from another
    one under the same sequence. With `deletes`, the document goes with all changes and snapshots;
    `epoch` is that of the next one, and what producers changed stays known."""

    epoch: str
    change: DocumentChange
    size: int
    digest: bytes = b""
    deletes: bool = False


class DocumentHead(msgspec.Struct, frozen=True):
    """Where a stored document stands. Changes from `first` to `version` are there."""

    epoch: str
    version: int
    updated_at: int
    size: int
    first: int
    stored_bytes: int


class StoredDocument(msgspec.Struct, frozen=True):
    """The newest snapshot up to a version (b"" where there is none: it begins as `{}`), and the
    changes from there to that version. A version that is not known any more is below that of the
    snapshot; -1 where its number is not known either."""

    head: DocumentHead
    version: int
    snapshot: bytes
    snapshot_version: int
    snapshot_at: int
    changes: tuple[DocumentChange, ...]


class ChangesPage(msgspec.Struct, frozen=True):
    """Changes in rising order. A page is bounded in bytes too, but never empty while there are
    `more`. `bytes_behind` is the size of all operations in the direction of the query that were
    there."""

    head: DocumentHead | None
    changes: tuple[DocumentChange, ...] = ()
    more: bool = False
    bytes_behind: int = 0


class ListedDocument(msgspec.Struct, frozen=True):
    channel: str
    head: DocumentHead


class DocumentPut(msgspec.Struct, frozen=True):
    """What a producer's change became."""

    epoch: str
    version: int
    at: int
    digest: bytes


class SnapshotSaved(msgspec.Struct, frozen=True):
    """The oldest change that is still there, and by how many bytes the store grew."""

    first: int
    added_bytes: int


class DocumentStore(Protocol):
    async def read_document(
        self, hub: str, channel: str, at: int | None = None, at_time: int | None = None
    ) -> StoredDocument | None:
        """As it is now, at a version, or as it was at a time (ms). None: nothing was ever written,
        or the document was deleted."""

    async def read_document_changes(
        self, hub: str, channel: str, after: int, before: int | None, limit: int
    ) -> ChangesPage:
        """The oldest changes behind `after`; with `before`, the newest before that version."""

    async def read_document_put(self, producer: int, sequence: int) -> DocumentPut | None: ...

    async def read_documents(
        self, hub: str, after: str, limit: int, prefix: str = ""
    ) -> list[ListedDocument]:
        """In the order of their channels' names, those behind `after` that begin with `prefix`."""

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
        """Keep a snapshot, and drop the changes that it or an earlier one covers, but for the last
        `keep_changes` (0: all stay). None where the document has another epoch by now. Raises
        `StaleOwner`."""
