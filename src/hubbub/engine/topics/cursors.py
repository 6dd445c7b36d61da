"""Durable subscriptions of a channel in its owner's memory: their cursors and waiting consumers.

State only; `topics.cursor_cache` reads and writes it, `topics.durable` serves it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from hubbub.domain.cursors import Cursor, CursorRecord
from hubbub.domain.errors import NotSubscribed
from hubbub.domain.messages import Message
from hubbub.domain.topics import SubscriptionInfo, SubscriptionKey
from hubbub.engine.room_state import RoomState
from hubbub.ports.storage.messages import ChannelHead
from hubbub.ports.storage.topics import SavedCursor

_TAIL_MESSAGES = 1000
_TAIL_BYTES = 512 * 1024

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(CursorRecord)


@dataclass(slots=True, eq=False)
class DurableSubscription:
    """A durable subscription: its cursor, its waiting consumers, and its state on disk."""

    key: SubscriptionKey
    cursor: Cursor
    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    version: int = 0
    saved: int = 0
    moving: bool = False
    gone: bool = False

    async def wait(self, seconds: float) -> bool:
        """Returns whether a message arrived in time."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiters.append(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            return False
        finally:
            if waiter in self.waiters:
                self.waiters.remove(waiter)
        return True

    def wake(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def end(self) -> None:
        """Wakes the waiting consumers, since the subscription was deleted or moves to another
        node."""
        self.gone = True
        self.wake()

    def info(self, epoch: str, head: int) -> SubscriptionInfo:
        """The state of the subscription, given the channel's `head` and epoch."""
        return _describe(self.key, self.cursor, epoch, head)

    def to_save(self) -> SavedCursor:
        key, cursor = self.key, self.cursor
        state = _encoder.encode(cursor.record())
        return SavedCursor(key.hub, key.channel, key.owner, key.name, cursor.floor, state)


@dataclass(slots=True, eq=False)
class Cursors(RoomState):
    """The durable subscriptions of one channel, and its newest messages."""

    subscriptions: dict[tuple[str, str], DurableSubscription] = field(default_factory=dict)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    tail: deque[Message] = field(default_factory=deque)
    page: Sequence[Message] = ()
    """The last page read from the store, without gaps."""
    ahead: asyncio.Task[Sequence[Message]] | None = None
    """Reads the page after `page`."""
    _tail_bytes: int = 0

    @property
    def idle(self) -> bool:
        """Whether the state may be unloaded: no consumer waits, and no message is leased."""
        return not any(
            subscription.waiters or subscription.cursor.leases or subscription.moving
            for subscription in self.subscriptions.values()
        )

    def known(self, serial: int) -> Sequence[Message]:
        """Consecutive messages in memory that include this one; none if it is not in memory."""
        for held in (self.tail, self.page):
            if held and held[0].serial <= serial <= held[-1].serial:
                return held
        return ()

    def remember(self, message: Message) -> None:
        tail = self.tail
        if tail and tail[-1].serial != message.serial - 1:
            tail.clear()
            self._tail_bytes = 0
        tail.append(message)
        self._tail_bytes += len(message.payload)
        while len(tail) > _TAIL_MESSAGES or (self._tail_bytes > _TAIL_BYTES and len(tail) > 1):
            self._tail_bytes -= len(tail.popleft().payload)

    def forget_messages(self) -> None:
        """Drops the messages in memory; they are read from the store again, where some may have
        changed."""
        self.tail.clear()
        self._tail_bytes = 0
        self.page, self.ahead = (), None


def cursor_of(saved: SavedCursor, epoch: str) -> Cursor:
    """The subscription's cursor in the channel's epoch. If the channel was empty at the
    subscription, or was deleted since, its epoch differs, and all its messages are new to the
    subscription."""
    record = _decoder.decode(saved.state)
    if record.epoch != epoch:
        fresh = msgspec.structs.replace(
            record, epoch=epoch, reserved=0, done=(), counts={}, dead_lettering=0
        )
        return Cursor(0, fresh)
    return Cursor(saved.floor, record)


def describe_saved(saved: SavedCursor, head: ChannelHead | None) -> SubscriptionInfo:
    """The state of a durable subscription whose channel is not in memory."""
    epoch = head.epoch if head is not None else ""
    cursor = cursor_of(saved, epoch)
    cursor.lose_before(head.first if head is not None else 1)
    key = SubscriptionKey(saved.hub, saved.channel, saved.owner, saved.name)
    return _describe(key, cursor, epoch, head.head if head is not None else 0)


def _describe(key: SubscriptionKey, cursor: Cursor, epoch: str, head: int) -> SubscriptionInfo:
    return SubscriptionInfo(
        key=key,
        options=cursor.options,
        epoch=epoch,
        floor=cursor.floor,
        head=head,
        lag=cursor.lag(head),
        handed_out=cursor.handed_out,
        created_at=cursor.created_at,
        redeliveries=cursor.redeliveries,
        dead_letters=max(0, cursor.dead_letters - cursor.replayed),
        missed=cursor.missed,
    )


def not_subscribed(key: SubscriptionKey) -> NotSubscribed:
    return NotSubscribed(
        f"you have no durable subscription {key.name!r} to {key.channel!r}; subscribe first"
    )
