"""How a node's sessions reach the owner of a channel, and how the owner reaches its subscribers.

A channel has one owner in the cluster. Sessions live on any node and never touch a channel
object: they ask through `Bus`. On one node the bus is a direct call; between nodes it is a
network.

Contract of the bus:
- Requests (`publish`, `ask`, `tell` …) take effect once or fail with `Unavailable`; they
  are never applied twice, and those of one session to one channel arrive in the order in which
  they were made.
- Feed events (owner to nodes) may be dropped, doubled and delayed. Receivers check serials,
  ignore what they have, and fetch what they miss. Owners announce their head from time to time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from hubbub.domain.asking import (
    Announcement,
    ChannelRequest,
    FeedEvent,
    NodeLane,
    NodeRequest,
    OwnerRequest,
    Sent,
)
from hubbub.domain.documents.changes import ChangeOutcome, DocumentState
from hubbub.domain.errors import HubbubError
from hubbub.domain.messages import Message
from hubbub.domain.notices import Member
from hubbub.domain.notifications import NotificationState

_A = TypeVar("_A")


class Ask(Protocol):
    """The signature of `Bus.ask`, for callers that need nothing else of the bus."""

    async def __call__(self, request: OwnerRequest[_A], /) -> _A: ...


class PublishOutcome(msgspec.Struct, frozen=True):
    """The result of a publish: the serial, or the error."""

    serial: int = 0
    error: HubbubError | None = None
    duplicate: bool = False
    """The message is a repeat; the serial is the original's, 0 if the original was deleted."""
    message_id: str | None = None
    """The original's id, if the message is a repeat."""
    change: ChangeOutcome | None = None
    """The outcome of a change of the channel's document."""


PublishReply = Callable[[PublishOutcome], None]

Lane = Callable[[Message], None]
"""The short way to a channel: numbers a message that asks for nothing, and sends it to the
subscribers. It is valid until its caller returns to the event loop."""


class Attachment(msgspec.Struct, frozen=True):
    """The position of a channel at which a node begins to follow it."""

    epoch: str
    head: int
    retained: Message | None
    notifications: NotificationState | None = None
    """Only for notification channels."""
    document: DocumentState | None = None
    """Only for document channels."""
    opened: int = 0
    """The channel's head at the time when its owner opened it."""


class Attach(ChannelRequest[Attachment], frozen=True, tag="attach"):
    """Subscribes the asking node to the channel's feed events. Attaching again renews the
    subscription."""

    travels_in = None


class MembersQuery(ChannelRequest[tuple[Member, ...]], frozen=True, tag="members"):
    """Returns the sessions that are present, on all nodes."""

    travels_in = None


class OccupancyQuery(ChannelRequest[int], frozen=True, tag="occupancy"):
    """Returns how many sessions are subscribed, on all nodes."""

    travels_in = None


class Statement(msgspec.Struct, frozen=True):
    """A node tells the owner of a channel about its sessions; the owner does not answer."""

    hub: str
    channel: str

    @property
    def place(self) -> tuple[str, str]:
        return self.hub, self.channel


class Detach(Statement, frozen=True, tag="detach"):
    """The node has no subscriber of the channel left, or only subscribers by pattern."""


class Join(Statement, frozen=True, tag="join"):
    """These sessions of the node are present. Idempotent."""

    members: tuple[Member, ...]


class Leave(Statement, frozen=True, tag="leave"):
    """These sessions of the node are present no longer."""

    session_ids: tuple[str, ...]


class Occupy(Statement, frozen=True, tag="occupy"):
    """The number of sessions of the node that are subscribed."""

    count: int


class FollowedState(msgspec.Struct, frozen=True):
    """A node's complete state for a channel that it follows: its present sessions, and how many are
    subscribed."""

    hub: str
    channel: str
    members: tuple[Member, ...]
    count: int
    by_pattern: bool = False
    """No session of the node follows the channel by name."""


class Watch(msgspec.Struct, frozen=True):
    """All patterns of a hub to which sessions of a node are subscribed. A higher version replaces a
    lower one."""

    hub: str
    patterns: tuple[str, ...]
    version: int
    wanted: str = ""
    """The pattern whose matches the node requests; "": none."""
    most: int = 0
    """The most matches that the node accepts."""


class Matches(msgspec.Struct, frozen=True):
    """The open channels that match the requested pattern."""

    channels: tuple[str, ...] = ()
    complete_since: int = 0
    """No channel of the hub has been closed since this time, in milliseconds since 1970."""


class MessagePublished(FeedEvent, frozen=True, tag="published"):
    """A message, with the epoch of its serial."""

    missed_shows = True

    message: Message
    epoch: str


class MembersJoined(FeedEvent, frozen=True, tag="joined"):
    members: tuple[Member, ...]


class MembersLeft(FeedEvent, frozen=True, tag="left"):
    members: tuple[Member, ...]


class MembersPresent(FeedEvent, frozen=True, tag="present"):
    """The complete list of members, sent after the channel moved to a new owner."""

    members: tuple[Member, ...]


class OccupancyChanged(FeedEvent, frozen=True, tag="occupancy"):
    count: int


class HeadAnnounced(FeedEvent, frozen=True, tag="head"):
    """The owner's head. A receiver with a lower serial has missed messages."""

    epoch: str
    head: int
    document: DocumentState | None = None


