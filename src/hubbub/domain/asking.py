"""Requests between nodes: requests that a channel's owner answers on any node, requests that every
node answers for itself, and events of a channel's feed."""

from __future__ import annotations

from enum import IntEnum, unique
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar, get_args

import msgspec

from hubbub.domain.messages import Message, Stamp

Answer = TypeVar("Answer", covariant=True)
LONGEST_WAIT_SECONDS = 3.0


class OwnerRequest(msgspec.Struct, Generic[Answer], frozen=True):
    """A request for the owner of a channel, which the owner answers with an `Answer`. A request
    that waits may not wait for longer than `LONGEST_WAIT_SECONDS`.

    A room's requests travel between nodes as one union, each with a tag of its own."""

    travels_in: ClassVar[tuple[str, str] | None] = ("ask", "request")
    """Between nodes, the tag of the struct around the request, and the name of its field; None: the
    request travels by itself."""
    may_wait: ClassVar[bool] = False
    """The answer may come only when there is something to say."""

    @property
    def place(self) -> tuple[str, str]:
        """The channel: its hub, and its name."""
        raise NotImplementedError(f"{type(self).__name__} does not say which channel it is about")


class ChannelRequest(OwnerRequest[Answer], Generic[Answer], frozen=True):
    """A request that names its channel first."""

    hub: str
    channel: str

    @property
    def place(self) -> tuple[str, str]:
        return self.hub, self.channel


@unique
class NodeLane(IntEnum):
    """The lanes of requests to nodes. Requests of one lane arrive in the order in which they were
    sent. Each lane has a sequence and a window of its own; a number is never used for something
    else, since nodes of neighbouring versions talk to each other."""

    HUB = -1
    QUESTIONS = -2
    COMMANDS = -3
    PATTERNS = -4


class NodeRequest(msgspec.Struct, Generic[Answer], frozen=True):
    """A request that a node answers for itself, with an `Answer`. It has a tag of its own."""

    lane: ClassVar[NodeLane] = NodeLane.QUESTIONS
    framed: ClassVar[bool] = True
    """Between nodes, the request and its answer are sent as bytes within a `question`, so that a
    node of another version that does not know the request refuses it at once. Without a frame, such
    a node ignores it."""


class Announcement(NodeRequest[None], frozen=True):
    """Every node is told that something about a hub has changed. More than one room of a node may
    want to know."""

    lane = NodeLane.HUB
    framed = False

    hub: str


class FeedEvent(msgspec.Struct, frozen=True):
    """The owner of a channel tells it to the nodes that follow the channel. Each kind of event has
    a tag of its own."""

    missed_shows: ClassVar[bool] = False
    """A node finds out by itself that it missed the event, which is therefore sent once."""


class OrderedRequest(OwnerRequest[Answer], Generic[Answer], frozen=True):
    """A request that takes its place among the messages of its channel, and is stored with them. It
    is published (`Bus.publish`) and answered like a message. `message` is its envelope: who sends
    it, when, with which payload and under which stamp."""

    message: Message

    @property
    def hub(self) -> str:
        return self.message.hub

    @property
    def channel(self) -> str:
        return self.message.channel

    @property
    def stamp(self) -> Stamp | None:
        return self.message.stamp

    @property
    def place(self) -> tuple[str, str]:
        return self.message.hub, self.message.channel

    def search(self) -> OwnerRequest[Any]:
        """The request that finds the answer to an earlier copy of this one (a `FoundPut` or None)
        and leaves no trace."""
        raise NotImplementedError(f"{type(self).__name__} takes no producer")


Sent = Message | OrderedRequest[Any]
"""A message or a request that a channel accepts in order."""


def envelope_of(sent: Sent) -> Message:
    return sent if isinstance(sent, Message) else sent.message


@cache
def answer_of(kind: type[OwnerRequest[Any] | NodeRequest[Any]]) -> Any:
    """The type of the answer to such a request, for those who read it from bytes."""
    (base,) = getattr(kind, "__orig_bases__")  # noqa: B009 - msgspec does not declare it
    (answer,) = get_args(base)
    return None if answer is type(None) else answer
