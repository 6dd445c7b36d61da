"""How a node's sessions reach the owner of a channel, and how the owner reaches its subscribers.

A channel has one owner in the cluster. Sessions live on any node and never touch a channel
object: they ask through `Bus`. On one node the bus is a direct call; between nodes it is a
network.

Contract of the bus:
- Requests (`publish`, `attach`, `history` …) take effect once or fail with `Unavailable`; they
  are never applied twice, and those of one session to one channel arrive in the order in which
  they were made.
- Feed events (owner to nodes) may be dropped, doubled and delayed. Receivers check serials,
  ignore what they have, and fetch what they miss. Owners announce their head from time to time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

import msgspec

from hubbub.domain.commands.routed import RoutedCommand, RoutedMessage, RoutedResult
from hubbub.domain.documents.changes import (
    ChangeOutcome,
    DocumentAnswer,
    DocumentQuery,
    DocumentState,
    DocumentUpdate,
)
from hubbub.domain.errors import HubbubError
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import Message
from hubbub.domain.notices import HistoryPage, Member
from hubbub.domain.notifications import (
    Notification,
    NotificationAnswer,
    NotificationRequest,
    NotificationState,
)
from hubbub.domain.threads import ThreadsFound, ThreadsQuery
from hubbub.domain.topics import TopicAnswer, TopicRequest

TOPIC_WAIT_SECONDS = 3.0

Topic = Callable[[TopicRequest], Awaitable[TopicAnswer]]
"""What `Bus.topic` does, for those who need no more of the bus."""


class PublishOutcome(msgspec.Struct, frozen=True):
    """The outcome of a publish: its serial, or the error."""

    serial: int = 0
    error: HubbubError | None = None
    duplicate: bool = False
    """It was there already; the serial is the original's, 0 if that has been reclaimed."""
    message_id: str | None = None
    """The original's, where it is a duplicate."""
    change: ChangeOutcome | None = None
    """Of a change of the channel's document."""


PublishReply = Callable[[PublishOutcome], None]


class Attachment(msgspec.Struct, frozen=True):
    """Where a channel stands when a node begins to follow it."""

    epoch: str
    head: int
    retained: Message | None
    notifications: NotificationState | None = None
    """Of a notification channel."""
    document: DocumentState | None = None
    """Of a document channel."""
    opened: int = 0
    """The head that the channel had when its owner opened it."""


class Following(msgspec.Struct, frozen=True):
    """All that a node has to say to the owner of a channel that it follows: who of its sessions is
    present, and how many are subscribed."""

    hub: str
    channel: str
    members: tuple[Member, ...]
    count: int
    by_pattern: bool = False
    """None of the node's sessions follows it by its name."""


class Watch(msgspec.Struct, frozen=True):
    """The patterns of a hub that sessions of a node are subscribed to, all of them. One with a
    higher version holds."""

    hub: str
    patterns: tuple[str, ...]
    version: int
    wanted: str = ""
    """The pattern whose matches the node asks for; "": for none."""
    most: int = 0
    """Matches that the node takes."""


class Matches(msgspec.Struct, frozen=True):
    """The open channels that match the pattern that was asked for."""

    channels: tuple[str, ...] = ()
    complete_since: int = 0
    """None of the hub's channels was let go since then, in milliseconds since 1970."""


class MessagePublished(msgspec.Struct, frozen=True, tag="published"):
    """Feed event: a message, in the epoch that its serial counts in."""

    message: Message
    epoch: str


class DocumentChanged(msgspec.Struct, frozen=True, tag="document"):
    """Feed event: what raised the channel's document to the update's version. Like a message it
    may be lost, doubled or late."""

    update: DocumentUpdate
    size: int
    """Of the document since then."""


class MembersJoined(msgspec.Struct, frozen=True, tag="joined"):
    members: tuple[Member, ...]


