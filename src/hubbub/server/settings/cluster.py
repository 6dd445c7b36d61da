"""Settings of a cluster; `keys` explains the format."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hubbub.domain.secret import Secret


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Several nodes that serve the same hubs together."""

    secret_key: Secret | None = None
    """Shared by all nodes, at least 32 bytes: signs the nodes' messages to each other. With it,
    this hub is a node of a cluster; it needs `broker.host` and `storage.postgres.host`."""
    node: str | None = None
    """Name of this node, unique in the cluster: up to 64 letters, digits, `-` and `_`. Default: the
    name of the machine."""
    role: Literal["core", "edge"] = "core"
    """A `core` node owns channels; an `edge` node only has connections."""
    heartbeat_interval: Annotated[float, Meta(ge=0.02, le=10)] = 0.1
    """Interval of a node's heartbeats."""
    silence_timeout: Annotated[float, Meta(ge=0.1, le=60)] = 0.4
    """Silence after which the other nodes take over a node's channels."""
