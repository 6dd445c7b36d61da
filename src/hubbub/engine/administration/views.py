"""Answers of the administration as structs. Times are in ms since 1970 unless they say
otherwise."""

from __future__ import annotations

import msgspec

from hubbub.domain.fields import wire_name


class SessionView(msgspec.Struct, frozen=True, rename=wire_name):
    """A session that is open now, and the node that it is connected to. `expiresAt` is in seconds
    since 1970."""

    session_id: str
    level: str
    authenticated: bool
    opened_at: int
    channels: list[str]
    user_id: str | None = None
    token_id: str | None = None
    expires_at: int | None = None
    node: str = ""


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
    """A node. It owns `partitions` of the 1,024 that channels fall into, and has `channels` of
    them in memory."""

    node: str
    uptime_seconds: int
    sessions: int
    hubs: list[HubLoad]
    role: str = "core"
    version: str = ""
    partitions: int = 0
    channels: int = 0


class Topology(msgspec.Struct, frozen=True, rename=wire_name):
    """Nodes, the hubs in their memory, and the channels in use. `silent` names the nodes that did
    not answer in time."""

    nodes: list[NodeLoad]
    silent: list[str] = []


class Counters(msgspec.Struct, frozen=True, rename=wire_name):
    """Totals of all nodes since each of them began; `sessions` and `subscriptions` are those of
    now. `silent` names the nodes that did not answer in time and are not counted."""

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
    silent: list[str] = []
