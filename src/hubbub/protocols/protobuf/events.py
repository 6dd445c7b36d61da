"""The events of the protocol in protobuf, without their envelopes: requests and notices, each as
the hub and as the client has it. All follow from the table in `protocols.events`."""

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
from hubbub.domain.requests import Publish, PublishItem, Rejected, Request
from hubbub.protocols import events
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.checks import check_batch, check_item
from hubbub.protocols.events import Event
from hubbub.protocols.mapping import descriptor
from hubbub.protocols.protobuf import fast
from hubbub.protocols.protobuf.structs import ProtobufStructs

_PUBLISH = pb.EventType.Publish
_NAMES: dict[int, str] = {number: name for name, number in pb.EventType.items()}
_ITEM = descriptor(pb.PubRequestInfo)
_REQUESTS = ProtobufStructs(strict=True)
_NOTICES = ProtobufStructs(strict=False, faster=fast.FASTER)


class _EventReader(NamedTuple):
    parse: Callable[[bytes], Any]
    events: tuple[Event, ...]


def _readers(table: tuple[Event, ...]) -> dict[int, _EventReader]:
    return {
        found[0].number: _EventReader(GetMessageClass(found[0].message).FromString, found)
        for found in events.by_name(table).values()
    }


_request_readers = _readers(events.REQUESTS)
_notice_readers = _readers(events.NOTICES)


# -- requests -------------------------------------------------------------------------------------


def request_payload(request: Request) -> tuple[int, bytes]:
    """The event and the encoded message that ask for this. Raises `TypeError` for what a client
    cannot send."""
    event = events.of_request(request)
    return event.number, _encoded(_REQUESTS, request, event.message)


def read_request(number: int, payload: bytes) -> list[Request]:
    """All that the envelope asks for. What cannot be read of it comes back as rejections."""
    try:
        if number == _PUBLISH:
            return _read_publish(payload)
        reader = _request_readers.get(number)
        if reader is None:
            unknown = events.unknown_event(_NAMES.get(number, str(number)))
            return [Rejected(unknown, _req_id_of(payload))]
        return [_read(reader, payload)]
    except DecodeError as error:
        return [Rejected(Malformed(f"{_NAMES[number]}: {error}"), _req_id_of(payload))]
    except HubbubError as error:
        return [Rejected(error, _req_id_of(payload))]


def _read(reader: _EventReader, payload: bytes) -> Request:
    (event,) = reader.events
    found = _REQUESTS.read(event.struct, event.message, reader.parse(payload), f"{event.name}: `")
    return event.check(found) if event.check else found  # type: ignore[return-value]


def _req_id_of(payload: bytes) -> int:
    """The id of a request that may be wrong in every other way; 0 where there is none. Nearly all
    requests have it where a heartbeat has its own, which checks nothing else."""
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
    """A Publish with something wrong in it: the other items are published all the same, since
    each is answered by itself."""
    items: list[PublishItem] = []
    rejected: list[Request] = []
    for index, proto in enumerate(publishes):
        try:
            items.append(read_item(proto, index))
        except HubbubError as error:
            rejected.append(Rejected(error, proto.req_id))
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
    """The event and the encoded message that say this."""
    event = events.of_notice(notice)
    if isinstance(notice, Published):
        return event.number, fast.ack_payload(notice)
    return event.number, _encoded(_NOTICES, notice, event.message)


def read_notice(number: int, payload: bytes) -> Notice | None:
    """What the hub says, or None for an event that this version does not know. Raises `DecodeError`
    and `Malformed`."""
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
