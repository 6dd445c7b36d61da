"""A bounded buffer of a channel's latest messages, and what it can still answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from hubbub.domain.messages import Message

PAGE_BYTES = 512 * 1024
"""Payloads and attributes in one page, unless a single message is larger. As base64 in JSON they
fit into the default send buffer of a connection and leave room for live messages."""

_encoder = msgspec.msgpack.Encoder()


def size_of(message: Message) -> int:
    """The bytes that a message takes up in a page."""
    attributes = message.attributes
    return len(message.payload) + (0 if attributes is None else len(_encoder.encode(attributes)))


class PageRoom:
    """The room that is left in a page: `messages` and `size` (bytes). The first message always
    fits."""

    __slots__ = ("_empty", "messages", "size")

    def __init__(self, messages: int, size: int = PAGE_BYTES) -> None:
        self.messages = messages
        self.size = size
        self._empty = True

    def take(self, size: int) -> bool:
        """Whether one more message of this size fits; if so, it is in."""
        if self.messages <= 0 or (size > self.size and not self._empty):
            return False
        self._empty = False
        self.messages -= 1
        self.size -= size
        return True


def fitting(messages: Iterable[Message], limit: int) -> list[Message]:
    """The first messages, as many as a page has room for."""
    room, found = PageRoom(limit), []
    for message in messages:
        if not room.take(size_of(message)):
            break
        found.append(message)
    return found


class HistoryQuery(msgspec.Struct, frozen=True):
    """A page of a channel. At most one of the bounds is set; none asks for the newest messages.
    `epoch`, where given, must still be the channel's."""

    hub: str
    channel: str
    limit: int
    after: int | None = None
    before: int | None = None
    after_time: int | None = None
    before_time: int | None = None
    epoch: str | None = None
    conversation: str | None = None
    """Only the messages of this conversation; then `after` or `before` may be set."""


class Slice(msgspec.Struct, frozen=True):
    """An answer in rising order. `complete` is False where messages that belong in front of it
    (or, going forwards, between the bound and it) were there once and are gone."""

    messages: tuple[Message, ...]
    complete: bool
    more: bool


class LiveHistory:
    """The newest messages of a channel, up to a count and a size."""

    __slots__ = ("_bytes", "_dropped_serial", "_dropped_time", "_max_bytes", "_max_count", "_ring")

    def __init__(self, max_count: int, max_bytes: int, head: int, now: int) -> None:
        """`head` and `now`: where the channel stands; what came before is unknown."""
        self._ring: deque[Message] = deque()
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._bytes = 0
        self._dropped_serial = head
        self._dropped_time = now

    def __len__(self) -> int:
        return len(self._ring)

    def append(self, message: Message) -> None:
        self._ring.append(message)
        self._bytes += len(message.payload)
        while len(self._ring) > self._max_count or self._bytes > self._max_bytes:
            dropped = self._ring.popleft()
            self._bytes -= len(dropped.payload)
            self._dropped_serial = dropped.serial
            self._dropped_time = max(self._dropped_time, dropped.published_at)

    def replace(self, change: Callable[[Message], Message]) -> None:
        """Put what `change` answers in the place of each message, with the same serial."""
        self._ring = deque(map(change, self._ring))
        self._bytes = sum(len(message.payload) for message in self._ring)

    def after(self, serial: int, limit: int) -> Slice:
        start = serial - self._dropped_serial
        complete = 0 <= start <= len(self._ring)
        start = min(max(start, 0), len(self._ring))
        found = fitting(islice(self._ring, start, None), limit)
        return Slice(tuple(found), complete, more=start + len(found) < len(self._ring))

    def before(self, serial: int | None, limit: int) -> Slice:
        end = len(self._ring) if serial is None else serial - 1 - self._dropped_serial
        end = min(max(end, 0), len(self._ring))
        found = fitting(islice(reversed(self._ring), len(self._ring) - end, None), limit)
        return self._backwards(found, limit, more=len(found) < end)

    def after_time(self, time: int, limit: int) -> Slice:
        later = [message for message in self._ring if message.published_at > time]
        found = fitting(later, limit)
        return Slice(
            tuple(found), complete=time >= self._dropped_time, more=len(found) < len(later)
        )

    def before_time(self, time: int, limit: int) -> Slice:
        earlier = [message for message in self._ring if message.published_at < time]
        found = fitting(reversed(earlier), limit)
        return self._backwards(found, limit, more=len(found) < len(earlier))

    def _backwards(self, newest_first: list[Message], limit: int, more: bool) -> Slice:
        complete = more or len(newest_first) >= limit or self._dropped_serial == 0
        return Slice(tuple(reversed(newest_first)), complete, more)

    def select(self, query: HistoryQuery) -> Slice:
        if query.after is not None:
            return self.after(query.after, query.limit)
        if query.after_time is not None:
            return self.after_time(query.after_time, query.limit)
        if query.before_time is not None:
            return self.before_time(query.before_time, query.limit)
        return self.before(query.before, query.limit)
