"""Connection settings for NATS, with their keys in the configuration (`broker`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.secret import Secret


class NatsTls(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = False
    """Encrypts the connection; also enabled if `broker.host` begins with tls://."""
    root_cert: Path | None = None
    """PEM file of the trusted authorities; default: those of the system."""
    cert: Path | None = None
    """PEM file with the hub's own certificate, if the server requires one."""
    key: Path | None = None
    """PEM file with the private key of that certificate."""


class NatsSettings(
    msgspec.Struct, frozen=True, kw_only=True, rename={"connect_seconds": "connect_timeout"}
):
    """The NATS servers that connect the nodes of a cluster and lead to services. A single node may
    use them, too."""

    host: str | None = None
    """Address of a NATS server, such as `nats://10.0.0.5:4222`, or several separated by commas; any
    that responds is used."""
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
    """Prefix of all subjects; clusters that share NATS need different ones."""
    connect_seconds: Annotated[float, Meta(ge=0.1, le=300)] = 10.0
    """Timeout for reaching a server at the start."""
    tls: NatsTls = NatsTls()

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers of `host`."""
        names = (name.strip() for name in (self.host or "").split(","))
        return tuple(name if "://" in name else f"nats://{name}" for name in names if name)
