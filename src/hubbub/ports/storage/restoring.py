"""Replacing the rows of one hub by those of a backup, while the store is in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from hubbub.domain.errors import HubbubError
from hubbub.ports.storage.administration import AuditEntry

Value = int | str | bytes | None
"""Of a column."""


class RestoreStore(Protocol):
    """What is staged takes no part in anything before `switch_hub`; after a crash it is still
    there, until `discard_restore`."""

    async def begin_restore(self, restore: str) -> None:
        """Let rows be staged under this name, which no other restore has."""

    async def stage_rows(
        self, restore: str, table: str, rows: Sequence[Sequence[Value]]
    ) -> list[int]:
        """Load rows that are about to become a hub's, in the columns of the table. Answers the ids
        that they got, in order, where the table counts them."""

    def hold_writes(self, hub: str, error: HubbubError) -> None:
        """From now on writes of the hub raise the error, except those of a restore."""

    def release_writes(self, hub: str) -> None: ...

    async def settle_writes(self, hub: str) -> None:
        """Wait until all that was written to the hub before `hold_writes`, and all that was asked
        of it, is done."""

    async def switch_hub(self, restore: str, hub: str, audit: AuditEntry | None = None) -> None:
        """Replace all rows of the hub by those that are staged, in one transaction. Its restorable
        sessions go. Raises `Conflict` where the restore was given up."""

    async def give_up_restore(self, restore: str) -> bool:
        """From now on `switch_hub` is refused. False: it has happened, or was refused before."""

    async def discard_restore(self, restore: str) -> None:
        """Give up, and delete what is staged and what was replaced, in slices."""

    async def read_restores(self) -> list[str]:
        """The restores with rows that are staged or were replaced."""

    async def count_hub_rows(self, hub: str) -> Mapping[str, int]:
        """Rows of a hub by table, of the tables that say something to people."""
