"""Archives of backups, as a restore of one hub reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from hubbub.ports.storage.administration import Revocation
from hubbub.ports.storage.restoring import Value


class RestoredRows(msgspec.Struct, frozen=True):
    """Some rows of a table, as `RestoreStore.stage_rows` takes them. `ids` are those that they had
    in the archive, where the table counts them."""

    table: str
    rows: Sequence[Sequence[Value]]
    ids: Sequence[int] = ()


class HubArchive(Protocol):
    """One hub of an archive that was unpacked and checked. Methods are not called side by side."""

    created: str
    """When the backup was made, as ISO 8601 says it."""
    version: str
    """The Hubbub that made it."""
    with_secrets: bool
    """False: webhooks that sign are not in it, and routes and auth providers have no headers."""

    async def count(self) -> Mapping[str, int]:
        """Rows of the hub by table."""

    async def next_rows(self) -> RestoredRows | None:
        """The next rows, a bounded number of bounded size; None: these were all. Ids of rows that
        came before must be given to `map_ids` first."""

    async def map_ids(self, table: str, old: Sequence[int], new: Sequence[int]) -> None:
        """Rows of other tables refer to the new ids from now on."""

    async def revocations(self) -> Sequence[Revocation]:
        """Tokens that were revoked when the backup was made; none where the hub gets another
        name."""

    async def close(self) -> None:
        """Nothing of the unpacked archive is left."""


class Archives(Protocol):
    async def open(self, path: str, source: str, target: str) -> HubArchive:
        """Unpack an archive that lies on this node's disk, check all of it, and find the hub
        `source` in it, to be restored to the hub `target`. Raises `ArchiveRefused`."""

    async def clear(self) -> None:
        """Remove what a restore that was killed has left."""
