"""Rooms at the owner of channels: the features, as the owner sees them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, Generic, TypeVar

from hubbub.domain.asking import OrderedRequest, OwnerRequest
from hubbub.domain.documents.steps import Steps
from hubbub.domain.errors import HubbubError
from hubbub.domain.messages import Message
from hubbub.domain.topics import FoundPut, no_topic
from hubbub.engine.channels.channel import Channel
from hubbub.engine.rooms import Room
from hubbub.ports.bus import PublishOutcome
from hubbub.ports.storage.messages import Append, Deleted

_R = TypeVar("_R")
_T = TypeVar("_T")
_Request = TypeVar("_Request", bound=OrderedRequest[Any], contravariant=True)

OwnerHandler = Callable[[Any], Coroutine[Any, Any, Any]]
"""Answers a request at the owner of its channel. Raises a `HubbubError` where it cannot."""
ChannelHandler = Callable[[Channel, Any], Awaitable[Any]]
"""Like an `OwnerHandler`, but also gets the channel, read from disk, which stays open until the
handler returns."""


class PreparedWrite:
    """A prepared ordered request. `message` is what is stored; None: nothing is stored. If
    `numbered`, the message gets the channel's next serial and is delivered to followers."""

    error: HubbubError | None = None
    """Why the request is refused. It is answered when everything before it is on disk."""
    message: Message | None = None
    numbered: bool = False
    kept_bytes: int = 0
    """The bytes that the request adds to the hub's stored bytes."""

    def complete(self, append: Append) -> Append:
        """Adds what is stored in the transaction of the message."""
        return append

    def outcome(self) -> PublishOutcome:
        """The answer to whoever made the request, once it is on disk."""
        return PublishOutcome(self.message.serial if self.message is not None else 0)


class OrderedHandler(ABC, Generic[_Request]):
    """Serves requests that take their place among the messages of a channel. They are prepared one
    after the other, each against the state after the previous one, and are stored together with the
    messages around them."""

    def size(self, request: _Request) -> int:
        """The bytes that count as stored from when the request is taken in until it is stored."""
        return len(request.message.payload)

    def spares_quota(self, request: _Request) -> bool:
        """Whether the request is served in a hub whose quota of stored bytes is used up."""
        return False

    def before(self, channel: Channel, request: _Request) -> Iterable[OrderedRequest[Any]]:
        """Requests of the room's own that take the place right before this request."""
        return ()

    @abstractmethod
    def prepare(self, channel: Channel, request: _Request) -> Steps[PreparedWrite]:
        """Prepares the request for the store, in steps. No append of the channel is in progress,
        and none begins before the last step. Raises the `HubbubError` for which the request is
        refused."""

    def stored(self, channel: Channel, prepared: Any) -> None:
        """The request is on disk: tell the followers. Its message follows, and the answer."""

    async def original(self, producer: int, request: _Request) -> FoundPut:
        """The answer to a repeat, by the row of its producer. Raises `SequenceReused`."""
        raise NotImplementedError(f"{type(request).__name__} takes no producer")


class OwnerRoom(Room):
    """A feature at the owner of channels."""

    owner_requests: Mapping[type[OwnerRequest[Any]], OwnerHandler] = {}
    channel_requests: Mapping[type[OwnerRequest[Any]], ChannelHandler] = {}
    """Requests that need the channel open. Whatever fails because the channel moves to another node
    meanwhile is asked there again."""
    ordered_requests: Mapping[type[OrderedRequest[Any]], OrderedHandler[Any]] = {}
    replaces_messages: bool = False
    """The channels that the room keeps have no messages; `load` says where they stand."""

    async def joining(self) -> None:
        """The node is about to own channels, and can ask the other nodes."""

    def owned(self, partitions: Collection[int]) -> None:
        """The owner of channels begins to own these partitions."""

    async def released(self, partitions: Collection[int]) -> None:
        """Another node owns these partitions now."""

    def keeps(self, channel: str) -> bool:
        """Whether the room has data on disk about channels of this name. If so, it must `load` each
        of them."""
        return False

    def opened(self, channel: Channel) -> None:
        """A channel that the room keeps comes into memory."""

    async def load(self, channel: Channel) -> None:
        """Reads what the room has on disk about a channel; may be called again. Raises
        `StoreUnavailable`."""

    async def attaching(self, channel: Channel) -> None:
        """A node is about to follow a channel that a room keeps and that was read. Raises a
        `HubbubError` if the node cannot."""

    def appended(self, channel: Channel) -> None:
        """An append to a channel with a state of a room succeeded: memory and disk agree."""

    def closed(self, channel: Channel) -> None:
        """The owner closes the channel: it is unused, another node owns it, or its hub was
        deleted."""

    def stored(self, channel: Channel, message: Message) -> None:
        """A message is on disk, and followers are about to get it."""

    def pushed(self, message: Message, options: Mapping[str, Any] | None) -> None:
        """A message marked `push`, which the channel's rules allow, is on disk, or accepted if its
        channel does not store."""

    def messages_erased(self, hub: str, channel: str) -> None:
        """Messages of a channel were changed in the store: drop copies of them from memory."""

    def reclaimed(self, hub: str, channel: str, deleted: Deleted) -> None:
        """Retention has deleted messages of a channel, which may be open or not."""

    async def expire(self) -> None:
        """Called periodically: deletes what has expired. Raises `StoreUnavailable`."""

    async def settle(self) -> None:
        """The last call, after all sessions have ended: waits until all accepted writes are on
        disk."""


def of_topic(
    serve: Callable[[Channel, _R], Awaitable[_T]],
) -> Callable[[Channel, _R], Awaitable[_T]]:
    """Serves channels that store, and raises `TopicNotFound` for others."""

    def serve_topic(channel: Channel, request: _R) -> Awaitable[_T]:
        if not channel.rules.store:
            raise no_topic(channel.hub, channel.name)
        return serve(channel, request)

    return serve_topic
