"""What nodes say to each other, and how it looks in bytes.

Every datagram names its sender and the sender's incarnation: a random name for one life of the
process, so that what was meant for a node before its restart is never taken up after it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub.domain.commands.routed import RoutedCommand, RoutedMessage, RoutedResult
from hubbub.domain.documents.changes import ChangeOutcome, DocumentQuery, DocumentState
from hubbub.domain.errors import HubbubError, Internal, Malformed, catalogue
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import Message
from hubbub.domain.notices import Member
from hubbub.domain.notifications import NotificationRequest
from hubbub.domain.threads import ThreadsQuery
from hubbub.domain.topics import TopicRequest, channel_of
from hubbub.ports.bus import Attachment, FeedEvent, Following, Watch


class Publish(msgspec.Struct, frozen=True, tag="publish"):
    """`awaited`: somebody waits until the message is as durable as it asked to be."""

    message: Message
    awaited: bool


class _OfChannel(msgspec.Struct, frozen=True):
    """A call about one channel, for its owner."""

    hub: str
    channel: str


class Attach(_OfChannel, frozen=True, tag="attach"):
    """The node follows the channel from now on."""


class Follow(msgspec.Struct, frozen=True, tag="follow"):
    """`Attach` for many channels of one partition, with all that the node has to say of each."""

    followings: tuple[Following, ...]


class Followed(msgspec.Struct, frozen=True):
    """The answer to `Follow`: None where the error of the same place says why not."""

    attachments: tuple[Attachment | None, ...]
    errors: tuple[HubbubError | None, ...]


class Detach(_OfChannel, frozen=True, tag="detach"):
    """The node does not follow the channel any more."""


class Join(_OfChannel, frozen=True, tag="join"):
    members: tuple[Member, ...]


class Leave(_OfChannel, frozen=True, tag="leave"):
    session_ids: tuple[str, ...]


class Occupy(_OfChannel, frozen=True, tag="occupy"):
    count: int


class AskMembers(_OfChannel, frozen=True, tag="members"):
    """Who is present."""


class AskOccupancy(_OfChannel, frozen=True, tag="occupancy"):
    """How many sessions there are."""


class AskHistory(msgspec.Struct, frozen=True, tag="history"):
    query: HistoryQuery


class AskThreads(msgspec.Struct, frozen=True, tag="threads"):
    query: ThreadsQuery


class AskDocument(msgspec.Struct, frozen=True, tag="document"):
    query: DocumentQuery


class AskTopic(msgspec.Struct, frozen=True, tag="topic"):
    request: TopicRequest


class AskNotifications(msgspec.Struct, frozen=True, tag="notifications"):
    request: NotificationRequest


class PublishConfirmed(msgspec.Struct, frozen=True):
    """The answer to a publish that took effect, now or before."""

    serial: int
    duplicate: bool = False
    message_id: str | None = None
    change: ChangeOutcome | None = None


class Tell(msgspec.Struct, frozen=True, tag="tell"):
    """From an owner to a node: a feed event that nothing would heal if it were lost."""

    hub: str
    channel: str
    event: FeedEvent


class Renew(msgspec.Struct, frozen=True, tag="renew"):
    """From an owner to all nodes: it has lost sight of who follows these partitions."""

    partitions: tuple[int, ...]


class SessionTaken(msgspec.Struct, frozen=True, tag="session"):
    """The session was restored at the sender, with these channels."""

    hub: str
    session_id: str
    kept: tuple[str, ...]


class WatchPatterns(msgspec.Struct, frozen=True, tag="watch"):
    """The patterns of the sender; the answer is `Matches`."""

    watch: Watch


class AskWatches(msgspec.Struct, frozen=True, tag="watches"):
    """From a node that is about to own channels: which patterns has the receiver?"""


class Question(msgspec.Struct, frozen=True, tag="question"):
    """Something that each node answers for itself; what it is, is for those to know who ask."""

    question: bytes


class HubChanged(msgspec.Struct, frozen=True, tag="hub_changed"):
    """With a channel: only what the channel's owner decided about it."""

    hub: str
    channel: str | None = None


class UserFollows(msgspec.Struct, frozen=True, tag="user_follows"):
    """A user subscribed with all sessions, or unsubscribed them."""

    hub: str
    user_id: str
    channel: str
    follows: bool


class UserErased(msgspec.Struct, frozen=True, tag="user_erased"):
    hub: str
    user_id: str


