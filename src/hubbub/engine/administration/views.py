"""Responses of the administration as structs. Times are in ms since 1970 unless noted otherwise."""

from __future__ import annotations

from typing import Literal

import msgspec

from hubbub.domain.fields import wire_name

RestoreState = Literal["checking", "loading", "switching", "clearing", "done", "failed"]
"""`checking` unpacks the archive, `switching` replaces the hub, `clearing` deletes what was
replaced."""


class SessionView(msgspec.Struct, frozen=True, rename=wire_name):
    """An open session and its node. `expiresAt` is in seconds since 1970. A list names only some of
    the `channelCount` channels. `transport` is the client's protocol, `queuedBytes` its backlog;
    the last sign of life was `quietMs` milliseconds ago."""

    session_id: str
    level: str
    authenticated: bool
    opened_at: int
    channels: list[str]
    user_id: str | None = None
    token_id: str | None = None
    expires_at: int | None = None
    node: str = ""
    channel_count: int = 0
    transport: str = ""
    address: str = ""
    queued_bytes: int = 0
    quiet_ms: int = 0


class ChannelLoad(msgspec.Struct, frozen=True, rename=wire_name, omit_defaults=True):
    """`sessionIDs` are some of its sessions, if requested."""

    channel: str
    sessions: int
    session_ids: list[str] = msgspec.field(default_factory=list, name="sessionIDs")


class HubLoad(msgspec.Struct, frozen=True, rename=wire_name):
    """A hub in the memory of a node. `channels` names the busiest."""

    hub: str
    sessions: int
    subscriptions: int
    channel_count: int
    channels: list[ChannelLoad]


class NodeLoad(msgspec.Struct, frozen=True, rename=wire_name):
    """A node. It owns `partitions` of the 1,024 into which channels are divided, and has `channels`
    of them in memory. `cpuPercent` is in percent of one core in the last second, `memoryBytes` the
    memory of the process; `links` are the other nodes that it hears. A single hub does not see
    them."""

    node: str
    uptime_seconds: int
    sessions: int
    hubs: list[HubLoad]
    role: str = "core"
    version: str = ""
    partitions: int = 0
    channels: int = 0
    cpu_percent: float = 0.0
    memory_bytes: int = 0
    links: list[str] = []


class Topology(msgspec.Struct, frozen=True, rename=wire_name):
    """Nodes, the hubs in their memory, and the channels in use. `silent` names nodes that did not
    respond in time."""

    nodes: list[NodeLoad]
    silent: list[str] = []


class ConfiguredKey(msgspec.Struct, frozen=True):
    """A key of the configuration, with the value in effect; secrets are hidden. `set`: it differs
    from the default."""

    key: str
    value: str
    set: bool


class JournalState(msgspec.Struct, frozen=True, rename=wire_name):
    """The journal of a node: events written since its start, lost events, and bytes not yet on
    disk."""

    events: int
    lost: int
    buffered_bytes: int


class DataState(msgspec.Struct, frozen=True, rename=wire_name):
    """The journal of the responding node, null if it is disabled, and when the pipeline last wrote
    its tables, in ms since 1970: null if it never ran, or if `problem` says why that is unknown."""

    journal: JournalState | None
    computed_at: int | None
    problem: str | None = None


class Counters(msgspec.Struct, frozen=True, rename=wire_name):
    """Totals of all nodes since each of them started; `sessions` and `subscriptions` are current
    numbers. `silent` names nodes that did not respond in time and are not counted."""

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


class RestorePart(msgspec.Struct, frozen=True, rename=wire_name):
    """Rows of one table: those of the hub in the archive, and those of the hub when the restore
    started; None if they are not counted."""

    table: str
    archive: int
    now: int | None = None


class RestoreFailure(msgspec.Struct, frozen=True):
    """The error of a restore that failed; the hub is as it was."""

    code: str
    message: str


class RestoreView(msgspec.Struct, frozen=True, rename=wire_name):
    """A restore of the hub `hub` from the hub `source` of an archive. `rows` of `totalRows` are
    loaded. `createdAt` and `version` say when the backup was made, and by which Hubbub;
    `withSecrets` is false where webhooks that sign and headers of routes are not in it. A dry run
    ends with what would be replaced by what. `sessions` were told to connect again."""

    id: str
    hub: str
    source: str
    archive: str
    dry_run: bool
    state: RestoreState
    node: str
    begun_at: int
    ended_at: int | None = None
    rows: int = 0
    total_rows: int = 0
    sessions: int = 0
    created_at: str | None = None
    version: str | None = None
    with_secrets: bool | None = None
    parts: list[RestorePart] = []
    error: RestoreFailure | None = None
