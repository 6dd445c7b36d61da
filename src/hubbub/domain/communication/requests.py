"""What is asked of the owner of a hub's log, from any node, and what it answers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.names import COMMUNICATION_LOG


class _OfLog(msgspec.Struct, frozen=True):
    hub: str

    @property
    def channel(self) -> str:
        return COMMUNICATION_LOG


class SendMessage(_OfLog, frozen=True, tag="comm_send"):
    """Answered with the message's id, once the message is on disk."""

    message: PeerMessage
    adapter: str = ""
    """The input adapter that it came by; empty: it was sent."""
    fresh: bool = False
    """The hub itself made up its id."""
    transient: bool = False
    """It need not survive a crash: answered at once, and not in the log."""


class DeliverMessage(_OfLog, frozen=True, tag="comm_deliver"):
    """Send a message to a peer that follows a channel, unless it was sent already, and wait for its
    verdict, for so many seconds at most. No routing rules apply."""

    message: PeerMessage
    wait_seconds: float


class VerdictTold(msgspec.Struct, frozen=True):
    """What became of a message."""

    result: Literal["open", "met", "failed", "timed_out"]
    reason: str = ""


class PullAdapter(_OfLog, frozen=True, tag="comm_pull"):
    """Have an adapter look for messages now; answered before it does."""

    adapter: str


class ReplayDeliveries(_OfLog, frozen=True, tag="comm_replay"):
    """Try dead letters again; all of them without keys. Answered with how many."""

    keys: tuple[str, ...] = ()


class DiscardDeliveries(_OfLog, frozen=True, tag="comm_discard"):
    """Delete dead letters. Answered with how many."""

    keys: tuple[str, ...]


class DescribeAdapters(_OfLog, frozen=True, tag="comm_adapters"):
    pass


class PeerChanged(_OfLog, frozen=True, tag="comm_peer"):
    """The peer's row in the store is another, or gone."""

    peers: tuple[str, ...]


class ForgetPeer(_OfLog, frozen=True, tag="comm_forget"):
    """The peer is being erased: nothing of or for the peer goes out any more, and nobody is told
    so."""

    peer: str


class AdapterStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """How an adapter of a hub does."""

    name: str
    direction: str = ""
    """Empty: the server has no adapters of its kind."""
    waiting: int = 0
    """Deliveries that wait or are under way."""
    delivered: int = 0
    """Since the node became the owner of the hub's log; of an input adapter, what came in."""
    failed: int = 0
    instances: int = 0
    last_error: str = ""
    last_error_at: int = 0
    """Milliseconds since 1970; 0: there was none."""


class AdaptersDescribed(msgspec.Struct, frozen=True):
    adapters: tuple[AdapterStatus, ...]


CommunicationRequest = (
    SendMessage
    | DeliverMessage
    | PullAdapter
    | ReplayDeliveries
    | DiscardDeliveries
    | DescribeAdapters
    | PeerChanged
    | ForgetPeer
)
CommunicationAnswer = str | int | AdaptersDescribed | VerdictTold | None
ANSWERS: dict[type, Any] = {
    SendMessage: str,
    DeliverMessage: VerdictTold,
    PullAdapter: None,
    ReplayDeliveries: int,
    DiscardDeliveries: int,
    DescribeAdapters: AdaptersDescribed,
    PeerChanged: None,
    ForgetPeer: None,
}
