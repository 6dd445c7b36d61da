"""A producer in memory: its fence, its sequence and its puts that are not on disk yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from hubbub.domain.messages import Message
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.ports.storage.topics import ProducerRecord


@dataclass(slots=True, eq=False)
class ActiveProducer:
    """A producer that put something since the channel was opened."""

    id: int = 0
    fence: int = 0
    stored: int = 0
    """The last sequence on disk."""
    accepted: int = 0
    """The last sequence that is on disk or on its way there."""
    under_way: dict[int, Put] = field(default_factory=dict)
    lookups: list[Put] = field(default_factory=list)
    """Publishes with idempotency keys that are yet to be looked for in the store."""
    waiting: list[tuple[Message, PublishReply]] | None = field(default_factory=list)
    """Puts that came before the store said where the producer stands; None: it has."""

    def know(self, found: ProducerRecord) -> None:
        self.id = found.id
        self.fence = max(self.fence, found.fence)
        self.stored = self.accepted = found.sequence


class Put:
    """A put on its way to the disk, and those who repeated it meanwhile."""

    __slots__ = ("message", "replies")

    def __init__(self, message: Message, reply: PublishReply) -> None:
        self.message = message
        self.replies = [reply]

    def conclude(self, outcome: PublishOutcome) -> None:
        first, *repeats = self.replies
        first(outcome)
        message_id = outcome.message_id or self.message.id
        for reply in repeats:
            again = outcome.error is None
            reply(PublishOutcome(outcome.serial, outcome.error, again, message_id, outcome.change))
