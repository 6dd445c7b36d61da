"""A bounded buffer of a channel's latest messages, and the queries that it can answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from hubbub.domain.asking import ChannelRequest
from hubbub.domain.messages import Message
from hubbub.domain.notices import HistoryPage

PAGE_BYTES = 512 * 1024
"""The size of payloads and attributes in one page, unless a single message is larger. As base64 in
JSON, a page fits into the default send buffer and leaves room for live messages."""

_encoder = msgspec.msgpack.Encoder()


def size_of(message: Message) -> int:
    """The bytes that a message occupies in a page."""
    attributes = message.attributes
    return len(message.payload) + (0 if attributes is None else len(_encoder.encode(attributes)))


class PageRoom:
    """The remaining room of a page in `messages` and `size` (bytes). The first message always
    fits."""

    __slots__ = ("_empty", "messages", "size")

    def __init__(self, messages: int, size: int = PAGE_BYTES) -> None:
        self.messages = messages
        self.size = size
        self._empty = True

    def take(self, size: int) -> bool:
        """Whether one more message of this size fits; if it does, the room is reserved."""
        if self.messages <= 0 or (size > self.size and not self._empty):
            return False
        self._empty = False
        self.messages -= 1
        self.size -= size
        return True


def fitting(messages: Iterable[Message], limit: int) -> list[Message]:
    """The leading messages that fit into a page."""
    room, found = PageRoom(limit), []
    for message in messages:
        if not room.take(size_of(message)):
            break
        found.append(message)
    return found


class HistoryQuery(ChannelRequest[HistoryPage], frozen=True):
    """Reads a page of a channel. At most one bound is set; without a bound, the newest messages are
    returned. `epoch`, if given, must match the channel's epoch."""

    travels_in = ("history", "query")

    limit: int
    after: int | None = None
    before: int | None = None
    after_time: int | None = None
    before_time: int | None = None
    epoch: str | None = None
    conversation: str | None = None
    """Only messages of this conversation; only together with `after` or `before`."""


def for_returning(
    page: HistoryPage, after: int | None, epoch: str | None, since: int
) -> HistoryPage:
    """A page of the live history that is kept for clients that come back, as it is shown to one
    that was at the serial `after` in `epoch`. It contains what was published from `since` on
    (milliseconds): the client could read the channel at that time. A client that gives no
    position, or no epoch, was not there: it gets nothing."""
    if after is not None and epoch == page.epoch:
        messages = tuple(m for m in page.messages if m.published_at >= since)
        complete = len(messages) == len(page.messages)
        return msgspec.structs.replace(
            page, messages=messages, recovered=page.recovered and complete
        )
    missed_nothing = epoch in (None, page.epoch) and page.head in (0, after)
    return msgspec.structs.replace(
        page, messages=(), recovered=missed_nothing, more=False, next=None
    )


class Slice(msgspec.Struct, frozen=True):
    """A page in ascending order. `complete` is False if messages in front of it (forwards: between
    the bound and the page) existed and were deleted."""

    messages: tuple[Message, ...]
    complete: bool
    more: bool


MESSAGE_BYTES = 700
"""The memory that a message takes besides its payload."""
RING_BYTES = 700
"""The memory that a history with at least one message takes besides its messages."""


class HeldBytes:
    """How much memory the live histories of one hub take."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class LiveHistory:
    """The newest messages of a channel, up to a count and a size."""

    __slots__ = (
        "_bytes", "_dropped_serial", "_dropped_time", "_held", "_max_bytes", "_max_count", "_ring",
    )  # fmt: skip

    def __init__(
        self, max_count: int, max_bytes: int, head: int, now: int, held: HeldBytes | None = None
    ) -> None:
        """`head` and `now`: the channel's position; earlier messages are unknown. `held` counts
        what the histories of the hub take together."""
        self._held = held or HeldBytes()
        self._ring: deque[Message] | None = None
        """None while there are no messages: most channels have none."""
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._bytes = 0
        self._dropped_serial = head
        self._dropped_time = now

    def __len__(self) -> int:
        return 0 if self._ring is None else len(self._ring)

    def append(self, message: Message) -> None:
        ring = self._ring
        if ring is None:
            ring = self._ring = deque()
            self._held.bytes += RING_BYTES
        ring.append(message)
        size = len(message.payload)
        if len(ring) > self._max_count:  # as it is nearly always: one comes, one goes
            first = ring.popleft()
            self._dropped_serial = first.serial
            if first.published_at > self._dropped_time:
                self._dropped_time = first.published_at
            size -= len(first.payload)
            self._held.bytes += size
        else:
            self._held.bytes += size + MESSAGE_BYTES
        self._bytes += size
        while self._bytes > self._max_bytes:
            self._drop_first(ring)

    def clear(self) -> None:
        """Drops all messages. Who comes back is told that some are missing."""
        ring = self._ring
        if ring is not None:
            while ring:
                self._drop_first(ring)
            self._ring = None
            self._held.bytes -= RING_BYTES

    def _drop_first(self, ring: deque[Message]) -> None:
        dropped = ring.popleft()
        size = len(dropped.payload)
        self._bytes -= size
        self._held.bytes -= size + MESSAGE_BYTES
        self._dropped_serial = dropped.serial
        self._dropped_time = max(self._dropped_time, dropped.published_at)

    def replace(self, change: Callable[[Message], Message]) -> None:
        """Replaces each message with the result of `change`, under the same serial."""
        if self._ring is not None:
            before = self._bytes
            self._ring = deque(map(change, self._ring))
            self._bytes = sum(len(message.payload) for message in self._ring)
            self._held.bytes += self._bytes - before

    def after(self, serial: int, limit: int) -> Slice:
        ring = self._ring or ()
        start = serial - self._dropped_serial
        complete = 0 <= start <= len(ring)
        start = min(max(start, 0), len(ring))
        found = fitting(islice(ring, start, None), limit)
        return Slice(tuple(found), complete, more=start + len(found) < len(ring))

    def before(self, serial: int | None, limit: int) -> Slice:
        ring = self._ring or ()
        end = len(ring) if serial is None else serial - 1 - self._dropped_serial
        end = min(max(end, 0), len(ring))
        found = fitting(islice(reversed(ring), len(ring) - end, None), limit)
        return self._backwards(found, limit, more=len(found) < end)

    def after_time(self, time: int, limit: int) -> Slice:
        later = [message for message in self._ring or () if message.published_at > time]
        found = fitting(later, limit)
        return Slice(
            tuple(found), complete=time >= self._dropped_time, more=len(found) < len(later)
        )

    def before_time(self, time: int, limit: int) -> Slice:
        earlier = [message for message in self._ring or () if message.published_at < time]
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
