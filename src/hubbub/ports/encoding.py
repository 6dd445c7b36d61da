"""The port through which the engine encodes notices, independent of any encoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from hubbub.domain.documents.steps import Steps
from hubbub.domain.documents.text import JsonText
from hubbub.domain.messages import Message
from hubbub.domain.notices import Notice


class Encoder(Protocol):
    """One encoding, shared by all connections that use it.

    Connections with the same encoder object form a group: the bytes encoded for one of them are
    written to all. A unit is one encoded notice; any number of units of a group can be packed
    together, and only packed bytes go onto the wire.
    """

    in_order: bool
    """Whether units depend on earlier units, even of other channels, and must be written in the
    order of encoding. Such an encoder belongs to one connection."""

    @property
    def prepare(self) -> Callable[[JsonText], Steps[JsonText]] | None:
        """Makes `encode` quick with a large document, in steps; None where it is quick already."""

    def encode_message(self, message: Message, epoch: str, previous: int | None = None) -> bytes:
        """Encodes the delivery of a message whose serial belongs to this epoch. `previous` is the
        preceding serial if messages in between are omitted on purpose."""

    def encode(self, notice: Notice) -> bytes:
        """Encodes any notice as a unit."""

    def pack(self, units: Sequence[bytes]) -> bytes:
        """Packs units into whole frames, in order."""
