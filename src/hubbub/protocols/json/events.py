"""The events of the protocol in JSON, without their envelopes: requests and notices, for hub and
client. All follow from the table in `protocols.events`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from hubbub.domain.errors import HubbubError, Malformed
from hubbub.domain.notices import CommandAnswered, Notice, Published
from hubbub.domain.requests import Publish, PublishItem, Request, UndecodableRequest
from hubbub.protocols import events
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.checks import MAX_ITEMS, check_batch, check_item
from hubbub.protocols.event_mapping import EventMapping
from hubbub.protocols.json.fast import FASTER, ack_json, read_delivery, result_json
from hubbub.protocols.json.structs import JsonStructs, json_type
from hubbub.protocols.mapping import descriptor

S = TypeVar("S", bound=Struct)

_encode = msgspec.json.Encoder().encode
_REQUESTS = JsonStructs(strict=True)
_NOTICES = JsonStructs(strict=False, faster=FASTER)
_ITEM = descriptor(pb.PubRequestInfo)
_NULL = Raw(b"null")
_EMPTY = Raw(b"{}")


class _JsonEventReader(NamedTuple):
    decode: Callable[[Raw], Any]
    events: tuple[EventMapping, ...]


def _readers(table: tuple[EventMapping, ...]) -> dict[str, _JsonEventReader]:
    return {
        name: _JsonEventReader(
            _decoder(tuple(each.struct for each in found), found[0].message), found
        )
        for name, found in events.by_name(table).items()
    }


def _decoder(structs: tuple[type[Struct], ...], message: Any) -> Callable[[Raw], Any]:
    return msgspec.json.Decoder(json_type(structs, message)).decode


class _AnyRequest(Struct):
    """The fields needed to answer any request, even if all others are invalid."""

    req_id: Any = msgspec.field(default=None, name="reqID")


class _AnyPublishes(Struct):
    """The raw items of a Publish, used if some of them cannot be decoded."""

    publishes: list[Raw]


class JsonRecords(Generic[S]):
    """Decodes structs of clients that are not inside an envelope, as a message of
    spec/hubbub.proto."""

    def __init__(self, struct: type[S], message: Any) -> None:
        self._struct = struct
        self._message = message
        self._decode = _decoder((struct,), message)

    def read(self, text: Raw, where: str) -> S:
        """`where` is the prefix of field names in errors. Raises `Malformed`, `InvalidPayload`."""
        try:
            return _REQUESTS.read(self._struct, self._message, self._decode(text), f"`{where}.")
        except msgspec.DecodeError as error:
            raise _malformed(where, error, "$") from None
        except RecursionError:
            raise Malformed(f"{where} is nested too deeply") from None


_request_readers = _readers(events.REQUESTS)
_notice_readers = _readers(events.NOTICES)
_item = _decoder((PublishItem,), _ITEM)
_any_request = msgspec.json.Decoder(_AnyRequest).decode
_any_publishes = msgspec.json.Decoder(_AnyPublishes).decode


# -- requests -------------------------------------------------------------------------------------


def request_json(request: Request) -> tuple[str, bytes]:
    """The event name and payload of a request. Raises `TypeError` for a struct that a client cannot
    send."""
    event = events.of_request(request)
    return event.name, _encode(_REQUESTS.record(request, event.message))


def read_request(name: str, payload: Raw) -> list[Request]:
    """All requests in the envelope. Unreadable ones are returned as rejections."""
    reader = _request_readers.get(name)
    if reader is None:
        return [UndecodableRequest(events.unknown_event(name), _req_id_of(payload))]
    if not payload or payload == _NULL:
        if reader.events[0].message_name != "Heartbeat":
            return [
                UndecodableRequest(Malformed(f"{name}: Object missing required field `payload`"))
            ]
        payload = _EMPTY
    try:
        if name == "Publish":
            return _read_publish(payload)
        return [_read(reader, payload)]
    except msgspec.DecodeError as error:
        return [UndecodableRequest(_malformed(name, error, "$.payload"), _req_id_of(payload))]
    except HubbubError as error:
        return [UndecodableRequest(error, _req_id_of(payload))]
    except RecursionError:
        return [UndecodableRequest(Malformed(f"{name}: the payload is nested too deeply"))]


def _read(reader: _JsonEventReader, payload: Raw) -> Request:
    (event,) = reader.events
    found = _REQUESTS.read(
        event.struct, event.message, reader.decode(payload), f"{event.name}: `$.payload."
    )
    return event.check(found) if event.check else found  # type: ignore[return-value]


def _read_publish(payload: Raw) -> list[Request]:
    """Valid items are published even if others are invalid, since each item has its own
    response."""
    found = _read_each(payload)
    items = tuple(item for _, item in found if isinstance(item, PublishItem))
    rejected: list[Request] = [
        UndecodableRequest(item, _req_id_of(text))
        for text, item in found
        if isinstance(item, HubbubError)
    ]
    return [Publish(items), *rejected] if items or not rejected else rejected


def read_items(payload: Raw) -> list[PublishItem | HubbubError]:
    """The items of a batch, each decoded or as its error."""
    return [item for _, item in _read_each(payload)]


def _read_each(payload: Raw) -> list[tuple[Raw, PublishItem | HubbubError]]:
    publishes = _any_publishes(payload).publishes
    check_batch("Publish", len(publishes))
    return [(text, _read_item(text, index)) for index, text in enumerate(publishes)]


def _read_item(text: Raw, index: int) -> PublishItem | HubbubError:
    path = f"$.payload.publishes[{index}]"
    try:
        return check_item(_REQUESTS.read(PublishItem, _ITEM, _item(text), f"Publish: `{path}."))
    except msgspec.ValidationError as error:
        return _malformed("Publish", error, path)
    except HubbubError as error:
        return error


def _malformed(event: str, error: msgspec.DecodeError, path: str) -> Malformed:
    """`path` is the position of the decoded text in the envelope."""
    found = str(error)
    if " - at `$" not in found:
        return Malformed(f"{event}: {found} - at `{path}`")
    return Malformed(f"{event}: {found.replace('`$', f'`{path}', 1)}")


def req_ids_of(name: str, payload: Raw) -> list[int]:
    """The ids of the requests in an envelope that cannot be served."""
    if name == "Publish":
        try:
            items = _any_publishes(payload).publishes[:MAX_ITEMS]
            return [_req_id_of(each) for each in items] or [0]
        except (msgspec.DecodeError, RecursionError):
            pass
    return [_req_id_of(payload)]


def _req_id_of(text: Raw) -> int:
    """The id of a request whose other fields may be invalid; 0 if there is none."""
    try:
        req_id = _any_request(text).req_id
    except (msgspec.DecodeError, RecursionError):
        return 0
    return req_id if type(req_id) is int and -(2**63) <= req_id < 2**63 else 0


# -- notices --------------------------------------------------------------------------------------


def notice_json(notice: Notice) -> tuple[str, bytes]:
    """The event name and payload of a notice."""
    event = events.of_notice(notice)
    if isinstance(notice, Published):
        return event.name, ack_json(notice)
    if isinstance(notice, CommandAnswered):
        return event.name, result_json(notice)
    return event.name, _encode(_NOTICES.record(notice, event.message))


def struct_json(value: Struct, message: Any) -> bytes:
    """A struct sent by the hub, as this message of spec/hubbub.proto."""
    return _encode(_NOTICES.record(value, message))


def read_notice(name: str, payload: Raw) -> Notice | None:
    """The decoded notice, or None for an unknown event. Raises `msgspec.DecodeError`."""
    if name == "Publish":
        delivery = read_delivery(payload)
        if delivery is not None:
            return delivery
    reader = _notice_readers.get(name)
    if reader is None:
        return None
    record = reader.decode(payload)
    event = events.chosen(reader.events, record)
    return _NOTICES.read(event.struct, event.message, record, f"the hub's {name}: `")  # type: ignore[return-value]
