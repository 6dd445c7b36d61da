"""Delivery plans: which addresses receive a message, and whose policies count the outcomes
(algorithms 2.2 to 2.4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import cast

import msgspec

from hubbub.domain.communication.control import copy_to
from hubbub.domain.communication.messages import (
    AUTH,
    COMMUNICATION,
    CONTROL,
    MESSAGE_INFO_SERVICE,
    PeerMessage,
    awaits_reply,
    kind_of,
)
from hubbub.domain.communication.peers import (
    Address,
    CollectiveInfo,
    CollectivePolicy,
    PeerInfo,
    PeerPolicy,
)
from hubbub.domain.communication.policies import (
    CollectiveProgress,
    DeliveryVerdict,
    PeerProgress,
    choose_addresses,
)
from hubbub.domain.communication.privacy import is_taken
from hubbub.domain.communication.steps import ARRIVED, DUE, FAILED, WAITING, DeliveryRow
from hubbub.domain.communication.turns import DeliveryTurns

CALLBACK = "callback:"
"""Prefix of the adapter name of a notification callback."""
UNKNOWN_PEER = "unknown peer"
NO_PEER = "unknown peer: a member must be a peer"
UNKNOWN_COLLECTIVE = "unknown collective"
PRIVACY = "refused by a privacy policy"
NO_ADAPTER = "no adapter serves an address"


class NotDeliverable(msgspec.Struct, frozen=True):
    """No delivery can be attempted, for this reason."""

    reason: str


Info = PeerInfo | CollectiveInfo | NotDeliverable


class PlannedReceiver(msgspec.Struct, frozen=True, array_like=True):
    """A receiver whose policy counts outcomes. `policy` is set for a collective only. Without
    peers, only the awaited reply counts."""

    receiver: str
    peers: dict[str, PeerPolicy]
    policy: str = ""
    members: int = 0
    quiet: bool = False
    """Success is not reported because the sender did not name this receiver."""
    silent: bool = False
    """Nothing is reported: outcomes only decide whose turn is next."""
    address_turns: dict[str, int] = {}
    """Peers whose addresses take turns, and how many milliseconds an address may take."""
    member_turn: int = 0
    """How many milliseconds a member may take before the next one begins; 0: all begin at once."""

    @property
    def takes_turns(self) -> bool:
        return bool(self.address_turns or self.member_turn)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[PlannedReceiver, ...]).decode


class DeliveryPlan(msgspec.Struct, frozen=True):
    """`refused` are deliveries that cannot be attempted and that no policy counts."""

    receivers: tuple[PlannedReceiver, ...] = ()
    rows: tuple[DeliveryRow, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    """Pairs of a peer or collective and the reason."""
    to_callbacks: bool = False

    def encoded(self) -> bytes:
        return _encode(self.receivers)


def decode_plan(data: bytes) -> tuple[PlannedReceiver, ...]:
    return _decode(data)


class Planner:
    """Plans one message, given the information about its receivers."""

    def __init__(
        self,
        message: PeerMessage,
        infos: Mapping[str, Info],
        serves: Callable[[str, Address], bool],
        callbacks: Sequence[str],
        now: float,
    ) -> None:
        """`infos` are keyed by receiver and by peer; `serves(peer, address)` says whether an
        adapter exists for the address; `now` is in seconds since 1970."""
        self._message = message
        self._infos = infos
        self._serves = serves
        self._callbacks = callbacks
        self._now = now
        self._rows: list[DeliveryRow] = []
        self._keys: set[str] = set()
        self._refused: list[tuple[str, str]] = []
        self._to_callbacks = False

    def plan(self, receivers: Sequence[str]) -> DeliveryPlan:
        counted = []
        message = self._message
        if not receivers:
            self._notify()
        for receiver in receivers:
            named = receiver == message.receiver
            counts = (named or not message.receiver) and message.type not in (CONTROL, AUTH)
            if kind_of(receiver) == "component":
                if receiver != MESSAGE_INFO_SERVICE:
                    self._notify()
                continue
            if kind_of(receiver) == "collective":
                planned = self._collective(receiver, counts)
            else:
                planned = self._single(receiver, counts)
                if named and message.type == CONTROL and self._is_out_of_reach(receiver):
                    self._notify()
            if counts or planned.takes_turns:
                counted.append(msgspec.structs.replace(planned, quiet=not named, silent=not counts))
        if message.ttl_ms and awaits_reply(message) and all(each.silent for each in counted):
            counted.append(PlannedReceiver(message.receiver or COMMUNICATION, {}))
        rows, refused = self._in_turn(counted), tuple(self._refused)
        return DeliveryPlan(tuple(counted), rows, refused, self._to_callbacks)

    def _in_turn(self, counted: Sequence[PlannedReceiver]) -> tuple[DeliveryRow, ...]:
        """The planned deliveries, of which those wait whose turn comes later."""
        waiting: set[str] = set()
        for each in counted:
            if each.takes_turns:
                rows = [row for row in self._rows if row.receiver == each.receiver]
                turns = _turns_of(each, [_waiting(row) for row in rows])
                turns.begin(int(self._now * 1000), lambda _: True)
                waiting.update(turns.waiting())
        return tuple(_waiting(row) if row.key in waiting else row for row in self._rows)

    def _is_out_of_reach(self, peer: str) -> bool:
        """Whether a report cannot be delivered to its peer for another reason than a privacy
        policy."""
        return any(each == peer and reason != PRIVACY for each, reason in self._refused)

    def _notify(self) -> None:
        self._to_callbacks = True
        for name in self._callbacks:
            self._add("", "", Address(CALLBACK + name))

    def _single(self, peer: str, counts: bool) -> PlannedReceiver:
        turns = {peer: self._turn_of(peer)} if self._turn_of(peer) else {}
        policy, tried = self._peer(peer, peer if counts or turns else "", counts)
        return PlannedReceiver(peer, {peer: policy}, address_turns=turns if tried else {})

    def _turn_of(self, peer: str) -> int:
        """How long each address of the peer may take; 0: all begin at once."""
        info = self._infos.get(peer)
        return info.turn_ms if isinstance(info, PeerInfo) else 0

    def _peer(self, peer: str, counted_for: str, counts: bool = True) -> tuple[PeerPolicy, bool]:
        """Adds the deliveries for a peer, or one failed delivery with the reason, which is a row
        only where it `counts`. Returns the peer's policy and whether anything can be attempted."""
        info = self._infos.get(peer, NotDeliverable(UNKNOWN_PEER))
        refused_for = counted_for if counts else ""
        if not isinstance(info, PeerInfo):
            reason = info.reason if isinstance(info, NotDeliverable) else NO_PEER
            self._refuse(peer, refused_for, reason)
            return "TO_ALL_CHANNELS", False
        policy = cast(PeerPolicy, info.policy)  # aliases are gone by now
        chosen = choose_addresses(info.addresses, policy, lambda each: self._serves(peer, each))
        taken = is_taken(info, self._message, self._now)
        if not taken or not chosen:
            self._refuse(peer, refused_for, NO_ADAPTER if taken else PRIVACY)
            return policy, False
        for address in chosen:
            self._add(peer, counted_for, address)
        return policy, True

    def _collective(self, receiver: str, counts: bool) -> PlannedReceiver:
        info = self._infos.get(receiver, NotDeliverable(UNKNOWN_COLLECTIVE))
        if not isinstance(info, CollectiveInfo):
            reason = info.reason if isinstance(info, NotDeliverable) else UNKNOWN_COLLECTIVE
            self._refuse("", receiver if counts else "", reason, receiver)
            return PlannedReceiver(receiver, {"": "TO_ALL_CHANNELS"})
        members = tuple(dict.fromkeys(info.members))
        turns = {each: self._turn_of(each) for each in members if self._turn_of(each)}
        counted_for = receiver if counts or turns or info.turn_ms else ""
        peers: dict[str, PeerPolicy] = {}
        for member in members:
            peers[member], tried = self._peer(member, counted_for)
            if not tried and info.policy == "TO_ALL_MEMBERS":
                break
        return PlannedReceiver(
            receiver,
            peers,
            info.policy,
            len(members),
            address_turns=turns,
            member_turn=info.turn_ms if members else 0,
        )

    def _refuse(self, peer: str, counted_for: str, reason: str, collective: str = "") -> None:
        if counted_for:
            self._add(peer, counted_for, Address(""), FAILED, reason)
        else:
            self._refused.append((peer or collective, reason))

    def _add(
        self, peer: str, counted_for: str, address: Address, state: int = 0, reason: str = ""
    ) -> None:
        message_id, ordinal = self._message.id, len(self._rows)
        key = delivery_key(message_id, counted_for, peer, address)
        if key in self._keys:  # two routes lead to the same address
            return
        self._keys.add(key)
        self._rows.append(
            DeliveryRow(
                key,
                message_id,
                0,
                ordinal,
                counted_for,
                peer,
                address.adapter,
                address.parameters,
                state,
                reason,
                int(self._now * 1000),
            )
        )