class ChannelMatched(FeedEvent, frozen=True, tag="matched"):
    """A channel was opened that matches a pattern of the node. Precedes all other
    events of the channel."""

    attachment: Attachment


class ChannelClosed(FeedEvent, frozen=True, tag="closed"):
    """An unused channel was closed that the node follows only by patterns."""


CHANNEL_EVENTS: tuple[type[FeedEvent], ...] = (
    MessagePublished,
    MembersJoined,
    MembersLeft,
    MembersPresent,
    OccupancyChanged,
    HeadAnnounced,
    ChannelMatched,
    ChannelClosed,
)
"""The events of any channel."""


class FeedSink(Protocol):
    """A node as the receiver of feed events from channels' owners."""

    def receive(self, hub: str, channel: str, event: FeedEvent) -> None:
        """Passes an event on to this node's subscribers. Never blocks, never raises."""

    def receive_message(self, hub: str, channel: str, message: Message, epoch: str) -> None:
        """The same as `receive` with `MessagePublished`, for an owner in the same process."""

    def owners_changed(self, partitions: Collection[int]) -> None:
        """These partitions have new owners, or owners that lost contact with this node: the node
        announces again what it follows."""


class HubChanged(Announcement, frozen=True, tag="hub_changed"):
    """The settings of a hub changed in the store, or the hub is gone. With `channel`: the owner of
    this owned channel changed its access rules, and nothing else changed."""

    channel: str | None = None


class UserErased(Announcement, frozen=True, tag="user_erased"):
    """A user was erased from the store: every room discards what it has of the user in memory."""

    user_id: str


class SessionTaken(Announcement, frozen=True, tag="session"):
    """The session was restored at the sender, where it follows the channels in `kept`: a connection
    that another node still has is closed."""

    session_id: str
    kept: tuple[str, ...]


class WatchPatterns(NodeRequest[Matches], frozen=True, tag="watch"):
    """The patterns of the asking node. Raises `TooManyMatches`."""

    lane = NodeLane.PATTERNS
    framed = False

    watch: Watch


class AskWatches(NodeRequest[tuple[Watch, ...]], frozen=True, tag="watches"):
    """Returns the patterns to which sessions of the node are subscribed, by hub."""

    lane = NodeLane.PATTERNS
    framed = False


class NoAnswer(msgspec.Struct, frozen=True):
    """Why a node did not answer."""

    error: HubbubError
    taken: bool = False
    """The node was lost after it was sent the request, which may have taken effect there."""
    left: bool = False
    """The node is no longer in the cluster."""


class Answers(msgspec.Struct, Generic[_A], frozen=True):
    """The answers to a request to all nodes. The first is that of this node; others are sorted by
    the node's name."""

    given: dict[str, _A]
    missing: dict[str, NoAnswer]


class Bus(Protocol):
    """The connection of one node to the owners of channels and to the other nodes.

    Rooms register the handlers of requests (`engine.rooms.Room`)."""

    alone: bool
    """Whether this is a single-node installation."""

    def publish(self, sent: Sent, reply: PublishReply | None) -> None:
        """Sends a message, or a request that takes its place among messages, to its channel's
        owner. `reply` is called exactly once, at the latest when it has the requested durability,
        possibly before this returns."""

    def lane(self, hub: str, channel: str) -> Lane | None:
        """The short way to a channel whose owner is in this process, if the channel is open, keeps
        no messages on disk, and nothing waits in it; None: only `publish` leads there."""

    async def ask(self, request: OwnerRequest[_A], /) -> _A:
        """Returns the answer of the owner of the request's channel. Raises the `HubbubError` that
        the owner answers."""

    def tell(self, statement: Statement) -> None:
        """Sends a statement to the owner of its channel, without waiting for it to arrive."""

    async def follow(self, followings: Sequence[FollowedState]) -> list[Attachment | HubbubError]:
        """Attaches to many channels at once; owners discard earlier state of this node that is not
        repeated. Returns a result for each, in order."""

    async def ask_all(self, request: NodeRequest[_A], /) -> Answers[_A]:
        """Asks this node, then all others, with a short timeout. Raises the `HubbubError` of this
        node; the others are not asked then."""

    async def broadcast(self, announcement: Announcement, /) -> None:
        """Tells this node, then all others, and returns when they have dealt with it. Raises the
        `HubbubError` of this node. A node that cannot be reached is logged: it reads the store
        again by itself."""

    def send(self, request: NodeRequest[None], to: str | None = None) -> None:
        """Sends a request to one node, or to all others, without waiting for an answer. It is lost
        only if the node is."""


class OwnerBus(Protocol):
    """The connection of the channels of one node to the nodes that follow them, and to the channels
    of other nodes."""

    @property
    def sink(self) -> FeedSink | None:
        """The only node, in the same process; None: there may be others."""

    def emit(self, nodes: Sequence[str], hub: str, channel: str, event: FeedEvent) -> None:
        """Sends a feed event to nodes."""

    def publish(self, sent: Sent, reply: PublishReply | None) -> None:
        """See `Bus.publish`."""

    async def ask(self, request: OwnerRequest[_A], /) -> _A:
        """See `Bus.ask`."""

    async def ask_all(self, request: NodeRequest[_A], /) -> Answers[_A]:
        """See `Bus.ask_all`."""

    def fenced(self, partition: int) -> None:
        """The store refused a write: another node owns the partition."""