class MembersLeft(msgspec.Struct, frozen=True, tag="left"):
    members: tuple[Member, ...]


class MembersPresent(msgspec.Struct, frozen=True, tag="present"):
    """Feed event: these are all who are there; told after the channel has moved to a new owner."""

    members: tuple[Member, ...]


class OccupancyChanged(msgspec.Struct, frozen=True, tag="occupancy"):
    count: int


class HeadAnnounced(msgspec.Struct, frozen=True, tag="head"):
    """Feed event: the owner stands here. Whoever is behind has missed something."""

    epoch: str
    head: int
    document: DocumentState | None = None


class ChannelMatched(msgspec.Struct, frozen=True, tag="matched"):
    """Feed event: a channel was opened that a pattern of the node matches. It is told before any
    other event of the channel."""

    attachment: Attachment


class ChannelClosed(msgspec.Struct, frozen=True, tag="closed"):
    """Feed event: a channel that the node follows by patterns only has gone, since nobody used
    it."""


class ReadMark(msgspec.Struct, frozen=True):
    """Which notifications were marked as read: these, or all up to a timestamp."""

    read_at: int
    ids: tuple[str, ...] = ()
    up_to: int | None = None
    read_by: str | None = None


class NotificationsChanged(msgspec.Struct, frozen=True, tag="notifications"):
    """Feed event: notifications were created, or read, or (neither) went or became unread. The
    `state` is that afterwards. Told in the order of revisions."""

    state: NotificationState
    created: tuple[Notification, ...] = ()
    read: ReadMark | None = None


class Replies(msgspec.Struct, frozen=True):
    """The answers of other nodes by name, and the nodes that did not answer in time."""

    answers: dict[str, bytes] = {}
    silent: tuple[str, ...] = ()


FeedEvent = (
    MessagePublished
    | DocumentChanged
    | MembersJoined
    | MembersLeft
    | MembersPresent
    | OccupancyChanged
    | HeadAnnounced
    | NotificationsChanged
    | ChannelMatched
    | ChannelClosed
)


class FeedSink(Protocol):
    """A node, as the owner of a channel sees it."""

    def receive(self, hub: str, channel: str, event: FeedEvent) -> None:
        """Pass an event on to this node's subscribers. Never blocks, never raises."""

    def hub_changed(self, hub: str) -> None:
        """The settings of a hub changed: read them again and apply them."""

    def channel_changed(self, hub: str, channel: str) -> None:
        """The owner of a channel decided something about it, which the hub's settings know."""

    async def user_follows(self, hub: str, user_id: str, channel: str, follows: bool) -> None:
        """A user subscribed with all sessions, present and future, or unsubscribed them: so do
        those that are here."""

    def session_replaced(self, hub: str, session_id: str, kept: Collection[str]) -> None:
        """The session was restored on another node, which follows the channels that it `kept`."""

    def owners_changed(self, partitions: Collection[int]) -> None:
        """These partitions have other owners, or lost sight of this node: tell them again what it
        follows."""

    def watches(self) -> list[Watch]:
        """The patterns that sessions of this node are subscribed to, by hub."""


class CommandReceiver(Protocol):
    """A node, as other nodes reach its clients. Nothing here waits or raises."""

    def command_routed(self, asking: str, routed: RoutedCommand) -> int:
        """Hand a command of the node `asking` to the receiver's sessions; answers how many."""

    def result_routed(self, routed: RoutedResult) -> None:
        """A client of another node answers a command that was asked here."""

    def message_routed(self, routed: RoutedMessage) -> None: ...


