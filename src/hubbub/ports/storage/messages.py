"""Messages of channels: append, read, delete; and each channel's retained message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from hubbub.domain.communication.steps import CommunicationStep
from hubbub.domain.messages import Message
from hubbub.domain.topics import ErasedMessages
from hubbub.ports.storage.documents import ChangeAppend


class ChannelHead(msgspec.Struct, frozen=True):
    """The position of a stored channel: the serial of its newest message in this epoch (0: none
    yet), and the oldest stored serial (head + 1 if none is stored)."""

    epoch: str
    head: int
    first: int


class Append(msgspec.Struct, frozen=True):
    """One message to store, under the term in which the writer owns the channel's partition.

    `epoch` and `message.serial` continue the channel's head; a channel without a row gets a new
    epoch and serial 1. `retain_until` (ms since 1970) also makes it the channel's retained message,
    in the same transaction. `producer` (a `Producer.id`) and `sequence` record it as that
    producer's put; 0: none.

    `search`: the message is indexed (see `ports.storage.search`).

    With `change`, a change of the channel's document is stored: alone if the message has no serial,
    or together with the message. `communication` is a step in the same transaction.
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
    search: bool = False


class MessagesOfUser(msgspec.Struct, frozen=True):
    """How many messages of a user were found, by channel; the search continues after the serial
    `after`."""

    found: dict[str, int]
    channel: str
    after: int
    more: bool


class StoredChannel(msgspec.Struct, frozen=True):
    """A channel with stored messages from `first` to `head`. The first message was published at
    `oldest_at` (ms) or earlier, the newest at `last_at`."""

    hub: str
    name: str
    epoch: str
    head: int
    first: int
    oldest_at: int
    stored_bytes: int
    last_at: int


class Deleted(msgspec.Struct, frozen=True):
    """The number of deleted messages, the bytes of their payloads, and the oldest stored serial
    (head + 1 if none is stored, 1 if none ever was)."""

    messages: int
    stored_bytes: int
    first: int


class Retained(msgspec.Struct, frozen=True):
    message: Message
    expires_at: int
    """Milliseconds since 1970."""


class StoredPage(msgspec.Struct, frozen=True):
    """Messages in ascending order of serial, with the head at the time of reading. `more`: further
    messages exist in the direction of the query. A page with more than `PAGE_BYTES` is shorter than
    its limit, but never empty while there are more; a store loads no more than that, plus one
    message, into memory."""

    messages: tuple[Message, ...]
    more: bool
    head: ChannelHead | None


class MessageHistory(Protocol):
    """Read access to stored messages."""

    async def read_head(self, hub: str, channel: str) -> ChannelHead | None:
        """None if the channel never stored anything."""

    async def read_after(self, hub: str, channel: str, serial: int, limit: int) -> StoredPage:
        """The oldest messages with a greater serial."""

    async def read_before(
        self, hub: str, channel: str, serial: int | None, limit: int
    ) -> StoredPage:
        """The newest messages with a smaller serial (None: the newest of all)."""

    async def read_after_time(self, hub: str, channel: str, time: int, limit: int) -> StoredPage:
        """Messages published after this time (ms), with the smallest serials. Correct even if the
        clock was set back in between."""

    async def read_before_time(self, hub: str, channel: str, time: int, limit: int) -> StoredPage:
        """Messages published before this time (ms), with the greatest serials."""


AppendAll = Callable[[Sequence[Append]], Awaitable[list[Exception | None]]]
"""The signature of `MessageStore.append`, for callers that need nothing else of the store."""


class MessageStore(MessageHistory, Protocol):
    """Stored and retained messages."""

    async def append(self, appends: Sequence[Append]) -> list[Exception | None]:
        """Stores messages of any number of channels, in one transaction if possible.

        Returns a result for each, in order: None when it is on disk, `StaleOwner` if its term is
        outdated, `Conflict` if it does not continue the channel's head. A refused append does not
        affect others, except that later ones of the same channel are refused as well (so no gap can
        arise). Raises `StoreUnavailable` if nothing was stored; if a large call took several
        transactions and only some failed, their messages get `StoreUnavailable`. Concurrent calls
        are grouped into one commit.
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
        """Deletes messages with a smaller serial; the head stays. With `spare_unread`, only
        messages that every cursor of the channel has passed at that moment. A long deletion takes
        several transactions, oldest messages first. Raises `StaleOwner`; earlier transactions stay
        committed."""

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
        """Removes publisher, payload and attributes from a user's messages, and the messages from
        their conversations, examining at most `most` messages after the serial `after`. In the
        communication log, also from messages sent to the user as a peer, whose pending copies are
        deleted. Raises `StaleOwner`."""

    async def find_published(self, hub: str, user_id: str) -> dict[str, int]:
        """The number of stored messages of a user, by channel; scans all messages of the hub. In
        the communication log, messages and copies to the user count, too."""

    async def stored_bytes(self, hub: str) -> int:
        """The total payload bytes of the hub's stored messages."""

    async def used_bytes(self, hub: str) -> int:
        """The total size of the hub's rows, except sessions, revocations and audit log, maintained
        in the transactions that change them. An estimate from each row's columns, without pages and
        indexes; text counts by character."""

    async def read_stored_hubs(self) -> list[str]:
        """The hubs with stored data, sorted."""

    async def read_channels(
        self, hub: str, after: str, limit: int, backwards: bool = False
    ) -> list[StoredChannel]:
        """The hub's channels with messages by name, after `after`. `backwards`: before it, in
        descending order."""

    async def read_channels_named(self, hub: str, names: Sequence[str]) -> list[StoredChannel]:
        """The channels among `names` that hold messages."""

    async def first_at(self, hub: str, channel: str, time: int) -> int:
        """A serial before which every message was published before this time (ms): the greatest
        that can be found without scanning all; head + 1 if all are older."""

    async def first_within(self, hub: str, channel: str, most_bytes: int) -> int:
        """The first serial from which the messages take at most `most_bytes` of payload. If very
        many messages precede it, an earlier serial: repeated calls advance to it."""

    async def save_retained(
        self, message: Message, expires_at: int, partition: int, term: int
    ) -> None:
        """Replaces the channel's retained message. Raises `StaleOwner`."""

    async def measure(self, hub: str, channel: str, limit: int) -> tuple[int, int]:
        """The count and the bytes of the channel's stored messages, limited to the newest
        `limit`."""

    async def read_retained(self, hub: str, channel: str, now: int) -> Retained | None:
        """The retained message, unless it is expired at `now` (ms)."""

    async def read_retained_channels(self, hub: str, start: str, now: int, most: int) -> list[str]:
        """The first channels with a retained message that is not expired at `now` (ms), by name,
        from this name on."""

    async def delete_retained(self, hub: str, channel: str, partition: int, term: int) -> None:
        """Raises `StaleOwner`."""
