"""The messages of spec/hubbub.proto as they look in JSON, named as they are there.

A field without a default is always written (and must be there when read); one with a default is
left out while it has that value. Clients may write null for a field that they leave out.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from hubbub.domain.errors import InvalidPayload
from hubbub.domain.messages import BINARY, JSON, TEXT, Message, is_text
from hubbub.domain.payloads import readable_json
from hubbub.protocols.envelopes import MAX_SERIAL

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
# Written as a string, because JavaScript's numbers end at 2^53.
Serial = (
    Annotated[str, Meta(pattern=r"\A[0-9]{1,18}\Z")] | Annotated[int, Meta(ge=0, le=MAX_SERIAL)]
)


def _json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join("ID" if part == "id" else part.capitalize() for part in others)


class Shape(Struct, rename=_json_name, omit_defaults=True, gc=False):
    """Base of all: names as the .proto gives them for JSON."""


class Envelope(Shape):
    event: str
    payload: Raw = Raw()


class Payload(Shape):
    """How the bytes are written: exactly one of the three is there."""

    json: Raw = Raw()
    text: str | UnsetType = UNSET
    base64: bytes | UnsetType = UNSET


def write_payload(body: bytes, content_type: str) -> tuple[Payload, str | None]:
    """The payload, and its content type where the way it is written does not imply it."""
    if content_type == JSON:
        return Payload(Raw(body)), None
    if is_text(content_type):
        return Payload(text=body.decode()), None if content_type == TEXT else content_type
    return Payload(base64=body), None if content_type == BINARY else content_type


def given_payload(payload: Payload, where: str) -> tuple[bytes, str]:
    """What a client wrote: the bytes, and the content type that the way implies. Raises
    `InvalidPayload`, which says `where`."""
    written = (bool(payload.json), payload.text is not UNSET, payload.base64 is not UNSET)
    if sum(written) != 1:
        raise InvalidPayload(f"{where} needs exactly one of `json`, `text` and `base64`")
    if payload.text is not UNSET:
        return payload.text.encode(), TEXT
    if payload.base64 is not UNSET:
        return payload.base64, BINARY
    return readable_json(bytes(payload.json)), JSON


def read_payload(payload: Payload) -> tuple[bytes, str]:
    """The reverse, for what the hub wrote: the bytes, and the type that the way implies."""
    if payload.text is not UNSET:
        return payload.text.encode(), TEXT
    if payload.base64 is not UNSET:
        return payload.base64, BINARY
    return bytes(payload.json), JSON


class ErrorInfo(Shape):
    code: str
    message: str
    retry: bool
    retry_after: float | None = None


class ErrorReply(Shape):
    error: ErrorInfo
    req_id: Int64 | None = None


class DisconnectNotice(Shape):
    code: str
    reason: str
    reconnect: bool
    retry_after: float | None = None


class Heartbeat(Shape):
    req_id: Int64 | None = None


class SessionInfoNotice(Shape):
    hub_id: str
    session_id: str
    hub_allow_anonymous: bool
    hub_allow_user_channel: bool
    default_public: bool
    authenticated: bool
    protocol_version: int
    ping_interval: int
    user_id: str | None = None
    max_message_bytes: Int64 | None = None


class AuthRequest(Shape):
    req_id: Int64 | None = None
    token: str | None = None
    credentials: Payload | None = None


class ChannelAuthorization(Shape):
    channel: str
    publish: bool
    subscribe: bool


class AuthResponse(Shape):
    success: bool
    req_id: Int64 | None = None
    user_id: str | None = None
    token: str | None = None
    channel_authorizations: tuple[ChannelAuthorization, ...] = ()
    rpc_authorizations: tuple[str, ...] = ()
    extra: dict[str, Any] = {}
    error: ErrorInfo | None = None
    expires_at: int | None = None


class Position(Shape):
    channel: str
    serial: Serial
    epoch: str | None = None


class SessionRestoreNotice(Shape):
    restore_key: str
    req_id: Int64 | None = None
    positions: tuple[Position, ...] | None = None


class ChannelFailure(Shape):
    channel: str
    error: ErrorInfo


class SubscribedChannel(Shape):
    channel: str
    epoch: str
    serial: Serial
    recovered: bool


class SessionRestoredNotice(Shape):
    session_id: str
    subscribed_channels: tuple[str, ...]
    channels: tuple[SubscribedChannel, ...]
    failures: tuple[ChannelFailure, ...]
    req_id: Int64 | None = None
    user_id: str | None = None
    authorizations: tuple[ChannelAuthorization, ...] = ()
    extra: dict[str, Any] = {}
    rpcs: tuple[str, ...] = ()


class ChannelSubscribeInfo(Shape):
    channel: str
    timestamp: Int64 | None = None
    serial: Serial | None = None
    epoch: str | None = None


class SubscribeRequest(Shape):
    channels: tuple[ChannelSubscribeInfo, ...]
    req_id: Int64 | None = None


class SubscribeResponse(Shape):
    subscribed_channels: tuple[str, ...]
    channels: tuple[SubscribedChannel, ...]
    failures: tuple[ChannelFailure, ...]
    req_id: Int64 | None = None


class UnsubscribeRequest(Shape):
    channels: tuple[str, ...]
    req_id: Int64 | None = None


class UnsubscribeResponse(Shape):
    unsubscribed_channels: tuple[str, ...]
    failures: tuple[ChannelFailure, ...]
    req_id: Int64 | None = None


class ChannelPubExtras(Shape):
    store: bool = False
    push: bool = False
    retain: bool = False
    transient: bool = False


class ProducerInfo(Shape):
    id: str
    sequence: Serial
    fence: Serial | None = None


class PubRequestInfo(Shape):
    channel: str
    payload: Payload
    event: str | None = None
    extra: ChannelPubExtras | None = None
    req_id: Int64 | None = None
    content_type: str | None = None
    producer: ProducerInfo | None = None


class ChannelPubRequest(Shape):
    publishes: list[PubRequestInfo]


class Response(Shape):
    req_id: Int64
    success: bool
    msg_id: str | None = None
    channel_serial: Serial | None = None
    error: ErrorInfo | None = None
    duplicate: bool = False


class ChannelPubResponse(Shape):
    published: tuple[Response, ...]


class MessageShape(Shape):
    """What every message looks like that the hub sends, whatever it comes with."""

    channel: str
    event: str
    payload: Payload
    msg_id: str
    timestamp: int = field(name="ts")
    channel_serial: Serial | None = None
    content_type: str | None = None
    publisher: str | None = None


M = TypeVar("M", bound=MessageShape)


def write_message(kind: type[M], message: Message, **beside: Any) -> M:
    """The message as a shape of this kind, with what that says besides."""
    payload, content_type = write_payload(message.payload, message.content_type)
    return kind(
        message.channel,
        message.event,
        payload,
        message.id,
        message.published_at,
        str(message.serial) if message.serial else None,
        content_type,
        message.publisher,
        **beside,
    )


def read_message(shape: MessageShape) -> Message:
    """The reverse. The hub is not on the wire: whoever opened the connection knows it."""
    body, written_as = read_payload(shape.payload)
    return Message(
        shape.msg_id,
        "",
        shape.channel,
        shape.event,
        body,
        shape.content_type or written_as,
        shape.timestamp,
        int(shape.channel_serial or 0),
        shape.publisher,
    )


class ChannelPublish(MessageShape):
    retained: bool = False
    previous_serial: Serial | None = None


class HistoryRequest(Shape):
    channel: str
    req_id: Int64 | None = None
    after: Serial | None = None
    before: Serial | None = None
    after_time: Int64 | None = None
    before_time: Int64 | None = None
    epoch: str | None = None
    limit: Int32 | None = None


class HistoryResponse(Shape):
    channel: str
    messages: tuple[ChannelPublish, ...]
    recovered: bool
    more: bool
    req_id: Int64 | None = None
    epoch: str = ""
    head: Serial | None = None
    error: ErrorInfo | None = None


class ChannelResetNotice(Shape):
    channel: str
    epoch: str
    serial: Serial


class PresenceMember(Shape):
    session_id: str
    timestamp: int = field(name="ts")
    user_id: str | None = None
    extra: dict[str, Any] = {}


class PresenceRequest(Shape):
    channel: str
    req_id: Int64 | None = None


class PresenceNotice(Shape):
    channel: str
    presence: tuple[PresenceMember, ...]
    req_id: Int64 | None = None
    error: ErrorInfo | None = None


class OccupancyNotice(Shape):
    channel: str
    count: int


class AnyRequest(Shape):
    """Enough of any request to answer it, however wrong the rest is."""

    req_id: Any = None


class AnyPublishes(Shape):
    """The items of a Publish one by one, for when not all of them can be read."""

    publishes: list[Raw]
