"""Datagrams between nodes, and their encoding.

Every datagram names its sender and the sender's incarnation, a random name of one run of the
process, so that a datagram for an earlier incarnation is never processed by a later one."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import reduce
from operator import or_
from typing import Any, Generic, TypeVar

import msgspec

from hubbub.cluster.ordered import (
    SentMessage,
    asked_form,
    may_be_request,
    received,
    sent_form,
)
from hubbub.domain.asking import FeedEvent, NodeRequest, OwnerRequest, Sent
from hubbub.domain.documents.changes import ChangeOutcome, DocumentState
from hubbub.domain.errors import HubbubError, Internal, Malformed, catalogue
from hubbub.domain.messages import Message
from hubbub.domain.topics import FindPut
from hubbub.ports.bus import (
    CHANNEL_EVENTS,
    Attach,
    Attachment,
    Detach,
    FollowedState,
    Join,
    Leave,
    MembersQuery,
    OccupancyQuery,
    Occupy,
    Statement,
)

S = TypeVar("S", bound=Sent)


class PublishCall(msgspec.Struct, Generic[S], frozen=True, tag="publish"):
    """`awaited`: a caller waits until the message has the requested durability. An ordered request
    is sent as a message (`cluster.ordered`)."""

    message: S
    awaited: bool

    @property
    def place(self) -> tuple[str, str]:
        return self.message.hub, self.message.channel


class _SentFindPut(msgspec.Struct, frozen=True, tag="find_put"):
    message: SentMessage


class Follow(msgspec.Struct, frozen=True, tag="follow"):
    """`Attach` for many channels of one partition, with the node's statements about each."""

    followings: tuple[FollowedState, ...]

    @property
    def place(self) -> tuple[str, str]:
        return self.followings[0].hub, self.followings[0].channel


class Followed(msgspec.Struct, frozen=True):
    """The response to `Follow`: a response per channel, or None with the error at the same
    index."""

    attachments: tuple[Attachment | None, ...]
    errors: tuple[HubbubError | None, ...]


class PublishConfirmed(msgspec.Struct, frozen=True):
    """The response to a publish that took effect, now or before."""

    serial: int
    duplicate: bool = False
    message_id: str | None = None
    change: ChangeOutcome | None = None


E = TypeVar("E")


class Tell(msgspec.Struct, Generic[E], frozen=True, tag="tell"):
    """A datagram from an owner to a node: a feed event whose loss nothing else would repair."""

    hub: str
    channel: str
    event: E


class Renew(msgspec.Struct, frozen=True, tag="renew"):
    """A datagram from an owner to all nodes: the owner no longer knows the followers of these
    partitions."""

    partitions: tuple[int, ...]


class Question(msgspec.Struct, frozen=True, tag="question"):
    """A framed request to a node (`NodeRequest.framed`). Such a call is decoded as the request
    itself, and as a `Question` only if the node does not know the request."""

    question: bytes


Call = (
    PublishCall[Any] | Follow | OwnerRequest[Any] | Statement | Tell[FeedEvent] | Renew
    | NodeRequest[Any] | Question
)  # fmt: skip
_FOR_ANY_NODE = (Tell, Renew, NodeRequest, Question)

_BARE = (
    PublishCall[Message] | Follow | Attach | MembersQuery | OccupancyQuery | Detach | Join | Leave
    | Occupy | Renew | Question
)  # fmt: skip
"""Calls that are sent without a wrapper, besides those that rooms register."""


class _Wrapped(msgspec.Struct, frozen=True):
    """A request to an owner, inside the struct named by `OwnerRequest.travels_in`."""

    @property
    def request(self) -> OwnerRequest[Any]:
        request: OwnerRequest[Any] = getattr(self, self.__struct_fields__[0])
        return request


def _wrapper(wrapping: tuple[str, str], kinds: Any) -> type[_Wrapped]:
    tag, field = wrapping
    kind = msgspec.defstruct(
        f"Ask{tag.title()}", [(field, kinds)], bases=(_Wrapped,), tag=tag, frozen=True
    )
    assert issubclass(kind, _Wrapped)
    return kind


C = TypeVar("C")


class LaneRequest(msgspec.Struct, Generic[C], frozen=True, tag="request"):
    """A call with its number in a lane. `floor`: every call of the lane with a smaller number was
    answered or given up; `since`: the floor when the call was first sent."""

    sender: str
    incarnation: str
    receiver: str
    """The incarnation of the receiver; "" while the sender does not know it."""
    lane: int
    number: int
    floor: int
    call: C
    since: int = 0


class Reply(msgspec.Struct, frozen=True, tag="reply"):
    """The response to a request; `value` has the type that the call expects."""

    sender: str
    incarnation: str
    receiver: str
    lane: int
    number: int
    value: msgspec.Raw
    error: HubbubError | None = None


class Stranger(msgspec.Struct, frozen=True, tag="stranger"):
    """The response to a request for another incarnation of this node; the request was not
    processed."""

    sender: str
    incarnation: str
    receiver: str


class FeedDatagram(msgspec.Struct, Generic[E], frozen=True, tag="feed"):
    """A feed event that may be lost. `number` identifies duplicates."""

    sender: str
    incarnation: str
    number: int
    hub: str
    channel: str
    event: E


class Head(msgspec.Struct, frozen=True, array_like=True):
    """The head of a channel."""

    hub: str
    channel: str
    epoch: str
    head: int
    document: DocumentState | None = None


