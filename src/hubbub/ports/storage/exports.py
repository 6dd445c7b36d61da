"""The journal's export positions in the stored messages."""

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
    """The journal's position in each channel."""

    async def save_exported(self, exported: Sequence[Exported]) -> None:
        """Records that messages up to these positions are in the journal and synced. A position
        never moves back; one with another epoch, or of a deleted channel, is ignored."""

    async def read_exported(self, hub: str, channel: str) -> int:
        """The serial up to which the channel's messages are in the journal, 0 if none. While a hub
        keeps a journal, retention must not delete messages after it."""

    async def read_unexported(
        self, after: tuple[str, str] | None, limit: int
    ) -> list[tuple[str, str]]:
        """Hub and name of channels with messages that are not yet in the journal, in order, from
        the first or after `after`."""
