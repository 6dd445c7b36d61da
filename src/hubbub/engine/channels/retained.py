"""Retained messages: the last message with the flag `retain`, kept for later subscribers."""

from __future__ import annotations

from hubbub.domain.envelope import expires_at
from hubbub.domain.errors import HubbubError, StaleOwner, Unavailable
from hubbub.domain.messages import Message
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.terms import Terms
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.ports.clock import Clock
from hubbub.ports.storage.messages import MessageStore
from hubbub.tasks import TaskSet

FOREVER = 2**53 - 1


class RetainedMessages:
    """The retained messages of one owner's channels."""

    def __init__(
        self, store: MessageStore, clock: Clock, keep_seconds: float, terms: Terms
    ) -> None:
        """`keep_seconds`: 0 keeps a message until it is replaced."""
        self._store = store
        self._clock = clock
        self._keep_seconds = keep_seconds
        self._terms = terms
        self._tasks = TaskSet()

    async def settle(self) -> None:
        await self._tasks.settle()

    async def settle_so_far(self) -> None:
        await self._tasks.settle_so_far()

    async def load(self, channel: Channel) -> None:
        now = int(self._clock.now() * 1000)
        kept = await self._store.read_retained(channel.hub, channel.name, now)
        channel.retained = kept.message if kept else None
        channel.retained_until = kept.expires_at if kept else 0

    def current(self, channel: Channel) -> Message | None:
        expired = channel.retained_until <= self._clock.now() * 1000
        return None if expired or not channel.rules.retain else channel.retained

    def until(self, message: Message) -> int:
        """When the message expires (ms): immediately if it is empty, which clears the retained
        message; at the latest at the end of its own time to live."""
        if not message.payload:
            return 0
        own = expires_at(message) or FOREVER
        if not self._keep_seconds:
            return own
        return min(own, int((self._clock.now() + self._keep_seconds) * 1000))

    def keep(self, channel: Channel, message: Message) -> None:
        """Makes the message the retained one."""
        until = self.until(message)
        channel.retained = message if until else None
        channel.retained_until = until

    def save(self, channel: Channel, message: Message, reply: PublishReply | None) -> None:
        """Retains an unstored message, and replies when it is on disk. Saves are coalesced: only
        the latest message of a quick series is written, and all are then acknowledged."""
        self.keep(channel, message)
        answer = (message.serial, reply)
        if channel.retaining is not None:
            channel.retaining.append(answer)
            return
        channel.retaining = [answer]
        self._tasks.start(self._save(channel))

    async def clear(self, channel: Channel) -> None:
        """Raises `StaleOwner`, `StoreUnavailable`."""
        channel.retained, channel.retained_until = None, 0
        term = self._terms.of(channel)
        await self._store.delete_retained(channel.hub, channel.name, channel.partition, term)

    async def _save(self, channel: Channel) -> None:
        while channel.retaining:
            answers, channel.retaining = channel.retaining, []
            error = await self._write(channel)
            for serial, reply in answers:
                if reply is not None:
                    reply(PublishOutcome(serial=serial, error=error))
        channel.retaining = None
        channel.idle_since = self._clock.monotonic()

    async def _write(self, channel: Channel) -> HubbubError | None:
        term = self._terms.of(channel)
        try:
            if channel.retained is None:
                await self._store.delete_retained(
                    channel.hub, channel.name, channel.partition, term
                )
            else:
                await self._store.save_retained(
                    channel.retained, channel.retained_until, channel.partition, term
                )
        except StaleOwner as error:
            # The message was delivered: nobody may take this for one that took no effect.
            return Unavailable(f"the message was delivered, but not kept: {error.message}")
        except HubbubError as error:
            return error
        return None
