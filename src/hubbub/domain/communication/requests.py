"""Requests to the owner of a hub's message log, from any node, and their responses."""

from __future__ import annotations

from typing import Generic, Literal

import msgspec
from msgspec import UNSET

from hubbub.domain.asking import Answer, OrderedRequest, OwnerRequest
from hubbub.domain.audit import Audit
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.steps import CommunicationStep
from hubbub.domain.names import COMMUNICATION_LOG


class LogMessage(OrderedRequest[int], frozen=True, tag="log_message"):
    """Stores a message in the log, and the step with it; returns its serial."""

    travels_in = None

    step: CommunicationStep


class VerdictTold(msgspec.Struct, frozen=True):
    """The verdict on a message."""

    result: Literal["open", "met", "failed", "timed_out"]
    reason: str = ""


class AdapterStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """The status of a hub's adapter."""

    name: str
    direction: str = ""
    """Empty if the server has no adapters of this kind."""
    waiting: int = 0
    """Deliveries that are queued or in flight."""
    delivered: int = 0
    """Messages delivered, or received by an input adapter, since the node became the owner of the
    hub's log."""
    failed: int = 0
    instances: int = 0
    last_error: str = ""
    last_error_at: int = 0
    """Milliseconds since 1970; 0: no error so far."""


class AdaptersDescribed(msgspec.Struct, frozen=True):
    adapters: tuple[AdapterStatus, ...]


class _LogRequest(OwnerRequest[Answer], Generic[Answer], frozen=True):
    """A request for the owner of the hub's log."""

    travels_in = ("topic", "request")

    hub: str

    @property
    def place(self) -> tuple[str, str]:
        return self.hub, COMMUNICATION_LOG


class SendMessage(_LogRequest[str], frozen=True, tag="comm_send"):
    """Returns the message's id once the message is on disk."""

    message: PeerMessage
    adapter: str = ""
    """The input adapter that received the message; empty: a client sent it."""
    fresh: bool = False
    """Whether the hub generated the id."""
    transient: bool = False
    """Whether the message may be lost in a crash: it is confirmed at once and not logged."""


class DeliverMessage(_LogRequest[VerdictTold], frozen=True, tag="comm_deliver"):
    """Sends a message to a peer that follows a channel, unless it was sent before, and waits for
    the verdict for at most `seconds`. Routing rules do not apply."""

    may_wait = True

    message: PeerMessage
    wait_seconds: float


class PullAdapter(_LogRequest[None], frozen=True, tag="comm_pull"):
    """Makes an adapter poll for messages now; the response does not wait for the poll."""

    adapter: str


class ReplayDeliveries(_LogRequest[int], frozen=True, tag="comm_replay"):
    """Retries dead letters, all of them if no keys are given. Returns how many."""

    keys: tuple[str, ...] = ()
    audit: Audit = UNSET


class DiscardDeliveries(_LogRequest[int], frozen=True, tag="comm_discard"):
    """Deletes dead letters. Returns how many."""

    keys: tuple[str, ...]
    audit: Audit = UNSET


class DescribeAdapters(_LogRequest[AdaptersDescribed], frozen=True, tag="comm_adapters"):
    """Returns the status of each adapter of the hub."""


class PeerChanged(_LogRequest[None], frozen=True, tag="comm_peer"):
    """The peer's row in the store changed or was deleted."""

    peers: tuple[str, ...]


class ForgetPeer(_LogRequest[None], frozen=True, tag="comm_forget"):
    """The peer is being erased: no further message from or to the peer is delivered, and no sender
    is notified of that."""

    peer: str
