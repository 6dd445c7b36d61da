"""What the engine needs from durable storage.

Every adapter passes `tests/contract/store_contract.py`. Nothing here assumes a particular
database.

Contract for all methods:
- When an awaited write returns, it is on disk; a crash right after loses nothing of it.
- A write is all or nothing, except where a method says otherwise. Writes of one caller to one
  hub that were started in order take effect in order; between hubs there is no order.
- Failures raise `StoreUnavailable` (the store is away, full or read-only; nothing of the write
  took effect) or an error named at the method. Never a driver's own exception.
- Methods are called from the event loop and never block it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from hubbub.domain.messages import Message
from hubbub.domain.webhooks import Webhook, WebTopic


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
    """

    message: Message
    epoch: str
    partition: int
    term: int
    retain_until: int | None = None
    producer: int = 0
    sequence: int = 0


class Producer(msgspec.Struct, frozen=True):
    """A producer of puts to one channel. `sequence` is that of its last put, 0 before the first;
    it is never forgotten, also when the message is."""

    id: int
    fence: int
    sequence: int


class Cursor(msgspec.Struct, frozen=True):
    """Where a durable subscription stands: everything up to `floor` is done, `state` is the
    engine's own record of the rest."""

    hub: str
    channel: str
    owner: str
    name: str
    floor: int
    state: bytes


class Exported(msgspec.Struct, frozen=True):
    """The channel's messages up to `serial` are in the journal."""

    hub: str
    channel: str
    epoch: str
    serial: int


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
    messages exist in the direction of the query. Large messages can make a page shorter than its
    limit, but never empty while there are more."""

    messages: tuple[Message, ...]
    more: bool
    head: ChannelHead | None


class SettingsEntry(msgspec.Struct, frozen=True):
    """One setting. `kind` is hub, rules, namespace, channel, auth_provider or another word of
    the engine's; `value` is JSON. `version` counts the changes of this entry, from 1."""

    kind: str
    hub: str
    name: str
    value: bytes
    version: int = 0


class SessionSnapshot(msgspec.Struct, frozen=True):
    """A session that may be restored by whoever holds the key with this hash."""

    key_hash: bytes
    hub: str
    session_id: str
    state: bytes
    expires_at: int
    """Milliseconds since 1970."""


class PushToken(msgspec.Struct, frozen=True):
    hub: str
    user_id: str
    platform: str
    token: str


class AuditEntry(msgspec.Struct, frozen=True):
    """Who changed what. `at` is in ms since 1970; `before` and `after` are JSON, None where there
    was or is nothing. The store gives the `id`, which rises."""

    at: int
    hub: str
    actor: str
    level: str
    action: str
    name: str
    before: bytes | None = None
    after: bytes | None = None
    token_id: str | None = None
    id: int = 0


class AuditQuery(msgspec.Struct, frozen=True):
    """Which entries to read, the newest first; None means any."""

    limit: int
    hub: str | None = None
    actor: str | None = None
    action: str | None = None
    before_id: int | None = None


class Revocation(msgspec.Struct, frozen=True):
    """Tokens that hold no longer: the one with the id `subject` (kind `token`), those of the user
    `subject` (`user`) or all of the hub (`hub`) that were issued until `issued_until` (ms since
    1970). After `expires_at` (ms) every such token has expired anyway."""

    hub: str
    kind: str
    subject: str
    issued_until: int
    expires_at: int