def _turns_of(planned: PlannedReceiver, rows: Iterable[DeliveryRow]) -> DeliveryTurns:
    return DeliveryTurns(rows, planned.address_turns, planned.member_turn)


def _is_met(verdict: DeliveryVerdict | None) -> bool:
    return verdict is not None and verdict.result == "met"


def _waiting(row: DeliveryRow) -> DeliveryRow:
    return msgspec.structs.replace(row, state=WAITING) if row.state == DUE else row


def delivery_key(message_id: str, counted_for: str, peer: str, address: Address) -> str:
    """A key that identifies a delivery: it is equal for every attempt, also after a restart."""
    parts = (message_id, counted_for, peer, address.adapter, *address.parameters)
    return blake2b("\x00".join(parts).encode(), digest_size=16).hexdigest()


class ReceiverProgress:
    """Counts the outcomes of a message's deliveries to one receiver."""

    __slots__ = (
        "_collective",
        "_lost",
        "_peers",
        "_turns",
        "policy",
        "quiet",
        "receiver",
        "silent",
        "verdict",
    )

    def __init__(self, planned: PlannedReceiver, rows: Sequence[DeliveryRow]) -> None:
        """`rows` are the deliveries that count for this receiver, in any state."""
        self.receiver = planned.receiver
        self.quiet = planned.quiet
        self.silent = planned.silent
        self.policy = planned.policy or next(iter(planned.peers.values()), "")
        self.verdict: DeliveryVerdict | None = None
        expected = dict.fromkeys(planned.peers, 0)
        for row in rows:
            expected[row.peer] += 1
        self._peers = {
            peer: PeerProgress(policy, expected[peer]) for peer, policy in planned.peers.items()
        }
        self._lost = 0
        self._collective: CollectiveProgress | None = None
        if planned.policy:
            policy = cast(CollectivePolicy, planned.policy)
            self._collective = CollectiveProgress(policy, planned.members)
            self.verdict = self._collective.verdict
        self._turns = _turns_of(planned, rows) if planned.takes_turns else None

    @property
    def without_rows(self) -> list[str]:
        """Peers for which no outcome will arrive."""
        return [name for name, peer in self._peers.items() if not peer.expected]

    def policy_of(self, peer: str) -> PeerPolicy:
        return self._peers[peer].policy

    def feed(self, row: DeliveryRow, reason: str | None, at: int) -> DeliveryVerdict | None:
        """Returns the verdict if this outcome decides it. `reason` None: the delivery arrived.
        `at` is in milliseconds since 1970."""
        peer = self._peers[row.peer]
        if self._turns is not None:
            self._turns.ended(row, ARRIVED if reason is None else FAILED, at)
        if reason is not None and peer.expected > 1:
            reason = f"{row.adapter}: {reason}"
        found = (
            peer.feed(row.key, reason)
            if row.adapter
            else peer.refuse(reason or row.reason)
        )  # fmt: skip
        if found is not None and self._collective is not None:
            found = self._collective.feed(row.peer, found)
        if found is not None and self.verdict is None:
            self.verdict = found
            return found
        return None

    # -- turns ----------------------------------------------------------------------------------

    @property
    def next_turn_at(self) -> float:
        """When `begin_turns` has to be called again, in milliseconds since 1970."""
        return math.inf if self._turns is None else self._turns.next_at

    def begin_turns(self, now: int, unanswered: bool) -> list[str]:
        """Returns the keys of the deliveries whose turn has come. `unanswered`: a reply is awaited,
        so those who have the message have not acknowledged it."""
        if self._turns is None:
            return []

        def needs(verdict: DeliveryVerdict | None) -> bool:
            return verdict is None or (unanswered and _is_met(verdict))

        if not needs(self.verdict):
            self._turns.next_at = math.inf
            return []
        return self._turns.begin(now, lambda peer: needs(self._peers[peer].verdict))

    def end_turns(self, unanswered: bool) -> list[str]:
        """Returns the keys of the deliveries that nobody needs any more: others of the same turns
        arrived, or the receiver has its verdict."""
        if self._turns is None:
            return []
        met = {name for name, peer in self._peers.items() if _is_met(peer.verdict)}
        acknowledged = set() if unanswered else met
        over = self._turns.unfinished(acknowledged & self._turns.address_turns.keys())
        if self.verdict is not None and not (unanswered and _is_met(self.verdict)):
            over += self._turns.waiting()
            if _is_met(self.verdict) and (self._turns.member_turn or not met):
                over += self._turns.unfinished(self._peers.keys() - met)
        self._turns.end(over)
        return list(dict.fromkeys(over))

    def acknowledge(self) -> DeliveryVerdict | None:
        """A reply arrived: where turns are taken, this is the acknowledgement. Returns the verdict
        that follows from it."""
        if self._turns is None or self.verdict is not None:
            return None
        self.verdict = DeliveryVerdict("met")
        return self.verdict

    def lose(self, peer: str) -> DeliveryVerdict | None:
        """Removes an erased peer. Returns a collective's verdict, which does not name the peer, if
        the removal decides it."""
        if self._collective is None or peer not in self._peers:
            return None
        refused = self._peers[peer].refuse(UNKNOWN_PEER)
        if refused is None:
            return None
        self._lost += 1
        found = self._collective.feed(f"erased member {self._lost}", refused)
        if found is not None and self.verdict is None:
            self.verdict = found
        return found

    def time_out(self, reason: str) -> DeliveryVerdict | None:
        if self.verdict is not None:
            return None
        self.verdict = DeliveryVerdict("timed_out", reason)
        return self.verdict


def copy_for(message: PeerMessage, row: DeliveryRow) -> PeerMessage:
    """The message as sent to this peer; a callback receives the unchanged message."""
    return copy_to(message, row.peer) if row.peer else copy_to(message, message.receiver)
