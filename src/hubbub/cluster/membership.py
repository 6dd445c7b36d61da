"""Membership: the live nodes of the cluster, as one node hears them. No I/O and no clock of its
own.

Every node sends heartbeats with its state and the nodes that it hears. A node that is silent for
too long, leaves, or is reported by NATS as disconnected, is lost, and its incarnation is closed. A
node that learns from a heartbeat that its incarnation is closed starts a new one, since others own
its channels now."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

import msgspec

from hubbub.domain.quota_shares import Share
from hubbub.domain.ring import Ring, make_ring

Role = Literal["core", "edge"]
"""A core node owns channels; an edge node only has connections."""
State = Literal["starting", "serving", "leaving", "gone"]

HEARTBEAT_SECONDS = 0.1
SILENCE_SECONDS = 0.4
PAUSE_SECONDS = 5.0
"""How long a node may be silent that announced a pause."""
MOST_FALSE_ALARMS = 3
"""Each false alarm doubles a node's timeout, up to this number."""
LONGEST_SECONDS = 2.0
FORGIVING_SECONDS = 60.0
MOST_SILENCES_BEHIND = 5
"""How many timeouts a node's receive backlog may last before the node counts as deaf."""
REMEMBERED_LIVES = 100
REMEMBERED_NODES = 50


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """`life` identifies one uninterrupted membership; `hears` maps the nodes that the sender hears
    to their lives, `over` those that it has given up; `ring` is the version of the ring that the
    sender has applied. `asks`: the sender requests a heartbeat from every node. `pauses`: it may be
    silent for a while. `shares`: the sender's use of hubs' quotas; None: unchanged."""

    node: str
    incarnation: str
    life: str
    role: Role
    state: State
    address: str = ""
    version: str = ""
    ring: str = ""
    hears: dict[str, str] = {}
    over: tuple[str, ...] = ()
    asks: bool = False
    pauses: bool = False
    shares: dict[str, Share] | None = None


class _Heard:
    __slots__ = ("at", "beat")

    def __init__(self, beat: Heartbeat, at: float) -> None:
        self.beat = beat
        self.at = at


class _FalseAlarms(NamedTuple):
    """How many times a node was given up although it was alive, and when this was last noticed."""

    times: int
    at: float


class MembershipListener(Protocol):
    def members_changed(self) -> None:
        """The ring may be another one."""

    def node_lost(self, node: str, expected: bool) -> None:
        """A node is gone. `expected`: the node had said that it was leaving."""

    def given_up(self) -> None:
        """The other nodes have given this node up."""


