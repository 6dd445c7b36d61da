"""Runs of published messages: fields common to neighbouring messages are recorded once.

Most events of a busy hub are messages, and most fields of a message equal those of its neighbours.
So each message takes a few bytes in a row instead of all fields of an event. Rows are encoded
immediately: keeping the messages until the record is written cost more when measured
(docs/benchmarks.md).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

import msgspec

from hubbub.domain.journal import PUBLISHED, WHOLE_HEADERS, JournalEvent, PayloadRule
from hubbub.domain.messages import Attributes, Message

Row = tuple[int, int, str, int | None, int, bytes | None]
"""The position in the record, and a message's time, id, serial, size and payload."""


class Shared(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """The event fields that all messages of a run share."""

    kind: str
    node: str
    hub: str
    channel: str
    epoch: str
    stored: bool
    event: str
    content_type: str
    session: str | None = None
    user: str | None = None
    technology: str | None = None


Run = tuple[Shared, list[Row]]
"""Messages with the same shared fields."""
_Key = tuple[str, str, str, bool, str, str, str | None, str | None, str | None]
"""The fields of `Shared` from the hub on."""

_AS_THEY_ARE = tuple(
    name
    for name in Attributes.__struct_fields__
    if name in JournalEvent.__struct_fields__ and name not in ("location", "headers")
)
"""Attributes of messages that are stored unchanged as fields of an event."""
_ARRAY = struct.Struct(">BI")
_ARRAY_32 = 0xDD
"""The first byte of a msgpack array with a 32-bit length."""
_encode_into = msgspec.msgpack.Encoder().encode_into


class _Rows:
    """The encoded rows of a run."""

    __slots__ = ("count", "encoded")

    def __init__(self) -> None:
        self.count = 0
        self.encoded = bytearray()


class Gathered:
    """Collects the content of one record."""

    __slots__ = ("_events", "_node", "_plain", "_runs", "count")

    def __init__(self, node: str) -> None:
        self._node = node
        self._events = bytearray()
        """Encoded immediately: an event object takes several times as many bytes."""
        self._plain = 0
        self._runs: dict[_Key, _Rows] = {}
        self.count = 0

    def record(self, event: JournalEvent) -> None:
        event.node = self._node
        _encode_into(event, self._events, -1)
        self._plain += 1
        self.count += 1

    def published(self, message: Message, epoch: str, rule: PayloadRule) -> None:
        """Adds a message, if the rule lets the journal record any of it."""
        payload = message.payload if rule == "payload" else None
        key = (
            message.hub,
            message.channel,
            epoch,
            message.store,
            message.event,
            message.content_type,
            message.session,
            message.publisher,
            message.technology,
        )
        row: Row = (
            self.count,
            message.taken_at or message.published_at * 1000,
            message.id,
            message.serial or None,
            len(message.payload),
            payload,
        )
        if message.attributes is not None:
            event = _event(Shared(PUBLISHED, self._node, *key), row)
            _add_attributes(event, message.attributes)
            self.record(event)
            return
        rows = self._runs.get(key)
        if rows is None:
            rows = self._runs[key] = _Rows()
        _encode_into(row, rows.encoded, -1)
        rows.count += 1
        self.count += 1

    def body(self) -> bytes:
        """The encoded body of the record."""
        packed = bytearray(_ARRAY.pack(_ARRAY_32, self._plain + len(self._runs)))
        packed += self._events
        for key, rows in self._runs.items():
            array = msgspec.Raw(_ARRAY.pack(_ARRAY_32, rows.count) + rows.encoded)
            _encode_into((Shared(PUBLISHED, self._node, *key), array), packed, -1)
        return bytes(packed)


def unpack(packed: Sequence[JournalEvent | Run]) -> list[JournalEvent]:
    """All events of a record, in chronological order."""
    plain: list[JournalEvent] = []
    found: list[tuple[int, Row, Shared]] = []
    for each in packed:
        if isinstance(each, JournalEvent):
            plain.append(each)
        else:
            shared, rows = each
            found += [(row[0], row, shared) for row in rows]
    if not found:
        return plain
    found.sort(key=itemgetter(0))
    events: list[JournalEvent] = []
    others = iter(plain)
    for place, row, shared in found:
        events += islice(others, max(0, place - len(events)))
        events.append(_event(shared, row))
    events += others
    return events


def _event(shared: Shared, row: Row) -> JournalEvent:
    _, at, message_id, serial, size, payload = row
    return JournalEvent(
        shared.kind,
        at,
        shared.hub,
        shared.node,
        channel=shared.channel,
        session=shared.session,
        user=shared.user,
        technology=shared.technology,
        message_id=message_id,
        epoch=shared.epoch,
        serial=serial,
        stored=shared.stored,
        event=shared.event,
        content_type=shared.content_type,
        size=size,
        payload=payload,
        published_at=at,
    )


def _add_attributes(event: JournalEvent, attributes: Attributes) -> None:
    for name in _AS_THEY_ARE:
        setattr(event, name, getattr(attributes, name))
    if attributes.dead_letter_of is not None:  # the event of its message has the answer
        event.conversation_id = event.refers_to = None
    event.producer, event.sequence = attributes.producer_id, attributes.producer_seq
    event.policy = attributes.delivery_policy
    event.location = None if attributes.location is None else _json(attributes.location)
    event.headers, event.extra = _texts(attributes.headers), _whole(attributes.headers)


def _texts(headers: dict[str, Any] | None) -> dict[str, str] | None:
    if headers is None:
        return None
    return {name: v if isinstance(v, str) else _json(v) for name, v in headers.items()}


def _whole(headers: dict[str, Any] | None) -> dict[str, str] | None:
    """All headers as JSON, if `_texts` cannot represent them."""
    if headers is None or all(isinstance(value, str) for value in headers.values()):
        return None
    return {WHOLE_HEADERS: _json(headers)}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
