"""Replaces the rows of one hub by those of a backup, while the store is in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from hubbub.domain.errors import HubbubError
from hubbub.ports.storage.audited import Audited

Value = int | str | bytes | None
"""The value of a column."""


class RestoreStore(Audited, Protocol):
    """Staged rows have no effect before `switch_hub`; after a crash they remain until
    `discard_restore`."""

    async def begin_restore(self, restore: str) -> None:
        """Creates a restore under this unique name."""

    async def stage_rows(
        self, restore: str, table: str, rows: Sequence[Sequence[Value]]
    ) -> list[int]:
        """Stages rows with the columns of the table. Returns their new ids, in order, for tables
        with generated ids."""

    def hold_writes(self, hub: str, error: HubbubError) -> None:
        """Makes writes of the hub raise the error, except those of a restore."""

    def release_writes(self, hub: str) -> None: ...

    async def settle_writes(self, hub: str) -> None:
        """Waits until all writes and reads of the hub that began before `hold_writes` have
        ended."""

    async def switch_hub(self, restore: str, hub: str) -> None:
        """Replaces all rows of the hub by the staged rows in one transaction, and deletes its
        restorable sessions. Raises `Conflict` if the restore was given up."""

    async def give_up_restore(self, restore: str) -> bool:
        """Makes `switch_hub` fail from now on. Returns False if the switch has happened, or the
        restore was given up before."""

    async def discard_restore(self, restore: str) -> None:
        """Gives up, and deletes the staged and the replaced rows, in slices."""

    async def read_restores(self) -> list[str]:
        """The restores with staged or replaced rows."""

    async def count_hub_rows(self, hub: str) -> Mapping[str, int]:
        """Counts of a hub's rows by table, for tables that are meaningful to people."""