class Heads(msgspec.Struct, frozen=True, tag="heads"):
    """Heads of channels that the receiver follows. They may be lost, since they are repeated."""

    sender: str
    incarnation: str
    heads: tuple[Head, ...]


def place_of(call: Call) -> tuple[str, str] | None:
    """The channel, as hub and name, whose owner must handle the call; None if any node may."""
    return None if isinstance(call, _FOR_ANY_NODE) else call.place


def may_repeat(call: Call) -> bool:
    """Whether the call may be repeated at a second owner with the effect of one call; a publish
    may, if its producer numbers its puts."""
    return not isinstance(call, PublishCall) or call.message.stamp is not None


Datagram = LaneRequest[Call] | Reply | Stranger | FeedDatagram[FeedEvent] | Heads

_ERRORS = catalogue()


def _write_error(value: Any) -> Any:
    if isinstance(value, HubbubError):
        said = [value.code, value.message]
        return [*said, value.details] if value.details else said
    raise NotImplementedError(f"{type(value).__name__} is nothing that nodes tell each other")


def _read_error(kind: type, value: Any) -> Any:
    code, message, *details = value
    error = _ERRORS.get(code, Internal)(message)
    for each in details:
        error.details |= each
    return error


_encoder = msgspec.msgpack.Encoder(enc_hook=_write_error)
_wrappers: dict[tuple[str, str], type[_Wrapped]] = {}
_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}

NOTHING = msgspec.Raw(_encoder.encode(None))


def encode(datagram: Datagram) -> bytes:
    if isinstance(datagram, LaneRequest):
        call = datagram.call
        if isinstance(call, PublishCall) and not isinstance(call.message, Message):
            call = PublishCall(sent_form(call.message), call.awaited)
            datagram = msgspec.structs.replace(datagram, call=call)
        elif isinstance(call, OwnerRequest):
            call = asked_form(call)
        if isinstance(call, OwnerRequest) and call.travels_in is not None:
            wrapper = _wrappers.get(call.travels_in)
            if wrapper is None:
                wrapper = _wrappers[call.travels_in] = _wrapper(call.travels_in, Any)
            datagram = msgspec.structs.replace(datagram, call=wrapper(call))
        elif isinstance(call, NodeRequest) and call.framed:
            datagram = msgspec.structs.replace(datagram, call=Question(_encoder.encode(call)))
    return _encoder.encode(datagram)


Kind = type[OwnerRequest[Any]] | type[NodeRequest[Any]] | type[FeedEvent]


class DatagramReader:
    """Decodes the output of `encode`."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        """`kinds` are the requests that this node handles as an owner and as a node, and the feed
        events that it delivers to its subscribers."""
        calls: list[Any] = [_BARE]
        wrapped: dict[tuple[str, str], list[Any]] = {}
        framed: list[Any] = []
        events: list[Any] = list(CHANNEL_EVENTS)
        for kind in kinds:
            if issubclass(kind, FeedEvent):
                events.append(kind)
            elif issubclass(kind, NodeRequest):
                (framed if kind.framed else calls).append(kind)
            elif kind.travels_in is not None:
                wrapped.setdefault(kind.travels_in, []).append(kind)
        event: Any = reduce(or_, events)
        calls += [_wrapper(around, reduce(or_, inside)) for around, inside in wrapped.items()]
        call: Any = reduce(or_, calls, Tell[event])
        travelling = _wrapper(FindPut.travels_in, _SentFindPut)
        self._ordered: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
            LaneRequest[PublishCall[SentMessage] | travelling]  # type: ignore[valid-type]
        )
        self._decoder: msgspec.msgpack.Decoder[Datagram] = msgspec.msgpack.Decoder(
            reduce(or_, (Reply, Stranger, Heads), LaneRequest[call] | FeedDatagram[event]),
            dec_hook=_read_error,
        )
        self._in_frame: msgspec.msgpack.Decoder[NodeRequest[Any]] | None = (
            msgspec.msgpack.Decoder(reduce(or_, framed)) if framed else None
        )

    def read(self, data: bytes) -> Datagram:
        """Raises `Malformed`."""
        try:
            datagram = self._decoder.decode(data)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise Malformed(f"a datagram cannot be read: {error}") from error
        if isinstance(datagram, LaneRequest):
            call = datagram.call
            if isinstance(call, _Wrapped):
                call = call.request
            elif isinstance(call, Question) and self._in_frame is not None:
                with suppress(msgspec.MsgspecError):
                    call = self._in_frame.decode(call.question)
            if isinstance(call, PublishCall | FindPut) and may_be_request(call.message):
                call = self._read_ordered(data)
            if call is not datagram.call:
                msgspec.structs.force_setattr(datagram, "call", call)
        return datagram

    def _read_ordered(self, data: bytes) -> Call:
        """The call of a request, again, with all that a message may have in it."""
        call = self._ordered.decode(data).call
        if isinstance(call, PublishCall):
            return PublishCall(received(call.message), call.awaited)
        found = received(call.request.message)
        return FindPut(found) if isinstance(found, Message) else found.search()


def answer_to(call: Call, value: object) -> object:
    """The value in the form in which it is sent as the call's response."""
    framed = isinstance(call, NodeRequest) and call.framed
    return _encoder.encode(value) if framed else value


def encode_value(value: object) -> msgspec.Raw:
    return msgspec.Raw(_encoder.encode(value))


def decode_value(value: msgspec.Raw | bytes, kind: Any) -> Any:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind, dec_hook=_read_error)
    return decoder.decode(value)
