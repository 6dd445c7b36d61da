"""A bounded buffer of a channel's latest messages, and what it can still answer."""

from __future__ import annotations

from collections import deque
from itertools import islice

import msgspec

from hubbub.domain.messages import Message


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

    def after(self, serial: int, limit: int) -> Slice:
        start = serial - self._dropped_serial
        complete = 0 <= start <= len(self._ring)
        start = min(max(start, 0), len(self._ring))
        return Slice(
            messages=tuple(islice(self._ring, start, start + limit)),
            complete=complete,
            more=start + limit < len(self._ring),
        )

    def before(self, serial: int | None, limit: int) -> Slice:
        end = len(self._ring) if serial is None else serial - 1 - self._dropped_serial
        end = min(max(end, 0), len(self._ring))
        start = max(end - limit, 0)
        missing = limit - (end - start)
        return Slice(
            messages=tuple(islice(self._ring, start, end)),
            complete=missing == 0 or self._dropped_serial == 0,
            more=start > 0,
        )

    def after_time(self, time: int, limit: int) -> Slice:
        found = [message for message in self._ring if message.published_at > time]
        return Slice(
            messages=tuple(found[:limit]),
            complete=time >= self._dropped_time,
            more=len(found) > limit,
        )

    def before_time(self, time: int, limit: int) -> Slice:
        found = [message for message in self._ring if message.published_at < time]
        return Slice(
            messages=tuple(found[-limit:]),
            complete=len(found) >= limit or self._dropped_serial == 0,
            more=len(found) > limit,
        )

    def select(self, query: HistoryQuery) -> Slice:
        if query.after is not None:
            return self.after(query.after, query.limit)
        if query.after_time is not None:
            return self.after_time(query.after_time, query.limit)
        if query.before_time is not None:
            return self.before_time(query.before_time, query.limit)
        return self.before(query.before, query.limit)
