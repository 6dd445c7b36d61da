"""The keys of a cluster and of the NATS servers that connect it; `keys` says how to read them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hubbub.server.settings.secret import Secret

_SUBJECT = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"


class BrokerTls(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = False
    """Encrypt the connection; also on where `broker.host` begins with tls://."""
    root_cert: Path | None = None
    """PEM file of the authorities to trust; else those of the system."""
    cert: Path | None = None
    """PEM file with the hub's own certificate, if it needs one."""
    key: Path | None = None
    """PEM file with the private key of that certificate."""


class Broker(msgspec.Struct, frozen=True, kw_only=True):
    """The NATS servers that connect the nodes of a cluster, and lead to services. One node alone
    may use them too."""

    host: str | None = None
    """Address of a NATS server, such as `nats://10.0.0.5:4222`; of several, separated by commas,
    any that answers is used."""
    user: str | None = None
    """User to log in as, if the server has users."""
    password: Secret | None = None
    """Password of the user."""
    token: Secret | None = None
    """Token to log in with, if the server has one."""
    credentials_file: Path | None = None
    """Credentials file (`.creds`) with a JWT and its key, to log in with."""
    subject: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=100)
    ] = "hubbub"
    """What all subjects begin with; clusters that share NATS need different ones."""
    connect_timeout: Annotated[float, Meta(ge=0.1, le=300)] = 10.0
    """Time to reach a server at the start."""
    tls: BrokerTls = BrokerTls()

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers of `host`."""
        names = (name.strip() for name in (self.host or "").split(","))
        return tuple(name if "://" in name else f"nats://{name}" for name in names if name)


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
