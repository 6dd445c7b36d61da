"""Runs of published messages: what they have in common is in the journal once.

Messages are by far the most events of a busy hub, and most of what there is to say about one is
the same for its neighbours. So they are kept as they are while a batch gathers, and packed together
when it is written: a few bytes for each in place of all the fields of an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from operator import itemgetter

import msgspec

from hubbub.domain.journal import PUBLISHED, JournalEvent, PayloadRule
from hubbub.domain.messages import Attributes, Message

Taken = tuple[Message, str, bytes | None]
"""A message, its epoch, and its payload if that is to be kept."""
Entry = JournalEvent | Taken
Row = tuple[int, int, str, int | None, int, bytes | None]
"""The place in the record, the time, id, serial, size and payload of a message."""


class Shared(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """The fields of an event that all messages of a run have."""

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
"""Messages that were published in the same way."""


def entry_of(message: Message, epoch: str, rule: PayloadRule, node: str) -> Entry:
    """How a published message waits for its batch; from then on it must not change."""
    payload = message.payload if rule == "payload" else None
    if message.attributes is None:
        return message, epoch, payload
    return _with_attributes(message, message.attributes, epoch, payload, node)


def pack(entries: Iterable[Entry], node: str) -> list[JournalEvent | Run]:
    """What is written of a batch."""
    events: list[JournalEvent | Run] = []
    runs: dict[tuple[str, str, str, bool, str, str, str | None, str | None, str | None], list[Row]]
    runs = {}
    for place, entry in enumerate(entries):
        if isinstance(entry, JournalEvent):
            events.append(entry)
            continue
        message, epoch, payload = entry
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
        row = (
            place,
            message.taken_at or message.published_at * 1000,
            message.id,
            message.serial or None,
            len(message.payload),
            payload,
        )
        rows = runs.get(key)
        if rows is None:
            runs[key] = [row]
        else:
            rows.append(row)
    events += [(Shared(PUBLISHED, node, *key), rows) for key, rows in runs.items()]
    return events


def unpack(packed: Sequence[JournalEvent | Run]) -> list[JournalEvent]:
    """All events of a record, in the order in which they happened."""
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


def _with_attributes(
    message: Message, attributes: Attributes, epoch: str, payload: bytes | None, node: str
) -> JournalEvent:
    at = message.taken_at or message.published_at * 1000
    return JournalEvent(
        PUBLISHED,
        at,
        message.hub,
        node,
        channel=message.channel,
        session=message.session,
        user=message.publisher,
        technology=message.technology,
        message_id=message.id,
        epoch=epoch,
        serial=message.serial or None,
        stored=message.store,
        event=message.event,
        content_type=message.content_type,
        size=len(message.payload),
        payload=payload,
        published_at=at,
        producer=attributes.producer_id,
        sequence=attributes.producer_seq,
        conversation_id=attributes.conversation_id,
        refers_to=attributes.refers_to,
        sender=attributes.sender,
        receiver=attributes.receiver,
        language=attributes.language,
        headers=attributes.headers,
    )
