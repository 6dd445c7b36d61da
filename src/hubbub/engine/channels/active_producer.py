"""A producer in memory: its fence, its sequence, and its puts that are not yet on disk."""

from __future__ import annotations

from dataclasses import dataclass, field

from hubbub.domain.asking import Sent, envelope_of
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.ports.storage.topics import ProducerRecord


@dataclass(slots=True, eq=False)
class ActiveProducer:
    """A producer that has put messages since the channel was opened."""

    id: int = 0
    fence: int = 0
    stored: int = 0
    """The last sequence on disk."""
    accepted: int = 0
    """The last sequence that is on disk or being stored."""
    under_way: dict[int, Put] = field(default_factory=dict)
    lookups: list[Put] = field(default_factory=list)
    """Publishes whose idempotency keys are still being looked up in the store."""
    waiting: list[tuple[Sent, PublishReply]] | None = field(default_factory=list)
    """Puts received before the producer's state was read from the store; None once it was read."""

    def know(self, found: ProducerRecord) -> None:
        self.id = found.id
        self.fence = max(self.fence, found.fence)
        self.stored = self.accepted = found.sequence


class Put:
    """A put that is being stored, and the replies to its repeats."""

    __slots__ = ("replies", "sent")

    def __init__(self, sent: Sent, reply: PublishReply) -> None:
        self.sent = sent
        self.replies = [reply]

    def conclude(self, outcome: PublishOutcome) -> None:
        first, *repeats = self.replies
        first(outcome)
        message_id = outcome.message_id or envelope_of(self.sent).id
        for reply in repeats:
            again = outcome.error is None
            reply(PublishOutcome(outcome.serial, outcome.error, again, message_id, outcome.change))
