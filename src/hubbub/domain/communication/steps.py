"""What one step of the communication service changes on disk, all at once."""

from __future__ import annotations

from typing import Final

import msgspec

DECIDED: Final = 0
NEW: Final = 1
"""Its receivers are not known yet."""
PLANNED: Final = 2
HELD: Final = 3
"""Until its sender logs in."""

DUE: Final = 0
ARRIVED: Final = 1
FAILED: Final = 2
"""A dead letter."""


class DeliveryRow(msgspec.Struct, frozen=True, array_like=True):
    """A copy of a message that goes to one address of one peer."""

    key: str
    """Follows from message, peer and address: the same for every attempt."""
    message_id: str
    serial: int
    """The message's serial in the log; 0: that of the message that the step is stored with."""
    ordinal: int
    receiver: str
    """Whose policy counts the outcome; empty: nobody's."""
    peer: str
    adapter: str
    """Empty: nothing could be tried, for this `reason`."""
    parameters: tuple[str, ...]
    state: int = DUE
    reason: str = ""
    at: int = 0
    """Milliseconds since 1970: when it became what it is."""


class DeliveryMove(msgspec.Struct, frozen=True, array_like=True):
    """A delivery is in another state now."""

    key: str
    state: int
    reason: str = ""
    at: int = 0


class CommunicationStep(msgspec.Struct, frozen=True, array_like=True):
    """Stored together with a message of the log, which it then says more about, or alone."""

    digest: bytes = b""
    """Of the message that the step is stored with."""
    state: int = DECIDED
    plan: bytes | None = None
    added: tuple[DeliveryRow, ...] = ()
    moved: tuple[DeliveryMove, ...] = ()
    dropped: tuple[str, ...] = ()
    """Keys of deliveries that are over."""
    planned: tuple[tuple[str, bytes], ...] = ()
    """Ids of earlier messages, with their plans; one that is decided already stays so."""
    closed: tuple[str, ...] = ()
    """Ids of earlier messages that are decided now."""
    dropped_of: tuple[str, ...] = ()
    """Ids of messages all of whose due deliveries are over: their time to live is."""
    released: tuple[str, ...] = ()
    """Ids of messages that are held no longer: their sender has logged in."""
