"""Checks beyond the type of a key: values that must fit each other or the machine."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator
from pathlib import Path

from hubbub.domain.errors import InvalidToken
from hubbub.domain.permissions import Identity
from hubbub.domain.setting_checks import origin_problem, url_problem
from hubbub.engine.mqtt.settings import Mqtt
from hubbub.gateways.origins import is_host
from hubbub.server.settings.cluster_checks import cluster_problems
from hubbub.server.settings.keys import Secret, Settings
from hubbub.server.settings.reader import SettingsReader
from hubbub.server.settings.storage import Postgres, PostgresSettings
from hubbub.server.settings.tracing import Tracing
from hubbub.server.settings.zeromq import ZeroMq

MIN_SECRET_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
# `*` is every interface, or any port.
_TCP_ENDPOINT = re.compile(r"tcp://(?P<host>\[[\da-fA-F:.]+\]|[^\s:/]+):(?:\d{1,5}|\*)")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,100}:[ -~]*[!-~]")
_Z85_KEY = re.compile(r"[\w.:+=^!/*?&<>()\[\]{}@%$#-]{40}", re.ASCII)


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_on_this_machine(host: str) -> bool:
    """Like `is_loopback`, and also True for the folder of a Unix socket."""
    return host.startswith("/") or is_loopback(host)


def check_settings(reader: SettingsReader, settings: Settings) -> None:
    _check_listener(reader, settings)
    _check_buffers(reader, settings)
    _check_secrets(reader, settings)
    _check_postgres(reader, settings)
    _check_zeromq(reader, settings.zeromq)
    for found in (
        *cluster_problems(settings),
        *_stream_problems(settings),
        *settings.of(Mqtt).problems(),
    ):
        reader.note(found)
    problem = url_problem(settings.admin.url) if settings.admin.url is not None else None
    if problem is not None:
        reader.note(f"admin.url {problem} (value hidden)")
    _check_tracing(reader, settings.tracing)
    if settings.storage.path.exists() and not settings.storage.path.is_dir():
        reader.note(f"storage.path is {str(settings.storage.path)!r}, a file; expected a folder")


def _check_tracing(reader: SettingsReader, tracing: Tracing) -> None:
    problem = url_problem(tracing.endpoint) if tracing.endpoint is not None else None
    if problem is not None:
        reader.note(f"tracing.endpoint {problem} (value hidden)")
    if tracing.header is not None and not _HEADER.fullmatch(tracing.header.reveal()):
        reader.note(
            "tracing.header is no header (hidden); expected `Name: value`, in visible characters"
        )


def _check_listener(reader: SettingsReader, settings: Settings) -> None:
    listener = settings.listener
    for problem in filter(None, map(origin_problem, listener.allowed_origins)):
        reader.note(f"listener.allowedOrigins {problem}")
    for network in listener.trusted_proxies:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            reader.note(
                f"listener.trustedProxies has {network!r}; expected an IP address or a network "
                "such as 10.0.0.0/8"
            )
    place = listener.dashboard
    if place.host is not None and not is_host(place.host):
        reader.note(
            f"listener.dashboard.host is {place.host!r}; expected a host, or a host and a port"
        )
    if place.port is not None and place.port == listener.port:
        reader.note(
            f"listener.dashboard.port is {place.port}, the port of the hub; expected another"
        )
    files = {"certificate": listener.tls.certificate, "key": listener.tls.key}
    given = [name for name, path in files.items() if path is not None]
    if len(given) == 1:
        missing = "key" if given == ["certificate"] else "certificate"
        reader.note(f"listener.tls.{missing} is missing; listener.tls.{given[0]} needs it")
    for name, path in files.items():
        if path is not None:
            _check_readable(reader, f"listener.tls.{name}", path)


def _check_postgres(reader: SettingsReader, settings: Settings) -> None:
    postgres, sql = settings.storage.postgres, settings.sql
    if postgres.host is None:
        for key, given in (
            ("storage.postgres", postgres != Postgres()),
            ("sql", sql != PostgresSettings()),
        ):
            if given:
                reader.note(
                    f"{key} has no effect without storage.postgres.host; set that, or leave "
                    f"{key} out"
                )
        return
    if not postgres.hosts:
        reader.note("storage.postgres.host names no server")
    for name, path in (
        ("sslRootCert", postgres.ssl_root_cert),
        ("sslCert", postgres.ssl_cert),
        ("sslKey", postgres.ssl_key),
    ):
        if path is not None:
            _check_readable(reader, f"storage.postgres.{name}", path)
    if postgres.ssl_key is not None and postgres.ssl_cert is None:
        reader.note("storage.postgres.sslCert is missing; storage.postgres.sslKey needs it")
    if sql.idle_connections > sql.max_connections:
        reader.note(
            f"sql.idleConnections is {sql.idle_connections}; expected at most "
            f"sql.maxConnections ({sql.max_connections})"
        )


def _check_readable(reader: SettingsReader, key: str, path: Path) -> None:
    if not path.is_file():
        reader.note(f"{key} is {str(path)!r}, where there is no file; expected a PEM file")
    elif not os.access(path, os.R_OK):
        reader.note(f"{key} is {str(path)!r}, which this user may not read; check its permissions")


def endpoint_host(endpoint: str) -> str | None:
    """The host of a TCP endpoint of ZeroMQ; None for an IPC endpoint."""
    found = _TCP_ENDPOINT.fullmatch(endpoint)
    return found["host"].strip("[]") if found else None


def _check_zeromq(reader: SettingsReader, zeromq: ZeroMq) -> None:
    endpoint, curve = zeromq.endpoint, zeromq.curve
    if endpoint is None:
        if zeromq != ZeroMq():
            reader.note("zeromq has no effect without zeromq.endpoint; set that, or leave it out")
        return
    if not _TCP_ENDPOINT.fullmatch(endpoint) and not re.fullmatch(r"ipc://.+", endpoint):
        reader.note(
            f"zeromq.endpoint is {endpoint!r}; expected an address such as tcp://127.0.0.1:8001 "
            "or a file such as ipc:///run/hubbub/topics"
        )
    if curve.secret_key_file is None and (curve.clients or curve.allow_unknown):
        reader.note("zeromq.curve.secretKeyFile is missing; the other keys of zeromq.curve need it")
    for client in curve.clients:
        if not _Z85_KEY.fullmatch(client.public_key):
            reader.note(
                f"zeromq.curve.clients has the publicKey {client.public_key[:50]!r}; expected 40 "
                "characters of Z85"
            )
        if client.user is None and client.level == "client" and not client.channels:
            reader.note("zeromq.curve.clients has a client without `user` and `channels`")
        try:
            Identity(user_id=client.user, grants=client.channels)
        except InvalidToken as error:
            reader.note(f"zeromq.curve.clients: {error.message}")
    if len({client.public_key for client in curve.clients}) < len(curve.clients):
        reader.note("zeromq.curve.clients has the same publicKey twice")


def _check_buffers(reader: SettingsReader, settings: Settings) -> None:
    ws, sse = settings.connection.ws, settings.connection.sse
    for name, size in (("ws", ws.send_buffer_bytes), ("sse", sse.send_buffer_bytes)):
        if size < 2 * ws.max_message_bytes:
            reader.note(
                f"connection.{name}.sendBufferBytes is {size}; expected at least twice "
                f"connection.ws.maxMessageBytes ({ws.max_message_bytes}), since a message grows "
                "when it is encoded for others"
            )
    if ws.pong_timeout > ws.ping_interval:
        reader.note(
            f"connection.ws.pongTimeout is {ws.pong_timeout:g}; expected at most "
            f"connection.ws.pingInterval ({ws.ping_interval:g})"
        )


def _check_secrets(reader: SettingsReader, settings: Settings) -> None:
    auth = settings.auth
    least = MIN_SECRET_BYTES[auth.algorithm]
    for name, secret in (
        ("session.secret", auth.session.secret),
        ("session.previousSecret", auth.session.previous_secret),
        ("admin.secret", auth.admin.secret),
        ("admin.previousSecret", auth.admin.previous_secret),
    ):
        size = _size(secret)
        if size is not None and size < least:
            reader.note(
                f"auth.{name} has {size} bytes (hidden); expected at least {least} for "
                f"{auth.algorithm}, for example from: openssl rand -base64 {least}"
            )
    size = _size(settings.admin.metrics_token)
    if size is not None and size < MIN_SECRET_BYTES["HS256"]:
        reader.note(
            f"admin.metricsToken has {size} bytes (hidden); expected at least 32, for example "
            "from: openssl rand -base64 32"
        )
    session = {auth.session.secret, auth.session.previous_secret} - {None}
    if session & {auth.admin.secret, auth.admin.previous_secret}:
        reader.note(
            "auth.admin.secret is the same as auth.session.secret; expected two, else a session's "
            "token could pass for an administrator's"
        )
    for name, signing in (("session", auth.session), ("admin", auth.admin)):
        if signing.previous_secret is not None and signing.secret is None:
            reader.note(f"auth.{name}.previousSecret needs auth.{name}.secret beside it")


def _size(secret: Secret | None) -> int | None:
    return None if secret is None else len(secret.reveal().encode())


def _stream_problems(settings: Settings) -> Iterator[str]:
    """Yields a sentence for each problem."""
    target = settings.streams.target
    if target == "jetstream" and not settings.broker.servers:
        yield "streams.target is jetstream, which needs broker.host"
    if target == "journal" and not settings.journal.enabled:
        yield "streams.target is journal, which needs journal.enabled"
