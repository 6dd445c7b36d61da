"""A channel at its owner, where its messages are ordered.

It holds the authoritative state: the next serial, what is stored and retained, the live history,
and the present sessions. The owner (`channels.owner`) drives it."""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from hubbub.domain.asking import Sent, envelope_of
from hubbub.domain.errors import HubbubError
from hubbub.domain.history import HistoryQuery, LiveHistory, Slice
from hubbub.domain.messages import Message
from hubbub.domain.notices import HistoryPage, Member
from hubbub.domain.rules import Rules
from hubbub.engine.channels.active_producer import ActiveProducer
from hubbub.engine.channels.history import page_of
from hubbub.engine.channels.recent_keys import RecentKeys
from hubbub.engine.room_state import RoomState
from hubbub.ports.bus import PublishOutcome, PublishReply

Waiting = tuple[Sent, PublishReply | None]
_S = TypeVar("_S", bound=RoomState)
_NO_STATES: dict[type[RoomState], RoomState] = {}


class State(enum.IntEnum):
    """A channel's state. From `READY` on, its epoch and head are known.

    UNREAD → LOADING → READY ⇄ APPENDING → OUTDATED → (the new rules are applied) READY or LOADING.
    A failed read leads back to UNREAD, a failed append to LOADING. CLOSED is final."""

    CLOSED = 0
    """Another node owns the channel, or its hub was deleted."""
    UNREAD = 1
    """Nothing is known, and no read is in progress."""
    LOADING = 2
    """Epoch, head and retained message are being read from the store."""
    READY = 3
    """No append is in progress."""
    APPENDING = 4
    """An append is in progress; messages to store wait for the next one."""
    OUTDATED = 5
    """Like `APPENDING`; the rules changed meanwhile and are applied when the append has ended."""


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
    """The oldest serial known to be on disk."""
    in_memory: bool = False
    """A live-only channel: epoch and head exist only in memory."""
    state: State = State.UNREAD
    closed_by: HubbubError | None = None
    """The error for callers that still use the channel after it was closed."""
    idle_since: float = 0.0
    history: LiveHistory | None = None
    retained: Message | None = None
    retained_until: int = 0
    retaining: list[tuple[int, PublishReply | None]] | None = None
    """Replies that wait for the retained message to be saved; None: no save is in progress."""
    nodes: tuple[str, ...] = ()
    watchers: tuple[str, ...] = ()
    """Nodes that follow the channel only by patterns; they do not keep it open."""
    opened: int = -1
    """The head when the channel was opened; -1: not known yet."""
    counts: dict[str, int] | None = None
    members: dict[str, tuple[Member, str]] | None = None
    """Present sessions by id, with the node of each."""
    joined: dict[str, Member] | None = None
    left: dict[str, Member] | None = None
    queue: deque[Waiting] | None = None
    """Publishes that wait for the channel to load, or for earlier ones to be stored."""
    resume: Callable[[Channel], None] | None = None
    """Takes the queue when the channel is read; None: nothing in the queue waits for that."""
    queued_bytes: int = 0
    """The bytes of queued publishes that already count against the hub's storage quota. The
    appender returns them if the publishes are not stored."""
    uses: int = 0
    """Requests in progress that need the channel to stay open."""
    unused: asyncio.Event | None = None
    """Set when the last of these requests has ended."""
    producers: dict[tuple[str, str], ActiveProducer] | None = None
    """Active producers, by principal and producer id."""
    recent_keys: RecentKeys | None = None
    """Idempotency keys of messages that are not stored; None: there were none."""
    waiters: list[asyncio.Future[None]] | None = None
    """Requests that wait for the channel to load."""
    kept: bool = False
    """A room has something of the channel on disk."""
    _states: dict[type[RoomState], RoomState] = field(default_factory=lambda: _NO_STATES)
    """What rooms hold of the channel, by type."""
    stored_waiters: list[tuple[Callable[[], None], asyncio.Future[Any]]] | None = None
    """Readers of a room's state that wait for the append under way."""

    # -- state ----------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nobody follows the channel and nothing is in progress."""
        return (
            self.state is State.READY
            and len(self.nodes) == len(self.watchers)
            and not self.queue
            and not self.uses
            and self.retaining is None
            and all(state.idle for state in self._states.values())
        )

    def begin_loading(self) -> bool:
        """Returns whether the caller is the one to load the channel."""
        if self.state is not State.UNREAD:
            return False
        self.state = State.LOADING
        return True

    def end_loading(self) -> None:
        """Epoch and head are known: wakes waiting requests."""
        self.state = State.READY
        if self.opened < 0:
            self.opened = self.head
        self._wake(None)

    def fail_loading(self, error: HubbubError) -> None:
        """The read failed: waiting requests get the error, and the next use tries again."""
        if self.state is State.LOADING:
            self.state = State.UNREAD
        self._fail_all(error)

    def begin_append(self, most_bytes: int | None = None) -> Iterable[Waiting]:
        """Removes and returns the queued messages to append: all, or as many as fit into
        `most_bytes`, at least one."""
        assert self.state is State.READY
        self.state = State.APPENDING
        if most_bytes is None or not self.queue:
            return self.take_queue()
        taken = [self.queue.popleft()]
        left = most_bytes - len(envelope_of(taken[0][0]).payload)
        while self.queue and (left := left - len(envelope_of(self.queue[0][0]).payload)) >= 0:
            taken.append(self.queue.popleft())
        return taken

    def end_append(self) -> bool:
        """The append has ended. Returns whether changed rules wait to be applied."""
        outdated = self.state is State.OUTDATED
        if self.state is not State.CLOSED:
            self.state = State.READY
        return outdated

    def when_stored(self, read: Callable[[], None], answered: asyncio.Future[Any]) -> None:
        """Call `read` when nothing of the channel is on its way to the disk: now, or when the
        append under way has ended. `answered` gets the error if that comes to nothing."""
        if self.state is State.READY:
            read()
        elif self.closed_by is not None:
            answered.set_exception(self.closed_by)
        else:
            self.stored_waiters = self.stored_waiters or []
            self.stored_waiters.append((read, answered))

    def tell_stored(self) -> None:
        """The state in memory is on disk."""
        waiters, self.stored_waiters = self.stored_waiters, None
        for read, _ in waiters or ():
            read()

    def postpone_rules(self) -> bool:
        """Returns whether changed rules must wait for an append in progress."""
        if self.state is State.APPENDING:
            self.state = State.OUTDATED
        return self.state is State.OUTDATED

    def forget(self) -> None:
        """Drops the state read from the store."""
        if self.state is State.READY:
            self.state = State.UNREAD
        self.producers = None

    def close(self, error: HubbubError) -> None:
        """Final. All waiting and later callers get the error."""
        self.state = State.CLOSED
        self.closed_by = error
        self._fail_all(error)

    def hold(self) -> None:
        """A context for a request that needs the channel to stay open."""
        self.uses += 1

    def let_go(self, now: float) -> None:
        self.uses -= 1
        self.idle_since = now
        if self.unused is not None and not self.uses:
            self.unused.set()

    async def let_go_by_all(self) -> None:
        """Waits until no request uses the closed channel."""
        if self.uses:
            self.unused = asyncio.Event()
            await self.unused.wait()

    async def read(self) -> None:
        """Waits for `end_loading`. Raises the error given to `fail_loading` or `close`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.waiters is None:
            self.waiters = []
        self.waiters.append(waiter)
        await waiter

    def _fail_all(self, error: HubbubError) -> None:
        self.resume = None
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
        return rules.store and (message.store or rules.store_by_default) and not message.transient

    def must_retain(self, message: Message) -> bool:
        return message.retain and self.rules.retain

    def number(self, message: Message) -> None:
        """Assigns a serial to an unstored message: the next one in a live-only channel, none in a
        channel that stores."""
        if not self.rules.store:
            self.head += 1
            message.serial = self.head

    def producer_of(self, sent: Sent) -> ActiveProducer | None:
        """Who puts it, as far as is known here."""
        stamp = sent.stamp
        if stamp is None or self.producers is None:
            return None
        return self.producers.get((stamp.principal, stamp.producer))

    def row_of(self, sent: Sent) -> tuple[int, int]:
        """The producer and sequence under which the store keeps it; (0, 0): none."""
        producer, stamp = self.producer_of(sent), sent.stamp
        return (0, 0) if producer is None or stamp is None else (producer.id, stamp.sequence)

    def wait(self, sent: Sent, reply: PublishReply | None) -> None:
        if self.queue is None:
            self.queue = deque()
        self.queue.append((sent, reply))

    def wait_first(self, sent: Sent, reply: PublishReply | None) -> None:
        """Like `wait`, but before all waiting publishes."""
        self.wait(sent, reply)
        assert self.queue is not None
        self.queue.rotate(1)

    def take_queue(self) -> Iterable[Waiting]:
        """Removes and returns all queued publishes."""
        waiting, self.queue = self.queue, None
        return waiting or ()

    def go_on(self) -> None:
        """The channel is read: what waited for that goes on."""
        resume, self.resume = self.resume, None
        if resume is not None:
            resume(self)

    # -- what rooms hold ------------------------------------------------------------------------

    @property
    def states(self) -> Collection[RoomState]:
        return self._states.values()

    def state_of(self, kind: type[_S]) -> _S | None:
        """The state of this type, if a room has put it here."""
        return self._states.get(kind)  # type: ignore[return-value]  # `put_state` keys by type

    def put_state(self, state: RoomState) -> None:
        """In place of one of the same type."""
        self._states = {**self._states, type(state): state}

    def drop_state(self, kind: type[RoomState]) -> None:
        self._states = {each: state for each, state in self._states.items() if each is not kind}

    def stand_on_disk(self, epoch: str, head: int, first: int) -> None:
        """Applies the epoch and head read from the store."""
        self.epoch, self.head, self.first = epoch, head, first
        self.in_memory = False
        self.end_history()

    def begin_in_memory(self, epoch: str) -> None:
        """A live-only channel starts at serial one, in a new epoch."""
        self.epoch, self.head = epoch, 0
        self.in_memory = True
        self.end_history()

    # -- history --------------------------------------------------------------------------------

    def end_history(self) -> None:
        if self.history is not None:
            self.history.clear()
            self.history = None

    def page_from_live_history(self, query: HistoryQuery) -> HistoryPage:
        if self.history is None:
            asks_for_nothing = query.after == self.head or self.head == 0
            found = Slice((), complete=asks_for_nothing, more=False)
        else:
            found = self.history.select(query)
        return page_of(query, self.epoch, self.head, found)

    # -- presence -------------------------------------------------------------------------------

    def join(self, node: str, member: Member) -> bool:
        """Returns whether the join is to be announced. A session that is already present only moves
        to another node, unless it has authenticated; its join time stays."""
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
        """Returns whether the leave is to be announced; not if the session has moved to another
        node."""
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
        """The present sessions that are connected to this node."""
        return [each for each, (_, where) in (self.members or {}).items() if where == node]

    def present(self) -> tuple[Member, ...]:
        return tuple(member for member, _ in self.members.values()) if self.members else ()

    def occupancy(self) -> int:
        return sum(self.counts.values()) if self.counts else 0
