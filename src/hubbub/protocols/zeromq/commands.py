"""The commands of the ZeroMQ protocol and their frames after the credential, validated strictly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from hubbub.domain.errors import BadRequest, Malformed, TooLarge
from hubbub.domain.messages import Attributes
from hubbub.domain.names import check_name
from hubbub.domain.payloads import as_spelt, parse_payload
from hubbub.domain.requests import (
    Ping,
    Producer,
    ProducerOpen,
    PublishItem,
    TopicAck,
    TopicGet,
    TopicSubscribe,
    TopicUnsubscribe,
)
from hubbub.domain.topics import (
    DEFAULT_SUBSCRIPTION,
    MAX_BATCH,
    MAX_WAIT_SECONDS,
    SubscriptionOptions,
)
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.checks import MAX_SERIAL, check_event_name, parse_serial, parse_start
from hubbub.protocols.json.structs import JsonStructs, json_type
from hubbub.protocols.mapping import descriptor

MAX_OPTIONS_BYTES = 16 * 1024
_STRUCTS = JsonStructs(strict=True)
_Attributes = json_type((Attributes,), descriptor(pb.Attributes))


class Shutdown(msgspec.Struct, frozen=True):
    """An administrator's request to stop the server."""


Command = (
    PublishItem
    | TopicGet
    | TopicAck
    | TopicSubscribe
    | TopicUnsubscribe
    | ProducerOpen
    | Shutdown
    | Ping
)

# -- their frames -------------------------------------------------------------------------------

Number = int | str


class _PutOptions(msgspec.Struct, frozen=True, rename="camel"):
    producer: str | None = None
    sequence: Number | None = None
    fence: Number = 0
    event: str = ""
    content_type: str | None = None
    security_token: str | None = None


class _GetOptions(msgspec.Struct, frozen=True, rename="camel"):
    subscription: str = DEFAULT_SUBSCRIPTION
    limit: Annotated[int, Meta(ge=1, le=MAX_BATCH)] = 1
    wait: Annotated[float, Meta(ge=0, le=MAX_WAIT_SECONDS)] = 0.0
    consumer: str = ""
    ack_up_to: Number | None = None
    after: Number | None = None


class _AckOptions(msgspec.Struct, frozen=True, rename="camel"):
    up_to: bool = False
    subscription: str = DEFAULT_SUBSCRIPTION
    consumer: str = ""
    give_back: bool = False


class _Place(msgspec.Struct, frozen=True):
    """Parameters of `subscribe`, besides the options stored with the subscription."""

    subscription: str = DEFAULT_SUBSCRIPTION
    start: Number = "new"


class _Name(msgspec.Struct, frozen=True):
    subscription: str = DEFAULT_SUBSCRIPTION


def _put(parts: Sequence[bytes]) -> PublishItem:
    topic = _name(parts[0], "topic")
    given = _json_object("put", parts[2:])
    attributes = _attributes(given)
    options = _converted("put", given, _PutOptions, _keys(_Attributes))
    producer = None
    if options.producer is not None:
        if options.sequence is None:
            raise Malformed("put: `producer` needs `sequence` beside it, which counts from 1")
        producer = Producer(
            check_name(options.producer, "producer"),
            _number(options.sequence, "put: `sequence`", least=1),
            _number(options.fence, "put: `fence`"),
        )
    elif options.sequence is not None or options.fence != 0:
        raise Malformed("put: `sequence` and `fence` need `producer` beside them")
    event = check_event_name(options.event)
    payload, content_type = parse_payload(parts[1], options.content_type)
    return PublishItem(
        topic,
        event,
        payload,
        content_type,
        store=True,
        producer=producer,
        attributes=as_spelt(attributes, options.content_type),
        security_token=options.security_token,
    )


def _attributes(given: dict[str, Any]) -> Attributes | None:
    """Extracts the rarer envelope fields from the options of a put."""
    named = {key: given.pop(key) for key in _keys(_Attributes) if given.get(key) is not None}
    if not named:
        return None
    record = _converted("put", named, _Attributes)
    return _STRUCTS.read(Attributes, descriptor(pb.Attributes), record, "put: `")


def _get(parts: Sequence[bytes]) -> TopicGet:
    topic = _name(parts[0], "topic") if parts and parts[0] else None
    options = _options("get", parts[1:], _GetOptions)
    subscription = check_name(options.subscription, "subscription")
    if topic is None:
        if options != _GetOptions(options.subscription):
            raise Malformed("get: without a topic there is one option, `subscription`")
        return TopicGet(None, subscription)
    up_to = options.ack_up_to
    return TopicGet(
        topic,
        subscription,
        options.limit,
        options.wait,
        _consumer(options.consumer),
        None if up_to is None else _number(up_to, "get: `ackUpTo`"),
        after=0 if options.after is None else _number(options.after, "get: `after`"),
    )


