"""State that a room adds to the feeds of one kind of channel: changed by the channel's owner and
followed by subscribers, in addition to messages or instead of them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from hubbub.domain.asking import FeedEvent
from hubbub.domain.names import ChannelKind
from hubbub.domain.notices import Notice
from hubbub.domain.requests import SubscribeItem
from hubbub.ports.bus import Attachment, Bus, HeadAnnounced


class FollowedChannel(Protocol):
    """The part of a feed that its `FeedPart` uses."""

    channel: str

    @property
    def hub_name(self) -> str: ...

    @property
    def is_used(self) -> bool:
        """Whether there are subscribers, now or soon."""

    @property
    def has_users(self) -> bool:
        """Whether a subscription is in preparation."""

    def say(self, notice: Notice) -> None:
        """Sends to all subscribers."""


class Allowance(Protocol):
    """A budget of memory for the subscriptions of one request, until they begin."""

    reading: asyncio.Semaphore
    """Held during a request to the owner."""

    def take(self, size: int) -> bool:
        """Reserves this many bytes, if available."""


class FeedPart(ABC):
    """The state of one channel on one node. Events may be lost, duplicated or late: the part
    detects what it missed. Except for `read_missed`, methods never block and never raise."""

    __slots__ = ("_bus", "_feed")

    events: ClassVar[tuple[type[FeedEvent], ...]] = ()
    """The types of events that change the state."""
    replaces_messages: ClassVar[bool] = False
    """The channel has no messages to catch up with."""

    def __init__(self, feed: FollowedChannel, bus: Bus) -> None:
        self._feed = feed
        self._bus = bus

    @abstractmethod
    def begin(self, attachment: Attachment) -> None:
        """Starts at the position in the owner's response; an event may have overtaken the
        response."""

    @abstractmethod
    def renewed(self, attachment: Attachment) -> None:
        """The channel's owner (perhaps a new one) sent its position again."""

    @abstractmethod
    def receive_early(self, event: FeedEvent) -> None:
        """Handles an event that arrives before `begin`."""

    @abstractmethod
    def receive(self, event: FeedEvent) -> None:
        """Handles an event that arrives after `begin`."""

    def receive_head(self, head: HeadAnnounced) -> None:  # noqa: B027 - most parts have no use for it
        """The owner announced the channel's head."""

    @abstractmethod
    def info(self) -> Notice:
        """The state, for a session that starts to follow the channel."""

    async def read_missed(self, wanted: SubscribeItem, allowance: Allowance) -> Sequence[Any]:
        """Asks the owner for what a subscribing session missed."""
        return ()

    def catch_up(self, wanted: SubscribeItem, missed: Sequence[Any]) -> Sequence[Notice]:
        """The notices that bring the session to the state in `info`. Nothing is awaited between
        this call and the start of its subscription."""
        return ()

    @property
    def version(self) -> tuple[int, str] | None:
        """The epoch and version from which a restored session continues."""
        return None


NoticeOf = Callable[[str, Any], Notice]
"""Makes the notice that subscribers get, of the channel's name and the event."""


class RoomFeeds(msgspec.Struct, frozen=True):
    """Declares how the feeds of a node handle the events of rooms."""

    parts: Mapping[ChannelKind, type[FeedPart]] = {}
    """By kind of channel. Other kinds have messages only."""
    notices: Mapping[type[FeedEvent], NoticeOf] = {}
    """Events of a room in channels of any kind, of which subscribers are told and which leave
    nothing behind at the node."""

    def joined(self, others: Iterable[RoomFeeds]) -> RoomFeeds:
        parts, notices = dict(self.parts), dict(self.notices)
        for other in others:
            parts.update(other.parts)
            notices.update(other.notices)
        return RoomFeeds(parts, notices)

    @property
    def events(self) -> Iterator[type[FeedEvent]]:
        yield from self.notices
        for part in self.parts.values():
            yield from part.events
