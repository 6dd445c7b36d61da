"""What administration answers, as values. Times are in ms since 1970 unless they say otherwise."""

from __future__ import annotations

import msgspec

from hubbub.domain.errors import HubbubError


def wire_name(name: str) -> str:
    """`session_id` is `sessionID` on the wire, as in the socket's protocol."""
    first, *rest = name.split("_")
    return first + "".join("ID" if word == "id" else word.capitalize() for word in rest)


class BatchResult(msgspec.Struct, frozen=True):
    """What became of one message of a batch."""

    message_id: str = ""
    serial: int = 0
    error: HubbubError | None = None


class SessionView(msgspec.Struct, frozen=True, rename=wire_name):
    """A session that is open now. `expiresAt` is in seconds since 1970."""

    session_id: str
    level: str
    authenticated: bool
    opened_at: int
    channels: list[str]
    user_id: str | None = None
    token_id: str | None = None
    expires_at: int | None = None


class ChannelLoad(msgspec.Struct, frozen=True, rename=wire_name):
    channel: str
    sessions: int


class HubLoad(msgspec.Struct, frozen=True, rename=wire_name):
    """A hub in the memory of a node. `channels` names the busiest."""

    hub: str
    sessions: int
    subscriptions: int
    channel_count: int
    channels: list[ChannelLoad]


class NodeLoad(msgspec.Struct, frozen=True, rename=wire_name):
    node: str
    uptime_seconds: int
    sessions: int
    hubs: list[HubLoad]


class Topology(msgspec.Struct, frozen=True, rename=wire_name):
    """Nodes, the hubs in their memory, and the channels in use."""

    nodes: list[NodeLoad]


class Counters(msgspec.Struct, frozen=True, rename=wire_name):
    """Totals since the process began; `sessions` and `subscriptions` are those of now."""

    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int
    messages_refused: int
    sessions: int
    sessions_opened: int
    subscriptions: int
    slow_consumers: int
    publish_requests: int
    publish_seconds_mean: float
