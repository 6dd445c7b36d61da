"""Checks that a node's settings fit a cluster."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

from hubbub.cluster.nats_settings import NatsSettings
from hubbub.server.settings.cluster import Cluster
from hubbub.server.settings.keys import Settings

MIN_SECRET_BYTES = 32
_NODE = re.compile(r"[A-Za-z0-9_-]{1,64}")  # it becomes a part of a NATS subject


def node_name(settings: Settings) -> str:
    """The configured name, or one derived from the machine's name."""
    machine = re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname()).strip("-")
    return settings.cluster.node or machine[:64] or "node"


def worker_name(settings: Settings, number: int) -> str:
    """The node name of one of several workers."""
    return f"{node_name(settings)[:60]}-{number}"


def workers_of(name: str) -> str:
    """The common prefix of the names of workers on one machine."""
    return name.rpartition("-")[0]


def cluster_problems(settings: Settings) -> Iterator[str]:
    """Yields a sentence for each problem."""
    cluster, broker = settings.cluster, settings.broker
    yield from broker_problems(broker)
    if cluster.secret_key is None:
        if cluster != Cluster():
            yield "cluster has no effect without cluster.secretKey; set that, or leave it out"
        return
    size = len(cluster.secret_key.reveal().encode())
    if size < MIN_SECRET_BYTES:
        yield (
            f"cluster.secretKey has {size} bytes (hidden); expected at least {MIN_SECRET_BYTES}, "
            "for example from: openssl rand -base64 32"
        )
    if cluster.node is not None and not _NODE.fullmatch(cluster.node):
        yield (f"cluster.node is {cluster.node[:80]!r}; expected up to 64 letters, digits, - and _")
    if not broker.servers:
        yield "broker.host is missing: the nodes of a cluster are connected by NATS"
    if settings.storage.postgres.host is None:
        yield (
            "storage.postgres.host is missing: the nodes of a cluster share a PostgreSQL "
            "database; a file on one machine cannot be shared"
        )
    if cluster.silence_timeout < 3 * cluster.heartbeat_interval:
        yield (
            f"cluster.silenceTimeout is {cluster.silence_timeout:g}; expected at least three times "
            f"cluster.heartbeatInterval ({cluster.heartbeat_interval:g})"
        )


def broker_problems(broker: NatsSettings) -> Iterator[str]:
    if not broker.servers:
        if broker != NatsSettings():
            yield "broker has no effect without broker.host; set that, or leave it out"
        return
    if broker.password is not None and broker.user is None:
        yield "broker.user is missing; broker.password needs it"
    if broker.tls.key is not None and broker.tls.cert is None:
        yield "broker.tls.cert is missing; broker.tls.key needs it"
    for name, path in (
        ("credentialsFile", broker.credentials_file),
        ("tls.rootCert", broker.tls.root_cert),
        ("tls.cert", broker.tls.cert),
        ("tls.key", broker.tls.key),
    ):
        if path is not None and not path.is_file():
            yield f"broker.{name} is {str(path)!r}, where there is no file"


def signing_problems(settings: Settings) -> Iterator[str]:
    """Nodes with separate data folders would not recognize each other's tokens."""
    if settings.cluster.secret_key is None:
        return
    for name, signing in (("session", settings.auth.session), ("admin", settings.auth.admin)):
        if signing.secret is None:
            yield (
                f"auth.{name}.secret is missing: every node of a cluster must know the tokens that "
                "the others sign"
            )
