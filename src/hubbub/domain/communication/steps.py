"""One atomic change of the communication service's tables."""

from __future__ import annotations

from typing import Final

import msgspec

from hubbub.domain.audit import AuditEntry

DECIDED: Final = 0
NEW: Final = 1
"""The message's receivers are not resolved yet."""
PLANNED: Final = 2
HELD: Final = 3
"""The message is held until its sender logs in."""

DUE: Final = 0
ARRIVED: Final = 1
FAILED: Final = 2
"""The delivery is a dead letter."""
WAITING: Final = 3
"""The delivery's turn has not come: its policy is IN_ORDER."""


class DeliveryRow(msgspec.Struct, frozen=True, array_like=True):
    """A copy of a message to one address of one peer."""

    key: str
    """Derived from message, peer and address: the same for every attempt."""
    message_id: str
    serial: int
    """The message's serial in the log; 0: the serial of the message that the step is stored
    with."""
    ordinal: int
    receiver: str
    """The receiver whose policy counts the outcome; empty: none."""
    peer: str
    adapter: str
    """Empty: no attempt was possible, for this `reason`."""
    parameters: tuple[str, ...]
    state: int = DUE
    reason: str = ""
    at: int = 0
    """When the row reached its state, in milliseconds since 1970. Turns are counted from here."""


class DeliveryMove(msgspec.Struct, frozen=True, array_like=True):
    """A delivery changes its state."""

    key: str
    state: int
    reason: str = ""
    at: int = 0


class CommunicationStep(msgspec.Struct, frozen=True, array_like=True):
    """Stored atomically, either with a message of the log or alone."""

    digest: bytes = b""
    """The digest of the message that the step is stored with."""
    state: int = DECIDED
    plan: bytes | None = None
    added: tuple[DeliveryRow, ...] = ()
    moved: tuple[DeliveryMove, ...] = ()
    dropped: tuple[str, ...] = ()
    """Keys of deliveries that ended."""
    planned: tuple[tuple[str, bytes], ...] = ()
    """Ids of earlier messages with their plans; a message that is already decided stays decided."""
    closed: tuple[str, ...] = ()
    """Ids of earlier messages that this step decides."""
    dropped_of: tuple[str, ...] = ()
    """Ids of expired messages: all their deliveries that are due or wait are dropped."""
    released: tuple[str, ...] = ()
    """Ids of messages that are held no longer: their sender has logged in."""
    audits: tuple[AuditEntry, ...] = ()
    """Audit entries of what an administrator does with the step."""
