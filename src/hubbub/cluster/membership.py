"""Membership: who is in the cluster, as one node hears it. No I/O and no clock of its own.

Every node says a few times a second that it lives, what it is, and whom it hears. One that is
silent for too long, that says goodbye, or that NATS reports as disconnected, is lost, and that life
of it is over. A node that hears that its life is over was given up: others own its channels now. It
begins a new one, so that nobody takes it for what it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from hubbub.domain.quota_shares import Share
from hubbub.domain.ring import Ring, make_ring

Role = Literal["core", "edge"]
"""A core node owns channels; an edge node only has connections."""
State = Literal["starting", "serving", "leaving", "gone"]

HEARTBEAT_SECONDS = 0.1
SILENCE_SECONDS = 0.4
PAUSE_SECONDS = 5.0
"""How long a node may be silent that said so before."""
MOST_FALSE_ALARMS = 3
"""Each doubles the time that a node gets, up to a limit."""
LONGEST_SECONDS = 2.0
FORGIVING_SECONDS = 60.0
MOST_SILENCES_BEHIND = 5
"""How far a node may be behind with what it hears, before it is deaf."""
REMEMBERED_LIVES = 100
REMEMBERED_NODES = 50


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """`life` names one uninterrupted membership; `hears` has the lives that the sender hears, by
    node, `over` those that it has given up; `ring` is the version of the ring that the sender has
    put into effect. `asks`: the sender wants to hear from everyone now. `pauses`: it may be silent
    for a moment. `shares`: what the sender takes of hubs' quotas; None: as it said before."""

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
    """How many times a node was given up that lived, and when that turned out last."""

    times: int
    at: float


class Membership:
    """One node's view. `changed` is called when the ring may be another one, `lost` with the name
    of each node that is gone and whether it had said so, and `given_up` when the others have given
    this node up."""

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
        """Whether this node may be silent for a moment now."""
        self.stalled = False
        """Whether nothing came through for a while, or only just does again: then others were
        deaf for the same reason, and say so in heartbeats that waited on the way."""
        self.ring_version = ""
        self.changed: Callable[[], None] = _nothing
        self.lost: Callable[[str, bool], None] = _nothing_of
        self.given_up: Callable[[], None] = _nothing
        self._lives = 1
        self._others: dict[str, _Heard] = {}
        self._former: dict[str, set[str]] = {}
        self._over: dict[str, str] = {}
        """The lives that this node has given up last, by node."""
        self._echo_at = 0.0
        self._listens_since = 0.0
        self._false_alarms: dict[str, _FalseAlarms] = {}

    @property
    def life(self) -> str:
        return f"{self.incarnation}.{self._lives}"

    @property
    def beats(self) -> list[Heartbeat]:
        """What the nodes said last, this one's first."""
        return [self.beat(), *(heard.beat for heard in self._others.values())]

    @property
    def nodes(self) -> list[str]:
        return [self.node, *self._others]

    def beat(self, asks: bool = False) -> Heartbeat:
        """What to say to everyone now."""
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
        """Of the core nodes that serve, or are in one of these states, too."""
        return make_ring(
            (beat.node, beat.life)
            for beat in self.beats
            if beat.role == "core" and beat.state in ("serving", *more)
        )

    def lives(self) -> dict[str, str]:
        """Of the nodes that are heard, this one included."""
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
        """Something came from a node. Its heartbeat may be behind other things, and this node's
        own, too."""
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
            self.changed()

    def _regret(self, node: str, now: float) -> None:
        """It was given up, and lives: perhaps it has too much to do. To move its channels away and
        back gives everyone still more to do, so the next time it gets longer."""
        times = min(self._alarms(node, now) + 1, MOST_FALSE_ALARMS)
        self._false_alarms.pop(node, None)
        self._false_alarms[node] = _FalseAlarms(times, now)
        if len(self._false_alarms) > REMEMBERED_NODES:
            del self._false_alarms[next(iter(self._false_alarms))]

    def _alarms(self, node: str, now: float) -> int:
        alarms = self._false_alarms.get(node)
        return alarms.times if alarms and now - alarms.at < FORGIVING_SECONDS else 0

    def _notice_own_loss(self, beat: Heartbeat) -> None:
        """Where both sides of a cut have given the other up, the smaller one begins anew: only a
        majority takes over from those that it does not hear."""
        own_side = self._others.keys() - {beat.node}
        if self.life in beat.over and len(beat.hears) >= len(own_side):
            self.begin_anew()

    def begin_anew(self) -> None:
        """This node was, or may have been, given up by the others. It listens to everyone again,
        also to whom it had given up itself."""
        self._former.clear()
        self._over.clear()
        self._lives += 1
        self.given_up()
        self.changed()

    def lose(self, node: str, life: str) -> None:
        """A node is gone. That life of it is over: should it still live, it learns so from what
        this node says, and begins another."""
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
        self.lost(node, known.beat.state == "leaving")
        self.changed()

    def disconnected(self, node: str, incarnation: str) -> None:
        """NATS says that this process has no connection any more."""
        known = self._others.get(node)
        if known is not None and known.beat.incarnation == incarnation:
            self.lose(node, known.beat.life)

    # -- time -----------------------------------------------------------------------------------

    def is_deaf(self, now: float) -> bool:
        """Whether this node does not even hear itself: then the silence of others means nothing.
        For a while it may just be behind with what it hears."""
        unheard = now - self._echo_at
        if unheard < MOST_SILENCES_BEHIND * self.silence_seconds:
            unheard = min(unheard, now - self._listens_since)
        return unheard > self.silence_seconds / 2

    def may_be_given_up(self, now: float) -> bool:
        """Whether this node has not heard itself for as long as others wait for it."""
        return now - self._echo_at > self.silence_seconds

    def look(self, now: float) -> None:
        """Called often: give up who was silent for too long."""
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
        """Nothing could be heard for a while, for reasons of this node's own. What came meanwhile
        is still to be read, its own heartbeat, too."""
        self._listens_since = now
        for heard in self._others.values():
            heard.at = now


def _standing(beat: Heartbeat) -> tuple[str, str, str]:
    return beat.life, beat.role, beat.state


def _nothing() -> None:
    pass


def _nothing_of(node: str, expected: bool) -> None:
    pass
