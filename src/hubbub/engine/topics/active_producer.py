"""A producer in memory: its fence, its sequence and its puts that are not on disk yet."""

from __future__ import annotations

from hubbub.domain.messages import Message
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.ports.storage.topics import ProducerRecord


class ActiveProducer:
    """A producer that put something since the channel was opened."""

    __slots__ = ("accepted", "fence", "id", "stored", "under_way", "waiting")

    def __init__(self) -> None:
        self.id = 0
        self.fence = 0
        self.stored = 0
        """The last sequence on disk."""
        self.accepted = 0
        """The last sequence that is on disk or on its way there."""
        self.under_way: dict[int, Put] = {}
        self.waiting: list[tuple[Message, PublishReply]] | None = []
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
        for reply in repeats:
            again = outcome.error is None
            reply(PublishOutcome(outcome.serial, outcome.error, again, self.message.id))
