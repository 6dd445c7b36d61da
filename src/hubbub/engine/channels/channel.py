"""A channel at its owner: the place where its messages get their order.

Everything about a channel that must have one truth is here: its state, the next serial, what is
stored and retained, the live history, who is present. The owner (`channels.owner`) drives it.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from hubbub.domain.errors import HubbubError
from hubbub.domain.history import HistoryQuery, LiveHistory, Slice
from hubbub.domain.messages import Message, change_of
from hubbub.domain.notices import HistoryPage, Member
from hubbub.domain.rules import Rules
from hubbub.engine.channels.history import page_of
from hubbub.engine.documents.state import ChannelDocument
from hubbub.engine.notifications.held import HeldNotifications
from hubbub.engine.topics.active_producer import ActiveProducer
from hubbub.engine.topics.cursors import Cursors
from hubbub.engine.topics.recent_keys import RecentKeys
from hubbub.ports.bus import PublishOutcome, PublishReply


class State(enum.IntEnum):
    """Where a channel is in its life. From `READY` upwards its epoch and head are known.

    UNREAD → LOADING → READY ⇄ APPENDING → OUTDATED → (the new rules are applied) READY or LOADING.
    A failed read leads back to UNREAD, a failed append to LOADING. CLOSED is final.
    """

    CLOSED = 0
    """Let go: another node owns the channel, or its hub was deleted."""
    UNREAD = 1
    """Nothing is known, and nobody is reading it."""
    LOADING = 2
    """Epoch, head and retained message are being read from the store."""
    READY = 3
    """Nothing is under way."""
    APPENDING = 4
    """An append is under way; stored messages that come meanwhile wait for the next one."""
    OUTDATED = 5
    """As `APPENDING`; the rules changed meanwhile and are applied when the append has ended."""


@dataclass(slots=True, eq=False)
class Channel:
    """No I/O. The state changes only through the methods below."""

    hub: str
    name: str
    partition: int
    rules: Rules
    epoch: str = ""
    head: int = 0
    first: int = 1
    """The oldest serial that is still on disk, as far as is known."""
    in_memory: bool = False
    """A live-only channel: epoch and head count in memory, not on disk."""
    state: State = State.UNREAD
    closed_by: HubbubError | None = None
    """What everyone is told who still uses the channel after it was closed."""
    idle_since: float = 0.0
    history: LiveHistory | None = None
    retained: Message | None = None
    retained_until: int = 0
    retaining: list[tuple[int, PublishReply | None]] | None = None
    """Replies that wait for the retained message to be saved; None: no save is under way."""
    nodes: tuple[str, ...] = ()
    watchers: tuple[str, ...] = ()
    """Those of the nodes that follow it by patterns only; they do not keep it open."""
    opened: int = -1
    """The head that it had when it was opened; -1: not known yet."""
    counts: dict[str, int] | None = None
    members: dict[str, tuple[Member, str]] | None = None
    """Who is present, by session id, with the node each is connected to."""
    joined: dict[str, Member] | None = None
    left: dict[str, Member] | None = None
    queue: deque[tuple[Message, PublishReply | None]] | None = None
    """Publishes that wait: for the channel to load, or for earlier ones to be on disk."""
    queued_bytes: int = 0
    """Of the publishes in the queue, what counts as stored bytes of the hub already. The appender
    gives it back where they do not set out, also when the queue is gone."""
    uses: int = 0
    """Requests under way that need the channel to stay open."""
    unused: asyncio.Event | None = None
    """Set when the last of them has ended, for who waits for it."""
    producers: dict[tuple[str, str], ActiveProducer] | None = None
    """Who put something here, by principal and producer id."""
    recent_keys: RecentKeys | None = None
    """Idempotency keys of messages that are not stored; None: there were none."""
    cursors: Cursors | None = None
    """The durable subscriptions; None: nobody asked for them yet."""
    notifications: HeldNotifications | None = None
    """Of a notification channel, which has no messages."""
    waiters: list[asyncio.Future[None]] | None = None
    """Requests that wait for the channel to be read."""
    document: ChannelDocument | None = None
    """Of a document channel, once it was read."""
    stored_waiters: list[tuple[Callable[[], None], asyncio.Future[Any]]] | None = None
    """Readers of the document that wait for the append under way."""

    # -- state ----------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Nobody follows it and nothing is under way."""
        return (
            self.state is State.READY
            and len(self.nodes) == len(self.watchers)
            and not self.queue
            and not self.uses
            and self.retaining is None
            and (self.cursors is None or self.cursors.idle)
        )

    def begin_loading(self) -> bool:
        """Whether the caller is the one to read the channel."""
        if self.state is not State.UNREAD:
            return False
        self.state = State.LOADING
        return True

    def end_loading(self) -> None:
        """Epoch and head are known: wake those who wait for them."""
        self.state = State.READY
        if self.opened < 0:
            self.opened = self.head
        self._wake(None)

    def fail_loading(self, error: HubbubError) -> None:
        """Nothing could be read: those who wait are told, the next use tries again."""
        if self.state is State.LOADING:
            self.state = State.UNREAD
        self._fail_all(error)

    def begin_append(
        self, most_bytes: int | None = None
    ) -> Iterable[tuple[Message, PublishReply | None]]:
        """What has gathered is on its way to the store: all of it, or as much as has `most_bytes`
        together, and at least one message."""
        assert self.state is State.READY
        self.state = State.APPENDING
        if most_bytes is None or not self.queue:
            return self.take_queue()
        taken = [self.queue.popleft()]
        left = most_bytes - len(taken[0][0].payload)
        while self.queue and (left := left - len(self.queue[0][0].payload)) >= 0:
            taken.append(self.queue.popleft())
        return taken

    def end_append(self) -> bool:
        """The append has ended. Whether the rules changed meanwhile, and wait to be applied."""
        outdated = self.state is State.OUTDATED
        if self.state is not State.CLOSED:
            self.state = State.READY
        return outdated

    def when_stored(self, read: Callable[[], None], answered: asyncio.Future[Any]) -> None:
        """Call `read` when nothing of the document is on its way to the disk: now, or when the
        append under way has ended. `answered` gets the error if that comes to nothing."""
        if self.state is State.READY:
            read()
        elif self.closed_by is not None:
            answered.set_exception(self.closed_by)
        else:
            self.stored_waiters = self.stored_waiters or []
            self.stored_waiters.append((read, answered))

    def tell_stored(self) -> None:
        """What is in memory is on disk."""
        waiters, self.stored_waiters = self.stored_waiters, None
        for read, _ in waiters or ():
            read()

    def postpone_rules(self) -> bool:
        """Whether changed rules have to wait, because an append is under way."""
        if self.state is State.APPENDING:
            self.state = State.OUTDATED
        return self.state is State.OUTDATED

    def forget(self) -> None:
        """What was known from the store holds no longer."""
        if self.state is State.READY:
            self.state = State.UNREAD
        self.producers = None

    def close(self, error: HubbubError) -> None:
        """Final. Whoever waits, and whoever comes later, gets the error."""
        self.state = State.CLOSED
        self.closed_by = error
        self._fail_all(error)

    def hold(self) -> None:
        """A request under way needs the channel to stay open."""
        self.uses += 1

    def let_go(self, now: float) -> None:
        self.uses -= 1
        self.idle_since = now
        if self.unused is not None and not self.uses:
            self.unused.set()

    async def let_go_by_all(self) -> None:
        """Wait until no request under way needs the channel, which is closed."""
        if self.uses:
            self.unused = asyncio.Event()
            await self.unused.wait()

    async def read(self) -> None:
        """Wait for `end_loading`. Raises what `fail_loading` or `close` said."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.waiters is None:
            self.waiters = []
        self.waiters.append(waiter)
        await waiter

    def _fail_all(self, error: HubbubError) -> None:
        for _, reply in self.take_queue():
            if reply is not None:
                reply(PublishOutcome(error=error))
        self._wake(error)
        readers, self.stored_waiters = self.stored_waiters, None
        for _, answered in readers or ():
            if not answered.done():
                answered.set_exception(error)

    def _wake(self, error: HubbubError | None) -> None:
        waiters, self.waiters = self.waiters, None
        for waiter in waiters or ():
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)

    # -- order ----------------------------------------------------------------------------------

    def must_store(self, message: Message) -> bool:
        rules = self.rules
        if self.document is not None and change_of(message) is not None:
            return True
        return rules.store and (message.store or rules.store_by_default) and not message.transient

    def must_retain(self, message: Message) -> bool:
        return message.retain and self.rules.retain

    def number(self, message: Message) -> None:
        """Give a message that is not stored its place: the next serial on a live-only channel,
        none on a channel that stores."""
        if not self.rules.store:
            self.head += 1
            message.serial = self.head

    def producer_of(self, message: Message) -> ActiveProducer | None:
        """Who puts the message, as far as is known here."""
        stamp = message.stamp
        if stamp is None or self.producers is None:
            return None
        return self.producers.get((stamp.principal, stamp.producer))

    def wait(self, message: Message, reply: PublishReply | None) -> None:
        if self.queue is None:
            self.queue = deque()
        self.queue.append((message, reply))

    def wait_first(self, message: Message, reply: PublishReply | None) -> None:
        """As `wait`, before all that wait already."""
        self.wait(message, reply)
        assert self.queue is not None
        self.queue.rotate(1)

    def take_queue(self) -> Iterable[tuple[Message, PublishReply | None]]:
        """The publishes that wait; they wait no longer."""
        waiting, self.queue = self.queue, None
        return waiting or ()

    def stand_on_disk(self, epoch: str, head: int, first: int) -> None:
        """The store says where the channel stands."""
        self.epoch, self.head, self.first = epoch, head, first
        self.in_memory = False
        self.history = None

    def begin_in_memory(self, epoch: str) -> None:
        """A live-only channel counts from one, under an epoch that nobody has seen before."""
        self.epoch, self.head = epoch, 0
        self.in_memory = True
        self.history = None

    # -- history --------------------------------------------------------------------------------

    def page_from_live_history(self, query: HistoryQuery) -> HistoryPage:
        if self.history is None:
            asks_for_nothing = query.after == self.head or self.head == 0
            found = Slice((), complete=asks_for_nothing, more=False)
        else:
            found = self.history.select(query)
        return page_of(query, self.epoch, self.head, found)

    # -- presence -------------------------------------------------------------------------------

    def join(self, node: str, member: Member) -> bool:
        """Whether this is news to the others. A session that is already present only moves, unless
        it has turned out to be somebody; it is there since it came first."""
        if self.members is None:
            self.members = {}
        known = self.members.get(member.session_id)
        if known is not None:
            member = msgspec.structs.replace(member, timestamp=known[0].timestamp)
        self.members[member.session_id] = (member, node)
        if known is not None and known[0] == member:
            return False
        gone = self.left.pop(member.session_id, None) if self.left is not None else None
        if gone is not None and msgspec.structs.replace(gone, timestamp=member.timestamp) == member:
            return False
        if self.joined is None:
            self.joined = {}
        self.joined[member.session_id] = member
        return True

    def leave(self, node: str, session_id: str) -> bool:
        """Whether this is news. A leave from a node that the session has left behind is not."""
        entry = self.members.get(session_id) if self.members else None
        if entry is None or entry[1] != node:
            return False
        assert self.members is not None
        del self.members[session_id]
        if self.joined is not None and self.joined.pop(session_id, None) is not None:
            return False
        if self.left is None:
            self.left = {}
        self.left[session_id] = entry[0]
        return True

    def session_ids(self, node: str) -> list[str]:
        """Of those who are present, who is connected to this node."""
        return [each for each, (_, where) in (self.members or {}).items() if where == node]

    def present(self) -> tuple[Member, ...]:
        return tuple(member for member, _ in self.members.values()) if self.members else ()

    def occupancy(self) -> int:
        return sum(self.counts.values()) if self.counts else 0
