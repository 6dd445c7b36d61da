"""How the engine turns what it says into bytes, without knowing any encoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hubbub.domain.messages import Message
from hubbub.domain.notices import Notice


class Encoder(Protocol):
    """One encoding, shared by all connections that use it.

    Connections with the same encoder object are one group: what is encoded for one of them is
    written to all of them as the very same bytes. A unit is one encoded notice; units of one
    group can be packed together in any number, and only packed bytes go onto the wire.
    """

    in_order: bool
    """Units depend on what was encoded before, also for other channels: a message must be encoded
    when it arrives, and not when its group gets to write."""

    def encode_message(self, message: Message, epoch: str, previous: int | None = None) -> bytes:
        """The unit that delivers a message; its serial counts in this epoch. `previous` is the
        serial that it follows where messages in between are left out on purpose."""

    def encode(self, notice: Notice) -> bytes:
        """The unit for any notice."""

    def pack(self, units: Sequence[bytes]) -> bytes:
        """Bytes for the wire: whole frames that hold these units in this order."""