def _ack(parts: Sequence[bytes]) -> TopicAck:
    topic = _name(parts[0], "topic")
    options = _options("ack", parts[2:], _AckOptions)
    texts = read_text(parts[1], "the serial").split(",", MAX_BATCH)
    if len(texts) > MAX_BATCH:
        raise TooLarge(f"ack: more than {MAX_BATCH} serials; use `upTo`, or several requests")
    least = 0 if options.up_to else 1
    serials = tuple(_number(text, "ack: the serial", least) for text in texts)
    if options.up_to and len(serials) > 1:
        raise Malformed("ack: `upTo` takes one serial")
    return TopicAck(
        topic=topic,
        name=check_name(options.subscription, "subscription"),
        serials=() if options.up_to else serials,
        up_to=serials[0] if options.up_to else None,
        consumer=_consumer(options.consumer),
        give_back=options.give_back,
    )


def _subscribe(parts: Sequence[bytes]) -> TopicSubscribe:
    topic = _name(parts[0], "topic")
    given = _json_object("subscribe", parts[1:])
    kept = {key: given.pop(key) for key in tuple(given) if key in _keys(SubscriptionOptions)}
    others = _keys(SubscriptionOptions)
    place = _converted("subscribe", given, _Place, others)
    options = None
    if kept:
        options = _converted("subscribe", kept, SubscriptionOptions)
    return TopicSubscribe(
        topic,
        check_name(place.subscription, "subscription"),
        options,
        parse_start(str(place.start), "subscribe: `start`"),
    )


def _unsubscribe(parts: Sequence[bytes]) -> TopicUnsubscribe:
    options = _options("unsubscribe", parts[1:], _Name)
    topic = _name(parts[0], "topic")
    return TopicUnsubscribe(topic, check_name(options.subscription, "subscription"))


def _open(parts: Sequence[bytes]) -> ProducerOpen:
    return ProducerOpen(_name(parts[0], "topic"), _name(parts[1], "producer"))


_CommandReader = Callable[[Sequence[bytes]], Command]
COMMANDS: dict[str, tuple[int, tuple[str, ...], _CommandReader]] = {
    "put": (2, ("topic", "payload", "options"), _put),
    "get": (0, ("topic", "options"), _get),
    "ack": (2, ("topic", "serial", "options"), _ack),
    "subscribe": (1, ("topic", "options"), _subscribe),
    "unsubscribe": (1, ("topic", "options"), _unsubscribe),
    "open": (2, ("topic", "producer"), _open),
    "shutdown": (0, (), lambda _: Shutdown()),
    "ping": (0, (), lambda _: Ping()),
}
"""The number of frames that each command needs after the credential, and their names."""


# -- frames -------------------------------------------------------------------------------------

Struct = TypeVar("Struct", bound=msgspec.Struct)


def read_text(frame: bytes, what: str) -> str:
    try:
        return frame.decode()
    except UnicodeDecodeError:
        raise Malformed(f"{what} is not UTF-8") from None


def _name(frame: bytes, what: str) -> str:
    return check_name(read_text(frame, f"the {what}"), what)


def _consumer(name: str) -> str:
    return check_name(name, "consumer") if name else ""


def _number(value: Number, what: str, least: int = 0) -> int:
    number = parse_serial(value, what) if isinstance(value, str) else value
    if not least <= number <= MAX_SERIAL:
        raise Malformed(f"{what} is {str(number)[:20]}; expected {least} to {MAX_SERIAL}")
    return number


def _options(command: str, rest: Sequence[bytes], kind: type[Struct]) -> Struct:
    return _converted(command, _json_object(command, rest), kind)


def _json_object(command: str, rest: Sequence[bytes]) -> dict[str, Any]:
    if not rest or not rest[0]:
        return {}
    if len(rest[0]) > MAX_OPTIONS_BYTES:
        raise TooLarge(f"{command}: the options have {len(rest[0])} bytes; at most "
                       f"{MAX_OPTIONS_BYTES} are allowed")  # fmt: skip
    try:
        return msgspec.json.decode(read_text(rest[0], "the frame of options"), type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Malformed(f"{command}: the options are not a JSON object: {error}") from None
    except RecursionError:
        raise Malformed(f"{command}: the options are nested too deeply") from None


def _converted(
    command: str, given: dict[str, Any], kind: type[Struct], others: Sequence[str] = ()
) -> Struct:
    known = (*_keys(kind), *others)
    for key, value in given.items():
        if key not in known:
            raise BadRequest(
                f"{command} has no option {key[:40]!r}; it has {', '.join(sorted(known))}"
            )
        if isinstance(value, int):
            _number(value, f"{command}: `{key}`")
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise Malformed(f"{command}: an option is not usable: {error}") from None


def _keys(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return kind.__struct_encode_fields__