class Membership:
    """One node's view of the members of the cluster."""

    def __init__(
        self,
        node: str,
        incarnation: str,
        role: Role,
        *,
        address: str = "",
        version: str = "",
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self.node = node
        self.incarnation = incarnation
        self.role: Role = role
        self.state: State = "starting"
        self.address = address
        self.version = version
        self.silence_seconds = silence_seconds
        self.pauses = False
        """Whether this node may be silent now."""
        self.stalled = False
        """Whether nothing was received for a while, or only just is again: then other nodes were
        deaf for the same reason, and their delayed heartbeats say so."""
        self.ring_version = ""
        self._listener: MembershipListener | None = None
        self._lives = 1
        self._others: dict[str, _Heard] = {}
        self._former: dict[str, set[str]] = {}
        self._over: dict[str, str] = {}
        """The last life of each node that this node has given up."""
        self._echo_at = 0.0
        self._listens_since = 0.0
        self._false_alarms: dict[str, _FalseAlarms] = {}

    @property
    def life(self) -> str:
        return f"{self.incarnation}.{self._lives}"

    @property
    def beats(self) -> list[Heartbeat]:
        """The last heartbeat of every node, this one's first."""
        return [self.beat(), *(heard.beat for heard in self._others.values())]

    @property
    def nodes(self) -> list[str]:
        return [self.node, *self._others]

    def beat(self, asks: bool = False) -> Heartbeat:
        """The next heartbeat of this node."""
        return Heartbeat(
            self.node,
            self.incarnation,
            self.life,
            self.role,
            self.state,
            self.address,
            self.version,
            self.ring_version,
            {node: heard.beat.life for node, heard in self._others.items()},
            tuple(self._over.values()),
            asks,
            self.pauses,
        )

    def ring(self, *more: State) -> Ring:
        """The ring of the core nodes that serve, or are in one of these states."""
        return make_ring(
            (beat.node, beat.life)
            for beat in self.beats
            if beat.role == "core" and beat.state in ("serving", *more)
        )

    def lives(self) -> dict[str, str]:
        """The lives of the nodes that are heard, including this one."""
        return {beat.node: beat.life for beat in self.beats}

    # -- hearing --------------------------------------------------------------------------------

    def hear(self, beat: Heartbeat, now: float) -> None:
        if beat.node == self.node:
            if beat.incarnation == self.incarnation:
                self._echo_at = now
            return
        if beat.life not in self._former.get(beat.node, ()):
            self._take_in(beat, now)
        self._notice_own_loss(beat)

    def sign_of_life(self, node: str, incarnation: str, now: float) -> None:
        """Something arrived from a node, whose heartbeat may be queued behind it, as may this
        node's own."""
        self._listens_since = now
        heard = self._others.get(node)
        if heard is not None and heard.beat.incarnation == incarnation:
            heard.at = now

    def _take_in(self, beat: Heartbeat, now: float) -> None:
        if beat.state == "gone":
            self.lose(beat.node, beat.life)
            return
        known = self._others.get(beat.node)
        if self.stalled and known is not None and known.beat.life == beat.life:
            beat = msgspec.structs.replace(beat, state=known.beat.state)
        if known is not None and known.beat.life != beat.life:
            if beat.state == "starting" and beat.incarnation != known.beat.incarnation:
                return  # until it serves, it may be a namesake that will be refused
            self.lose(beat.node, known.beat.life)
            known = None
        if known is None and self._over.get(beat.node, "").startswith(f"{beat.incarnation}."):
            self._regret(beat.node, now)
        self._others[beat.node] = _Heard(beat, now)
        if known is None or _standing(known.beat) != _standing(beat):
            self._changed()

    def _changed(self) -> None:
        if self._listener is not None:
            self._listener.members_changed()

    def listen(self, listener: MembershipListener) -> None:
        """Reports changes to `listener` from now on."""
        self._listener = listener

    def _regret(self, node: str, now: float) -> None:
        """A node that was given up is alive, perhaps overloaded. Moving its channels away and back
        adds load, so its timeout becomes longer."""
        times = min(self._alarms(node, now) + 1, MOST_FALSE_ALARMS)
        self._false_alarms.pop(node, None)
        self._false_alarms[node] = _FalseAlarms(times, now)
        if len(self._false_alarms) > REMEMBERED_NODES:
            del self._false_alarms[next(iter(self._false_alarms))]

    def _alarms(self, node: str, now: float) -> int:
        alarms = self._false_alarms.get(node)
        return alarms.times if alarms and now - alarms.at < FORGIVING_SECONDS else 0

    def _notice_own_loss(self, beat: Heartbeat) -> None:
        """If both sides of a network partition have given each other up, the smaller one starts a
        new life: only a majority takes over from nodes that it does not hear."""
        own_side = self._others.keys() - {beat.node}
        if self.life in beat.over and len(beat.hears) >= len(own_side):
            self.begin_anew()

    def begin_anew(self) -> None:
        """This node was, or may have been, given up by the others. It starts a new life and listens
        to all nodes again, also to those that it had given up."""
        self._former.clear()
        self._over.clear()
        self._lives += 1
        if self._listener is not None:
            self._listener.given_up()
        self._changed()

    def lose(self, node: str, life: str) -> None:
        """The node's incarnation is closed; if it is still running, it learns that from this node's
        next heartbeat, and starts another."""
        known = self._others.get(node)
        if known is None or known.beat.life != life:
            return
        del self._others[node]
        former = self._former.setdefault(node, set())
        if len(former) > REMEMBERED_LIVES:
            former.clear()
        former.add(life)
        self._over.pop(node, None)
        self._over[node] = life
        if len(self._over) > REMEMBERED_NODES:
            del self._over[next(iter(self._over))]
        if self._listener is not None:
            self._listener.node_lost(node, known.beat.state == "leaving")
        self._changed()

    def disconnected(self, node: str, incarnation: str) -> None:
        """NATS reported that this process has no connection any more."""
        known = self._others.get(node)
        if known is not None and known.beat.incarnation == incarnation:
            self.lose(node, known.beat.life)

    # -- time -----------------------------------------------------------------------------------

    def is_deaf(self, now: float) -> bool:
        """Whether this node does not receive even its own heartbeats: then the silence of others
        means nothing. For a while it may only have a receive backlog."""
        unheard = now - self._echo_at
        if unheard < MOST_SILENCES_BEHIND * self.silence_seconds:
            unheard = min(unheard, now - self._listens_since)
        return unheard > self.silence_seconds / 2

    def may_be_given_up(self, now: float) -> bool:
        """Whether this node has not received its own heartbeats for as long as the timeout of the
        others."""
        return now - self._echo_at > self.silence_seconds

    def look(self, now: float) -> None:
        """Called often: gives up nodes that were silent for too long."""
        if self.is_deaf(now):
            return
        for node, heard in list(self._others.items()):
            if now - heard.at > self._patience_with(heard.beat, now):
                self.lose(node, heard.beat.life)

    def _patience_with(self, beat: Heartbeat, now: float) -> float:
        patience = min(self.silence_seconds * (1 << self._alarms(beat.node, now)), LONGEST_SECONDS)
        if beat.pauses:
            patience = PAUSE_SECONDS
        return max(patience, self.silence_seconds)

    def excuse_all(self, now: float) -> None:
        """Nothing could be received for a while, for reasons of this node's own. What arrived
        meanwhile is still to be read, including its own heartbeat."""
        self._listens_since = now
        for heard in self._others.values():
            heard.at = now


def _standing(beat: Heartbeat) -> tuple[str, str, str]:
    return beat.life, beat.role, beat.state
