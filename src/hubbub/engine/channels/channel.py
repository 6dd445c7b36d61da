"""A channel at its owner: the place where its messages get their order.

Everything about a channel that must have one truth is here: the next serial, what is stored and
retained, the live history, who is present. The owner (`engine.owner`) drives it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from hubbub.domain.errors import HubbubError
from hubbub.domain.history import HistoryQuery, LiveHistory
from hubbub.domain.messages import Message
from hubbub.domain.notices import HistoryPage, Member
from hubbub.domain.rules import Rules
from hubbub.ports.bus import PublishOutcome, PublishReply

if TYPE_CHECKING:
    from hubbub.engine.topics.cursors import Cursors
    from hubbub.engine.topics.producers import Producer


class Channel:
    """State only; no I/O. `loaded` is False until the store said where the channel stands."""

    __slots__ = (
        "busy",
        "counts",
        "cursors",
        "epoch",
        "first",
        "flying",
        "head",
        "history",
        "hub",
        "idle_since",
        "joined",
        "left",
        "live",
        "loaded",
        "loading",
        "members",
        "name",
        "nodes",
        "partition",
        "producers",
        "queue",
        "released",
        "retained",
        "retained_until",
        "retaining",
        "rules",
        "stale",
        "waiters",
    )

    def __init__(self, hub: str, name: str, partition: int, rules: Rules) -> None:
        self.hub = hub
        self.name = name
        self.partition = partition
        self.rules = rules
        self.epoch = ""
        self.head = 0
        self.first = 1
        """The oldest serial that is still on disk, as far as is known."""
        self.live = False
        """Epoch and head count in memory, not on disk."""
        self.loaded = False
        self.loading = False
        self.released = False
        """Another node owns it now; what is still under way here ends with `StaleOwner`."""
        self.stale = False
        """The rules changed while an append was under way: apply them when it has landed."""
        self.idle_since = 0.0
        self.history: LiveHistory | None = None
        self.retained: Message | None = None
        self.retained_until = 0
        self.retaining: list[tuple[int, PublishReply | None]] | None = None
        """Replies that wait for the retained message to be saved; None: no save is under way."""
        self.nodes: tuple[str, ...] = ()
        self.counts: dict[str, int] | None = None
        self.members: dict[str, tuple[Member, str]] | None = None
        """Who is present, by session id, with the node each is connected to."""
        self.joined: dict[str, Member] | None = None
        self.left: dict[str, Member] | None = None
        self.queue: deque[tuple[Message, PublishReply | None]] | None = None
        """Publishes that wait: for the channel to load, or for earlier ones to be on disk."""
        self.flying = False
        self.busy = 0
        """Requests under way that need the channel to stay."""
        self.producers: dict[tuple[str, str], Producer] | None = None
        """Who put something here, by principal and producer id."""
        self.cursors: Cursors | None = None
        """The durable subscriptions; None: nobody asked for them yet."""
        self.waiters: list[asyncio.Future[None]] | None = None

    @property
    def stores(self) -> bool:
        return self.rules.store

    @property
    def idle(self) -> bool:
        """Nobody follows it and nothing is under way."""
        return (
            self.loaded
            and not self.nodes
            and not self.queue
            and not self.flying
            and not self.busy
            and self.retaining is None
            and (self.cursors is None or self.cursors.idle)
        )

    # -- order ----------------------------------------------------------------------------------

    def must_store(self, message: Message) -> bool:
        rules = self.rules
        return rules.store and (message.store or rules.store_by_default) and not message.transient

    def must_retain(self, message: Message) -> bool:
        return message.retain and self.rules.retain

    def number(self, message: Message) -> None:
        """Give a message that is not stored its place: the next serial on a live-only channel,
        none on a channel that stores."""
        if not self.rules.store:
            self.head += 1
            message.serial = self.head

    def wait(self, message: Message, reply: PublishReply | None) -> None:
        if self.queue is None:
            self.queue = deque()
        self.queue.append((message, reply))

    def fail_waiting(self, error: HubbubError) -> None:
        """Answer everyone who waits with the error."""
        waiting, self.queue = self.queue, None
        for _, reply in waiting or ():
            if reply is not None:
                reply(PublishOutcome(error=error))

    # -- history --------------------------------------------------------------------------------

    def page_from_live_history(self, query: HistoryQuery) -> HistoryPage:
        known_epoch = query.epoch is None or query.epoch == self.epoch
        if self.history is None:
            asks_for_nothing = query.after == self.head or self.head == 0
            return HistoryPage(
                channel=self.name,
                epoch=self.epoch,
                head=self.head,
                recovered=known_epoch and asks_for_nothing,
            )
        found = self.history.select(query)
        return HistoryPage(
            channel=self.name,
            messages=found.messages if known_epoch else (),
            epoch=self.epoch,
            head=self.head,
            recovered=known_epoch and found.complete,
            more=found.more and known_epoch,
        )

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
        if self.left is not None and self.left.pop(member.session_id, None) is not None:
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
