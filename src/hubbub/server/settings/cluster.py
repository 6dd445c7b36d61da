"""The keys of a cluster and of the NATS servers that connect it; `settings_keys` says how to read
them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hubbub.server.settings.secret import Secret


class BrokerTls(msgspec.Struct, frozen=True, kw_only=True):
    enabled: Annotated[
        bool,
        Meta(description="Encrypt the connection; also on where `broker.host` begins with tls://."),
    ] = False
    root_cert: Annotated[
        Path | None,
        Meta(description="PEM file of the authorities to trust; else those of the system."),
    ] = None
    cert: Annotated[
        Path | None, Meta(description="PEM file with the hub's own certificate, if it needs one.")
    ] = None
    key: Annotated[
        Path | None, Meta(description="PEM file with the private key of that certificate.")
    ] = None


class Broker(msgspec.Struct, frozen=True, kw_only=True):
    """The NATS servers that connect the nodes of a cluster, and lead to services. One node alone
    may use them too."""

    host: Annotated[
        str | None,
        Meta(
            description="Address of a NATS server, such as `nats://10.0.0.5:4222`; of several, "
            "separated by commas, any that answers is used."
        ),
    ] = None
    user: Annotated[str | None, Meta(description="User to log in as, if the server has users.")] = (
        None
    )
    password: Annotated[Secret | None, Meta(description="Password of the user.")] = None
    token: Annotated[
        Secret | None, Meta(description="Token to log in with, if the server has one.")
    ] = None
    credentials_file: Annotated[
        Path | None,
        Meta(description="Credentials file (`.creds`) with a JWT and its key, to log in with."),
    ] = None
    subject: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$",
            max_length=100,
            description="What all subjects begin with; clusters that share NATS need different "
            "ones.",
        ),
    ] = "hubbub"
    connect_timeout: Annotated[
        float, Meta(ge=0.1, le=300, description="Time to reach a server at the start.")
    ] = 10.0
    tls: BrokerTls = BrokerTls()

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers of `host`."""
        names = (name.strip() for name in (self.host or "").split(","))
        return tuple(name if "://" in name else f"nats://{name}" for name in names if name)


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Several nodes that serve the same hubs together."""

    secret_key: Annotated[
        Secret | None,
        Meta(
            description="Shared by all nodes, at least 32 bytes: it signs what they say to each "
            "other. With it, this hub is a node of a cluster; it needs `broker.host` and "
            "`storage.postgres.host`."
        ),
    ] = None
    node: Annotated[
        str | None,
        Meta(
            description="Name of this node, different from those of all others: up to 64 letters, "
            "digits, `-` and `_`. The name of the machine if absent.",
        ),
    ] = None
    role: Annotated[
        Literal["core", "edge"],
        Meta(description="A `core` node owns channels; an `edge` node only has connections."),
    ] = "core"
    heartbeat_interval: Annotated[
        float, Meta(ge=0.02, le=10, description="How often a node says that it lives.")
    ] = 0.1
    silence_timeout: Annotated[
        float,
        Meta(ge=0.1, le=60, description="Silence after which the others take a node's channels."),
    ] = 0.4
