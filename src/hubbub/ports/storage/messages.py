"""Messages of channels: append, read, delete; and the retained one of each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from hubbub.domain.communication.steps import CommunicationStep
from hubbub.domain.messages import Message
from hubbub.domain.topics import ErasedMessages
from hubbub.ports.storage.documents import ChangeAppend


class ChannelHead(msgspec.Struct, frozen=True):
    """Where a stored channel stands: the serial of its newest message in this epoch (0: none yet),
    and the oldest serial that is still there (head + 1 where nothing is)."""

    epoch: str
    head: int
    first: int


class Append(msgspec.Struct, frozen=True):
    """One message to store, under the term with which the writer owns the channel's partition.

    `epoch` and `message.serial` continue the channel's head: for a channel that has no row yet
    the epoch is new and the serial is 1. `retain_until` (ms since 1970) also makes it the
    channel's retained message, in the same transaction. `producer` (a `Producer.id`) and
    `sequence` make it known as that producer's put; 0: nobody's.

    With `change`, a change of the channel's document is stored: alone where the message has no
    serial, or together with the message. With `communication`, that step is part of the same
    transaction.
    """

    message: Message
    epoch: str
    partition: int
    term: int
    retain_until: int | None = None
    producer: int = 0
    sequence: int = 0
    change: ChangeAppend | None = None
    communication: CommunicationStep | None = None


class Published(msgspec.Struct, frozen=True):
    """How many messages of a user were found, by channel; the search goes on behind the serial
    `after` of the channel."""

    found: dict[str, int]
    channel: str
    after: int
    more: bool


class StoredChannel(msgspec.Struct, frozen=True):
    """A channel that holds messages, those from `first` to `head`; up to the first one, none was
    published later than `oldest_at` (ms)."""

    hub: str
    name: str
    epoch: str
    head: int
    first: int
    oldest_at: int
    stored_bytes: int


class Deleted(msgspec.Struct, frozen=True):
    """How many messages went, the bytes of their payloads, and the oldest serial that is still
    there (head + 1 where nothing is, 1 where nothing ever was)."""

    messages: int
    stored_bytes: int
    first: int


class Retained(msgspec.Struct, frozen=True):
    message: Message
    expires_at: int
    """Milliseconds since 1970."""


class StoredPage(msgspec.Struct, frozen=True):
    """Messages in rising order of serial, with the head they were read against. `more`: further
    messages exist in the direction of the query. Messages of more than `PAGE_BYTES` together make a
    page shorter than its limit, but never empty while there are more; a store loads no more than
    that, and one message, into memory."""

    messages: tuple[Message, ...]
    more: bool
    head: ChannelHead | None


class MessageHistory(Protocol):
    """Stored messages, to read."""

    async def read_head(self, hub: str, channel: str) -> ChannelHead | None:
        """None if nothing was ever stored in this channel."""

    async def read_after(self, hub: str, channel: str, serial: int, limit: int) -> StoredPage:
        """The oldest messages with a greater serial."""

    async def read_before(
        self, hub: str, channel: str, serial: int | None, limit: int
    ) -> StoredPage:
        """The newest messages with a smaller serial (None: the newest of all)."""

    async def read_after_time(self, hub: str, channel: str, time: int, limit: int) -> StoredPage:
        """Messages that were published after this time (ms), those with the smallest serials.
        Right even where the clock was set back between them."""

    async def read_before_time(self, hub: str, channel: str, time: int, limit: int) -> StoredPage:
        """Messages that were published before this time (ms), those with the greatest serials."""


AppendAll = Callable[[Sequence[Append]], Awaitable[list[Exception | None]]]
"""What `MessageStore.append` does, for those who need no more of the store."""


class MessageStore(MessageHistory, Protocol):
    """Stored and retained messages."""

    async def append(self, appends: Sequence[Append]) -> list[Exception | None]:
        """Store messages, of any number of channels, in one transaction where possible.

        Answers for each, in order: None when it is on disk, `StaleOwner` if its term is no longer
        the partition's, `Conflict` if it does not continue the channel's head. One refused append
        does not touch the others, except that later ones of the same channel are refused too (no
        gap can arise). Raises `StoreUnavailable` if nothing was stored; where a call is so large
        or of so many hubs that it took several transactions and only some of them failed, the
        messages of those answer `StoreUnavailable`. Calls that overlap in time are grouped into
        one commit.
        """

    async def delete_before(
        self,
        hub: str,
        channel: str,
        serial: int,
        partition: int,
        term: int,
        spare_unread: bool = False,
    ) -> Deleted:
        """Drop messages with a smaller serial; the head stays. With `spare_unread`, only those that
        every cursor of the channel has passed when they go. A long deletion takes several
        transactions, the oldest messages first. Raises `StaleOwner`; what went before stays
        gone."""

    async def erase_messages(
        self,
        hub: str,
        channel: str,
        user_id: str,
        after: int,
        most: int,
        partition: int,
        term: int,
    ) -> ErasedMessages:
        """Take publisher, payload and attributes off what a user published, and these messages out
        of their conversations, looking through at most so many messages behind the serial `after`;
        of the log of communication also off what the user as a peer was sent, and delete copies
        that were to go there. Raises `StaleOwner`."""

    async def find_published(self, hub: str, user_id: str) -> dict[str, int]:
        """How many stored messages of a user there are, by channel; looks at all messages of the
        hub. In the log of communication, messages to the user and copies for the user count,
        too."""

    async def stored_bytes(self, hub: str) -> int:
        """The payload bytes that the hub's messages take up."""

    async def read_stored_hubs(self) -> list[str]:
        """The hubs that have stored something, in order."""

    async def read_channels(self, hub: str, after: str, limit: int) -> list[StoredChannel]:
        """The hub's channels that hold messages, in the order of their names, those behind
        `after`."""

    async def first_at(self, hub: str, channel: str, time: int) -> int:
        """The serial before which every message was published before this time (ms), the greatest
        one that can be told without looking at all; head + 1 if all were."""

    async def first_within(self, hub: str, channel: str, most_bytes: int) -> int:
        """The first serial from which on the messages take up at most so many bytes of payload.
        Where very many messages lie before it, an earlier one that leads there, step by step."""

    async def save_retained(
        self, message: Message, expires_at: int, partition: int, term: int
    ) -> None:
        """Replace the channel's retained message. Raises `StaleOwner`."""

    async def measure(self, hub: str, channel: str, limit: int) -> tuple[int, int]:
        """How many messages are stored in the channel, and their bytes; of the newest `limit`."""

    async def read_retained(self, hub: str, channel: str, now: int) -> Retained | None:
        """The retained message, if it has not expired by `now` (ms)."""

    async def delete_retained(self, hub: str, channel: str, partition: int, term: int) -> None:
        """Raises `StaleOwner`."""
