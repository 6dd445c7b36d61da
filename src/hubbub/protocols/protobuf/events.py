"""The events of the protocol in protobuf, without their envelopes: requests and notices, for hub
and client. All follow from the table in `protocols.events`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from msgspec import Struct

from hubbub.domain.errors import HubbubError, Malformed
from hubbub.domain.notices import Notice, Published
from hubbub.domain.requests import Publish, PublishItem, Request, UndecodableRequest
from hubbub.protocols import events
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.checks import check_batch, check_item
from hubbub.protocols.event_mapping import EventMapping
from hubbub.protocols.mapping import descriptor
from hubbub.protocols.protobuf import fast
from hubbub.protocols.protobuf.structs import ProtobufStructs

_PUBLISH = pb.EventType.Publish
_NAMES: dict[int, str] = {number: name for name, number in pb.EventType.items()}
_ITEM = descriptor(pb.PubRequestInfo)
_REQUESTS = ProtobufStructs(strict=True)
_NOTICES = ProtobufStructs(strict=False, faster=fast.FASTER)


class _ProtobufEventReader(NamedTuple):
    parse: Callable[[bytes], Any]
    events: tuple[EventMapping, ...]


def _readers(table: tuple[EventMapping, ...]) -> dict[int, _ProtobufEventReader]:
    return {
        found[0].number: _ProtobufEventReader(GetMessageClass(found[0].message).FromString, found)
        for found in events.by_name(table).values()
    }


_request_readers = _readers(events.REQUESTS)
_notice_readers = _readers(events.NOTICES)


# -- requests -------------------------------------------------------------------------------------


def request_payload(request: Request) -> tuple[int, bytes]:
    """The event number and the encoded message of a request. Raises `TypeError` for a struct that a
    client cannot send."""
    event = events.of_request(request)
    return event.number, _encoded(_REQUESTS, request, event.message)


def read_request(number: int, payload: bytes) -> list[Request]:
    """All requests in the envelope. Unreadable ones are returned as rejections."""
    try:
        if number == _PUBLISH:
            return _read_publish(payload)
        reader = _request_readers.get(number)
        if reader is None:
            unknown = events.unknown_event(_NAMES.get(number, str(number)))
            return [UndecodableRequest(unknown, _req_id_of(payload))]
        return [_read(reader, payload)]
    except DecodeError as error:
        return [UndecodableRequest(Malformed(f"{_NAMES[number]}: {error}"), _req_id_of(payload))]
    except HubbubError as error:
        return [UndecodableRequest(error, _req_id_of(payload))]


def _read(reader: _ProtobufEventReader, payload: bytes) -> Request:
    (event,) = reader.events
    found = _REQUESTS.read(event.struct, event.message, reader.parse(payload), f"{event.name}: `")
    return event.check(found) if event.check else found  # type: ignore[return-value]


def _req_id_of(payload: bytes) -> int:
    """The id of a request whose other fields may be invalid; 0 if there is none. Nearly all
    requests have it in the same field as a heartbeat, which decodes nothing else."""
    try:
        return pb.Heartbeat.FromString(payload).req_id
    except DecodeError:
        return 0


def _read_publish(payload: bytes) -> list[Request]:
    # A slice is a list: iterating over the repeated field itself takes eight times as long.
    publishes = pb.ChannelPubRequest.FromString(payload).publishes[:]
    check_batch("Publish", len(publishes))
    try:
        return [Publish(tuple([read_item(each) for each in publishes]))]
    except HubbubError:
        return _read_items_apart(publishes)


def _read_items_apart(publishes: list[pb.PubRequestInfo]) -> list[Request]:
    """Decodes a Publish with an invalid item: valid items are still published, since each item has
    its own response."""
    items: list[PublishItem] = []
    rejected: list[Request] = []
    for index, proto in enumerate(publishes):
        try:
            items.append(read_item(proto, index))
        except HubbubError as error:
            rejected.append(UndecodableRequest(error, proto.req_id))
    return [Publish(tuple(items)), *rejected] if items else rejected


def read_item(proto: pb.PubRequestInfo, index: int = 0) -> PublishItem:
    """Raises `InvalidName`, `InvalidPayload`, `Malformed`."""
    item = fast.read_item(proto)
    if item is not None:
        return item
    where = f"Publish: `publishes[{index}]."
    return check_item(_REQUESTS.read(PublishItem, _ITEM, proto, where))


# -- notices --------------------------------------------------------------------------------------


def notice_payload(notice: Notice) -> tuple[int, bytes]:
    """The event number and the encoded message of a notice."""
    event = events.of_notice(notice)
    if isinstance(notice, Published):
        return event.number, fast.ack_payload(notice)
    return event.number, _encoded(_NOTICES, notice, event.message)


def read_notice(number: int, payload: bytes) -> Notice | None:
    """The decoded notice, or None for an unknown event. Raises `DecodeError` and `Malformed`."""
    if number == _PUBLISH:
        delivery = fast.read_delivery(payload)
        if delivery is not None:
            return delivery
    reader = _notice_readers.get(number)
    if reader is None:
        return None
    record = reader.parse(payload)
    event = events.chosen(reader.events, record)
    return _NOTICES.read(event.struct, event.message, record, f"the hub's {event.name}: `")  # type: ignore[return-value]


def error_info(error: HubbubError) -> pb.ErrorInfo:
    return pb.ErrorInfo(**_NOTICES.error_record(error, descriptor(pb.ErrorInfo)))


def _encoded(structs: ProtobufStructs, value: Struct, message: Descriptor) -> bytes:
    record = structs.record(value, message)
    entries = record.pop("messages", b"") if message.name in _WITH_ENTRIES else b""
    return _class_of(message)(**record).SerializeToString() + entries


_WITH_ENTRIES = {name.partition(".")[0] for name in fast.FASTER}
_class_of = cache(GetMessageClass)
