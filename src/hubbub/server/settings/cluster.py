"""The keys of a cluster; `keys` says how to read them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hubbub.domain.secret import Secret


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Several nodes that serve the same hubs together."""

    secret_key: Secret | None = None
    """Shared by all nodes, at least 32 bytes: it signs what they say to each other. With it, this
    hub is a node of a cluster; it needs `broker.host` and `storage.postgres.host`."""
    node: str | None = None
    """Name of this node, different from those of all others: up to 64 letters, digits, `-` and `_`.
    The name of the machine if absent."""
    role: Literal["core", "edge"] = "core"
    """A `core` node owns channels; an `edge` node only has connections."""
    heartbeat_interval: Annotated[float, Meta(ge=0.02, le=10)] = 0.1
    """How often a node says that it lives."""
    silence_timeout: Annotated[float, Meta(ge=0.1, le=60)] = 0.4
    """Silence after which the others take a node's channels."""