class RouteCommand(msgspec.Struct, frozen=True, tag="route_command"):
    """For sessions of the receiver; answered with how many there are."""

    routed: RoutedCommand


class RouteMessage(msgspec.Struct, frozen=True, tag="route_message"):
    routed: RoutedMessage


class ReturnResult(msgspec.Struct, frozen=True, tag="return_result"):
    """To the node that asked."""

    routed: RoutedResult


Call = (
    Publish
    | Attach
    | Follow
    | Detach
    | Join
    | Leave
    | Occupy
    | AskMembers
    | AskOccupancy
    | AskHistory
    | AskThreads
    | AskDocument
    | AskTopic
    | AskNotifications
    | Tell
    | Renew
    | SessionTaken
    | WatchPatterns
    | AskWatches
    | RouteCommand
    | RouteMessage
    | ReturnResult
    | Question
    | HubChanged
    | UserFollows
    | UserErased
)


class Request(msgspec.Struct, frozen=True, tag="request"):
    """A call with its place in a lane. `floor`: the sender has given up, or has its answer to,
    every call of the lane with a smaller number; `since`: what the floor was when the call was
    sent for the first time."""

    sender: str
    incarnation: str
    receiver: str
    """The incarnation that it is meant for; "" while the sender does not know it."""
    lane: int
    number: int
    floor: int
    call: Call
    since: int = 0


class Reply(msgspec.Struct, frozen=True, tag="reply"):
    """The answer to a request; `value` is of the type that the call asks for."""

    sender: str
    incarnation: str
    receiver: str
    lane: int
    number: int
    value: msgspec.Raw
    error: HubbubError | None = None


class Stranger(msgspec.Struct, frozen=True, tag="stranger"):
    """The answer to a request for another incarnation than the one that is here. It was not
    taken up."""

    sender: str
    incarnation: str
    receiver: str


class Feed(msgspec.Struct, frozen=True, tag="feed"):
    """A feed event that may be lost. `number` tells a doubled one."""

    sender: str
    incarnation: str
    number: int
    hub: str
    channel: str
    event: FeedEvent


class Head(msgspec.Struct, frozen=True, array_like=True):
    """How far a channel is."""

    hub: str
    channel: str
    epoch: str
    head: int
    document: DocumentState | None = None


class Heads(msgspec.Struct, frozen=True, tag="heads"):
    """Of channels that the receiver follows. May be lost: it is said again and again."""

    sender: str
    incarnation: str
    heads: tuple[Head, ...]


_FOR_ANY_NODE = (
    Tell
    | Renew
    | SessionTaken
    | WatchPatterns
    | AskWatches
    | RouteCommand
    | RouteMessage
    | ReturnResult
    | Question
    | HubChanged
    | UserFollows
    | UserErased
)


def place_of(call: Call) -> tuple[str, str] | None:
    """The channel, by hub and name, whose owner must answer the call; None where any node may."""
    if isinstance(call, Publish):
        return call.message.hub, call.message.channel
    if isinstance(call, AskHistory | AskThreads | AskDocument):
        return call.query.hub, call.query.channel
    if isinstance(call, AskTopic):
        return channel_of(call.request)
    if isinstance(call, AskNotifications):
        return call.request.hub, call.request.channel
    if isinstance(call, Follow):
        return call.followings[0].hub, call.followings[0].channel
    if isinstance(call, _FOR_ANY_NODE):
        return None
    return call.hub, call.channel


def may_repeat(call: Call) -> bool:
    """Whether the call may take effect at two owners, one after the other, as if it had once: a
    publish only where its producer numbers what it puts."""
    return not isinstance(call, Publish) or call.message.stamp is not None


Datagram = Request | Reply | Stranger | Feed | Heads

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
_decoder: msgspec.msgpack.Decoder[Datagram] = msgspec.msgpack.Decoder(
    Datagram, dec_hook=_read_error
)
_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}

NOTHING = msgspec.Raw(_encoder.encode(None))


def encode(datagram: Datagram) -> bytes:
    return _encoder.encode(datagram)


def decode(data: bytes) -> Datagram:
    """Raises `Malformed`."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise Malformed(f"a datagram cannot be read: {error}") from error


def encode_value(value: object) -> msgspec.Raw:
    return msgspec.Raw(_encoder.encode(value))


def decode_value(value: msgspec.Raw, kind: Any) -> Any:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind, dec_hook=_read_error)
    return decoder.decode(value)
