"""Idempotency keys of messages that are not stored: the latest of a channel, in memory."""

from __future__ import annotations

from collections.abc import Callable

from hubbub.domain.documents.changes import digest_of
from hubbub.domain.errors import SequenceReused
from hubbub.domain.messages import Message, Stamp
from hubbub.ports.bus import PublishOutcome, PublishReply

WINDOW_MS = 300_000
MAX_KEYS = 1000
"""Maximum number per channel."""


class _Recent:
    __slots__ = ("at", "digest", "message_id", "outcome", "waiting")

    def __init__(self, message: Message) -> None:
        self.message_id = message.id
        self.digest = _digest(message)
        self.at = message.published_at
        self.outcome: PublishOutcome | None = None
        self.waiting: list[PublishReply] = []


class RecentKeys:
    """The keys of one channel, by principal and key."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], _Recent] = {}

    def publish(
        self,
        stamp: Stamp,
        message: Message,
        reply: PublishReply,
        accept: Callable[[Message, PublishReply], None],
    ) -> None:
        """Calls `accept` for a key that was not used in the last five minutes; a repeat gets the
        result of the original. Raises `SequenceReused` and the errors of `accept`."""
        key = stamp.principal, stamp.sequence
        self._forget(message.published_at)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Recent(message)
            try:
                accept(message, self._concluding(key, known, reply))
            except BaseException:
                self._known.pop(key, None)
                raise
        elif known.digest != _digest(message):
            raise reused(message)
        elif known.outcome is None:
            known.waiting.append(reply)
        else:
            reply(PublishOutcome(known.outcome.serial, None, True, known.message_id))

    def _concluding(
        self, key: tuple[str, int], known: _Recent, reply: PublishReply
    ) -> PublishReply:
        def conclude(outcome: PublishOutcome) -> None:
            known.outcome = outcome
            if outcome.error is not None and self._known.get(key) is known:
                del self._known[key]
            reply(outcome)
            waiting, known.waiting = known.waiting, []
            for each in waiting:
                again = outcome.error is None
                each(PublishOutcome(outcome.serial, outcome.error, again, known.message_id))

        return conclude

    def _forget(self, now: int) -> None:
        while self._known:
            key, oldest = next(iter(self._known.items()))
            if len(self._known) < MAX_KEYS and now - oldest.at < WINDOW_MS:
                return
            del self._known[key]


def _digest(message: Message) -> bytes:
    kind = f"{message.event}\n{message.content_type}\n".encode()
    return digest_of(kind + message.payload)


def reused(message: Message) -> SequenceReused:
    return SequenceReused(
        f"something else was published to channel {message.channel!r} under the same idempotency "
        "key; take a new key for new content"
    )
