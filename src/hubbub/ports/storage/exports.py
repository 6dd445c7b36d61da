"""How far the journal has got with the stored messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from hubbub.ports.storage.messages import MessageHistory


class Exported(msgspec.Struct, frozen=True):
    """The channel's messages up to `serial` are in the journal."""

    hub: str
    channel: str
    epoch: str
    serial: int


class ExportStore(MessageHistory, Protocol):
    """Positions of the journal in each channel."""

    async def save_exported(self, exported: Sequence[Exported]) -> None:
        """Messages up to there are in the journal and synced. A position never moves back; one of
        another epoch, or of a channel that is gone, is passed over."""

    async def read_exported(self, hub: str, channel: str) -> int:
        """The serial up to which the channel's messages are in the journal, 0 if none is. While a
        hub keeps a journal, retention must not delete any behind it."""

    async def read_unexported(
        self, after: tuple[str, str] | None, limit: int
    ) -> list[tuple[str, str]]:
        """Hub and name of channels with messages that are not in the journal yet, in order, from
        the first or from behind `after`."""