class Store(Protocol):
    """See the module's text for what holds for every method."""

    async def open(self) -> None:
        """Connect and bring the schema up to date. Raises `StoreUnavailable` with a remedy if the
        data is of a newer version, corrupt, or not writable."""

    async def close(self) -> None:
        """Finish what was started, then let go of every file, thread and connection."""

    # -- ownership ----------------------------------------------------------------------------

    async def acquire_partitions(self, partitions: Sequence[int], owner: str) -> dict[int, int]:
        """Take the partitions over: each gets a term higher than any before, which is returned.
        From then on every write under an older term is refused."""

    async def count_beat(self, node: str) -> dict[str, int]:
        """Raise this node's number by one; answers the numbers of all nodes."""

    async def forget_node(self, node: str) -> None:
        """It left in good order: it has no number any more."""

    # -- messages -----------------------------------------------------------------------------

    async def read_head(self, hub: str, channel: str) -> ChannelHead | None:
        """None if nothing was ever stored in this channel."""

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

    # -- topics -------------------------------------------------------------------------------

    async def open_producer(
        self,
        hub: str,
        channel: str,
        principal: str,
        producer: str,
        partition: int,
        term: int,
        take_over: bool,
    ) -> Producer:
        """The producer as it stands on disk, made if it is new. `take_over` raises its fence.
        Raises `StaleOwner`."""

    async def read_producer(
        self, hub: str, channel: str, principal: str, producer: str
    ) -> Producer | None:
        """The producer as it stands on disk, if it ever was opened."""

    async def read_put(
        self, producer_id: int, sequence: int, hub: str, channel: str
    ) -> Message | None:
        """The message that a producer put under this sequence; None: never, or it was deleted."""

    async def save_cursor(self, cursor: Cursor, partition: int, term: int) -> None:
        """Create or replace. Raises `StaleOwner`."""

    async def delete_cursor(
        self, hub: str, channel: str, owner: str, name: str, partition: int, term: int
    ) -> bool:
        """Whether it was there. Raises `StaleOwner`."""

    async def read_cursors(
        self,
        hub: str,
        channel: str | None = None,
        owner: str | None = None,
        after: tuple[str, str, str] | None = None,
        limit: int | None = None,
    ) -> list[Cursor]:
        """Of one channel or all, of one owner or all; ordered by channel, owner, name, those behind
        `after`."""

    async def read_places(
        self, after: tuple[str, str, str, str] | None, limit: int
    ) -> list[tuple[Cursor, ChannelHead | None]]:
        """Cursors of all hubs with their channels' heads, ordered by hub, channel, owner, name,
        those behind `after`."""

    # -- webhooks -----------------------------------------------------------------------------

    async def add_web_topic(self, topic: WebTopic) -> bool:
        """False: there is one for this channel already, which stays as it is."""

    async def save_web_topic(self, topic: WebTopic) -> None:
        """Create or replace."""

    async def read_web_topic(self, hub: str, channel: str) -> WebTopic | None: ...

    async def list_web_topics(self, hub: str, after: str, limit: int) -> list[WebTopic]:
        """In the order of their channels, those behind `after`."""

    async def read_topic_keys(self, hub: str | None = None) -> list[tuple[str, str, bytes]]:
        """Hub, channel and hash of the key, of all topics that have one."""

    async def delete_web_topic(self, hub: str, channel: str) -> bool:
        """Whether it was there."""

    async def save_webhook(self, webhook: Webhook) -> None:
        """Create or replace, by hub and id."""

    async def delete_webhook(self, hub: str, webhook: str) -> bool:
        """Whether there was one with this id."""

    async def read_webhook(self, hub: str, webhook: str) -> Webhook | None:
        """By its id."""

    async def read_webhooks(
        self,
        hub: str | None = None,
        channel: str | None = None,
        partitions: Sequence[int] | None = None,
        after: tuple[str, str] | None = None,
        limit: int | None = None,
    ) -> list[Webhook]:
        """Of one hub, channel or some partitions, or all; ordered by hub and id, those behind
        `after`."""

    async def count_webhooks(self, hub: str) -> int: ...

    # -- the journal --------------------------------------------------------------------------

    async def save_exported(self, exported: Sequence[Exported]) -> None:
        """Messages up to there are in the journal and synced. A position never moves back; one of
        another epoch, or of a channel that is gone, is passed over."""

    async def read_exported(self, hub: str, channel: str) -> int:
        """The serial up to which the channel's messages are in the journal, 0 if none is. While a
        hub keeps a journal, retention must not delete any behind it."""

    async def read_unexported(
        self, after: tuple[str, str] | None, limit: int
    ) -> list[tuple[str, str]]:
        """Hub and name of channels with messages that are not in the journal yet, in order, from
        the first or from behind `after`."""

    # -- retained -----------------------------------------------------------------------------

    async def save_retained(
        self, message: Message, expires_at: int, partition: int, term: int
    ) -> None:
        """Replace the channel's retained message. Raises `StaleOwner`."""

    async def read_retained(self, hub: str, channel: str, now: int) -> Retained | None:
        """The retained message, if it has not expired by `now` (ms)."""

    async def delete_retained(self, hub: str, channel: str, partition: int, term: int) -> None:
        """Raises `StaleOwner`."""

    # -- settings -----------------------------------------------------------------------------

    async def put_settings(
        self,
        entries: Sequence[SettingsEntry],
        expected: Mapping[str, int] | None = None,
        audit: AuditEntry | None = None,
    ) -> list[SettingsEntry]:
        """Create or replace settings, all or none; answers them with their new versions. With
        `expected`, raises `VersionMismatch` unless each named entry (by `name`) has that version
        now (0: must not exist). `audit` is written in the same transaction."""

    async def delete_settings(
        self,
        kind: str,
        hub: str,
        name: str,
        expected: int | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        """Whether it was there. With `expected`, raises `VersionMismatch` unless it has that
        version now. `audit` is written in the same transaction, if it was there."""

    async def read_settings(self, hub: str | None = None) -> list[SettingsEntry]:
        """All entries, or those of one hub; ordered by kind, hub, name."""

    async def delete_hub(self, hub: str, audit: AuditEntry | None = None) -> bool:
        """Drop everything that belongs to the hub, except its audit and its revocations; answers
        whether there was anything. The settings go first, with the audit; messages may take
        several transactions. Calling it again completes a deletion that was interrupted."""

    # -- administration -----------------------------------------------------------------------

    async def append_audit(self, entry: AuditEntry) -> None: ...

    async def read_audit(self, query: AuditQuery) -> list[AuditEntry]:
        """Entries that match, the newest first."""

    async def delete_audit_before(self, time: int) -> int:
        """Drop entries that are older than this time (ms). Answers how many went."""

    async def save_revocation(
        self, revocation: Revocation, audit: AuditEntry | None = None
    ) -> None:
        """Create or widen: a revocation never becomes smaller or shorter."""

    async def read_revocations(self, hub: str | None, now: int) -> list[Revocation]:
        """Those of one hub or of all that have not expired by `now` (ms), ordered by hub, kind,
        subject."""

    # -- sessions -----------------------------------------------------------------------------

    async def save_sessions(self, snapshots: Sequence[SessionSnapshot]) -> None:
        """Create or replace, by key hash."""

    async def read_session(self, key_hash: bytes, now: int) -> SessionSnapshot | None:
        """The snapshot, if it has not expired by `now` (ms)."""

    async def delete_sessions(self, key_hashes: Sequence[bytes]) -> None: ...

    # -- push tokens --------------------------------------------------------------------------

    async def save_push_token(self, token: PushToken) -> None:
        """Registering the same token again changes nothing; a token that belonged to another user
        of the hub moves to this one."""

    async def read_push_tokens(self, hub: str, user_id: str) -> list[PushToken]: ...

    async def delete_push_token(self, hub: str, platform: str, token: str) -> bool: ...

    # -- upkeep -------------------------------------------------------------------------------

    async def delete_expired(self, now: int) -> int:
        """Drop retained messages, sessions and revocations that have expired. Answers how many
        went."""
