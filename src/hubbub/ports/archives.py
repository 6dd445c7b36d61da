"""Archives of backups, as read when one hub is restored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from hubbub.ports.storage.administration import Revocation
from hubbub.ports.storage.restoring import Value


class RestoredRows(msgspec.Struct, frozen=True):
    """Rows of a table for `RestoreStore.stage_rows`. `ids` are the rows' ids in the archive, for
    tables with generated ids."""

    table: str
    rows: Sequence[Sequence[Value]]
    ids: Sequence[int] = ()


class HubArchive(Protocol):
    """One hub of an unpacked and checked archive. Methods are not called concurrently."""

    created: str
    """When the backup was made, in ISO 8601."""
    version: str
    """The version of Hubbub that made the backup."""
    with_secrets: bool
    """False: the archive omits webhooks with secrets, and routes and auth providers have no
    headers."""

    async def count(self) -> Mapping[str, int]:
        """Rows of the hub by table."""

    async def next_rows(self) -> RestoredRows | None:
        """Returns the next rows, bounded in number and size; None at the end. Ids of earlier rows
        must be passed to `map_ids` first."""

    async def map_ids(self, table: str, old: Sequence[int], new: Sequence[int]) -> None:
        """Maps references to these ids in later rows to the new ids."""

    async def revocations(self) -> Sequence[Revocation]:
        """Tokens that were revoked when the backup was made; none if the hub is restored under
        another name."""

    async def close(self) -> None:
        """Deletes the unpacked archive."""


class Archives(Protocol):
    async def open(self, path: str, source: str, target: str) -> HubArchive:
        """Unpacks an archive on this node's disk, checks all of it, and opens the hub `source` in
        it, to be restored as `target`. Raises `ArchiveRefused`."""

    async def clear(self) -> None:
        """Deletes the remains of a restore that was killed."""