class Bus(Protocol):
    """The way to the owners, for the sessions of one node."""

    alone: bool
    """Whether there is no other node, now and later."""

    def publish(self, message: Message, reply: PublishReply | None) -> None:
        """Hand a message to its channel's owner. `reply` is called exactly once, at the latest
        when the message is as durable as it asked to be; perhaps before this returns."""

    async def attach(self, hub: str, channel: str) -> Attachment:
        """From now on this node receives the channel's feed events. Attaching again renews it."""

    async def follow(self, followings: Sequence[Following]) -> list[Attachment | HubbubError]:
        """Attach to many channels at once, and have the owners forget what this node said before
        and does not say again. Answers for each, in order."""

    def detach(self, hub: str, channel: str) -> None:
        """This node has no subscriber of the channel left, or by patterns only."""

    async def watch(self, watch: Watch) -> Matches:
        """Tell all owners the patterns of this node: from now on it is told of each channel that
        is opened and matches. Answers the open channels that match the one that is asked for;
        raises `TooManyMatches` where these are too many."""

    def join(self, hub: str, channel: str, members: Sequence[Member]) -> None:
        """These sessions of this node are present. Saying it again changes nothing."""

    def leave(self, hub: str, channel: str, session_ids: Sequence[str]) -> None: ...

    def occupy(self, hub: str, channel: str, count: int) -> None:
        """So many sessions of this node are subscribed."""

    async def members(self, hub: str, channel: str) -> tuple[Member, ...]:
        """Who is present, on all nodes."""

    async def occupancy(self, hub: str, channel: str) -> int: ...

    async def history(self, query: HistoryQuery) -> HistoryPage:
        """A page; `recovered` is False where something that was asked for is gone."""

    async def threads(self, query: ThreadsQuery) -> ThreadsFound:
        """A page of a channel's conversations. Raises `NotFound` where the channel does not
        store."""

    async def document(self, query: DocumentQuery) -> DocumentAnswer:
        """A document, or its updates, as they are on disk. Raises `NotFound` where it has no such
        part, `HistoryGone` where what was asked for is not kept any more. A change of a document
        is published (`Attributes.change`), so that it keeps its place among messages."""

    async def topic(self, request: TopicRequest) -> TopicAnswer:
        """Have the owner of a topic do something for a producer or a durable subscription; what
        comes back is of the type that `domain.topics.answer_type` names. A request that waits may
        not wait for longer than `TOPIC_WAIT_SECONDS`."""

    async def notification(self, request: NotificationRequest) -> NotificationAnswer:
        """Have the owner of a notification channel do something; what comes back is of the type
        `request.answer`. Any request may take effect twice as if it had once."""

    def announce_session(self, hub: str, session_id: str, kept: Sequence[str]) -> None:
        """Tell every other node that this session goes on here, on these channels: where its old
        connection is still open, it ends."""

    async def ask_others(self, question: bytes) -> Replies:
        """Ask every other node, and do not wait for long."""

    def answer_with(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        """How this node answers such questions."""

    def receive_commands(self, receiver: CommandReceiver) -> None:
        """Who on this node is handed what other nodes route here. Called before the bus is in
        use."""

    async def route_command(self, routed: RoutedCommand) -> int:
        """Hand a command to the receiver's sessions on all other nodes. Answers how many sessions
        have it on the nodes that answer soon; a node that is lost before it answers may have handed
        it to one."""

    def return_result(self, node: str, routed: RoutedResult) -> None:
        """To the node that asked. Lost with that node only."""

    async def route_message(self, routed: RoutedMessage) -> None:
        """To the receiver's sessions on all other nodes that can be reached."""

    async def announce_hub_change(self, hub: str) -> None:
        """Tell every node, this one included, that a hub's settings changed."""

    async def announce_channel_change(self, hub: str, channel: str) -> None:
        """The same for what the owner of one channel decided about it."""

    async def announce_user(self, hub: str, user_id: str, channel: str, follows: bool) -> None:
        """Tell every node, this one included, that a user subscribed with all sessions, or
        unsubscribed them."""

    async def announce_erasure(self, hub: str, user_id: str) -> None:
        """Tell every node, this one included, that a user was erased: pushes that wait with content
        of the user, or for the user's devices, are not sent."""
