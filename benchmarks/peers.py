"""The other hubs of a comparison: nats-server always, nchan and Mosquitto where installed."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load import wire
from benchmarks.load.stamp import DIGITS, STAMP, json_payload
from benchmarks.load.wire import Framing, Publication, Route, Step
from benchmarks.servers import Running, Server, free_port, running, workplace

_FILES = 20_000
_NCHAN_MODULES = (
    Path("/usr/lib/nginx/modules/ngx_nchan_module.so"),
    Path("/usr/lib64/nginx/modules/ngx_nchan_module.so"),
)


@dataclass(frozen=True, slots=True)
class Nats:
    process: Running
    port: int
    name: str = "nats-server"

    def subscription(self, channel: str) -> Route:
        subscribe = f'CONNECT {{"verbose":false}}\r\nSUB {channel} 1\r\nPING\r\n'.encode()
        return Route(
            self.port,
            (wire.upgrade("/"), Step(subscribe, b"PONG", Framing.BINARY)),
        )

    def publication(self, channel: str, size: int) -> Publication:
        connect = Step(b'CONNECT {"verbose":false}\r\nPING\r\n', b"PONG", Framing.BINARY)
        message = f"PUB {channel} {size}\r\n".encode() + json_payload(size) + b"\r\n"
        return Publication(Route(self.port, (wire.upgrade("/"), connect)), message, Framing.BINARY)


@dataclass(frozen=True, slots=True)
class Nchan:
    process: Running
    port: int
    name: str = "nchan"

    def subscription(self, channel: str) -> Route:
        return Route(self.port, (wire.upgrade(f"/sub/{channel}"),))

    def publication(self, channel: str, size: int) -> Publication:
        route = Route(self.port, (wire.upgrade(f"/pub/{channel}"),))
        return Publication(route, json_payload(size), Framing.TEXT)


@dataclass(frozen=True, slots=True)
class Mosquitto:
    process: Running
    port: int
    name: str = "mosquitto"

    def subscription(self, channel: str) -> Route:
        subscribe = Step(wire.mqtt_subscribe(channel.encode()), b"\x90\x03\x00\x01", Framing.BINARY)
        return Route(self.port, (*self._connect(), subscribe))

    def publication(self, channel: str, size: int) -> Publication:
        message = wire.mqtt_publish(channel.encode(), json_payload(size), DIGITS - len(STAMP))
        return Publication(Route(self.port, self._connect()), message, Framing.BINARY)

    def _connect(self) -> tuple[Step, Step]:
        return (
            wire.upgrade("/", "Sec-WebSocket-Protocol: mqtt"),
            Step(wire.mqtt_connect(b""), b"\x20\x02\x00\x00", Framing.BINARY),
        )


@contextlib.contextmanager
def nats() -> Iterator[Nats]:
    port = free_port()
    config = f"""
        listen: 127.0.0.1:{free_port()}
        websocket {{ listen: "127.0.0.1:{port}", no_tls: true }}
        ping_interval: "1h"
    """
    with workplace() as directory:
        (directory / "nats.conf").write_text(config)
        with running([nats_program(), "-c", "nats.conf"], port, directory) as process:
            yield Nats(process, port)


@contextlib.contextmanager
def nchan() -> Iterator[Nchan]:
    port = free_port()
    module = next(path for path in _NCHAN_MODULES if path.exists())
    with workplace() as directory:
        places = "".join(
            f"{name}_temp_path {directory}/{name};"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        config = f"""
            load_module {module};
            daemon off; worker_processes 1; pid {directory}/nginx.pid;
            error_log stderr error; worker_rlimit_nofile {_FILES};
            events {{ worker_connections {_FILES}; }}
            http {{
                access_log off; {places}
                nchan_shared_memory_size 256M;
                server {{
                    listen 127.0.0.1:{port} backlog=4096; keepalive_requests 100000000;
                    location ~ ^/pub/(.+)$ {{
                        nchan_publisher; nchan_channel_id $1;
                        nchan_message_buffer_length 10; nchan_message_timeout 10s;
                    }}
                    location ~ ^/sub/(.+)$ {{
                        nchan_subscriber; nchan_channel_id $1;
                        nchan_subscriber_first_message newest;
                    }}
                }}
            }}
        """
        (directory / "nginx.conf").write_text(config)
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        command = [program, "-p", str(directory), "-c", str(directory / "nginx.conf")]
        with running([*command, "-e", "stderr"], port, directory) as process:
            yield Nchan(process, port)


@contextlib.contextmanager
def mosquitto() -> Iterator[Mosquitto]:
    port = free_port()
    # Version 2.0.11 does not start when all of its listeners are WebSockets.
    config = f"""listener {free_port()} 127.0.0.1
listener {port} 127.0.0.1
protocol websockets
allow_anonymous true
persistence false
set_tcp_nodelay true
max_queued_messages 0
log_type error
"""
    with workplace() as directory:
        (directory / "mosquitto.conf").write_text(config)
        directory.chmod(0o755)
        program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
        with running([program, "-c", "mosquitto.conf"], port, directory) as process:
            yield Mosquitto(process, port)


def installed() -> dict[str, Callable[[], AbstractContextManager[Server]]]:
    """The peers that this machine can start."""
    found: dict[str, Callable[[], AbstractContextManager[Server]]] = {"nats-server": nats}
    has_nginx = shutil.which("nginx") or Path("/usr/sbin/nginx").exists()
    if has_nginx and any(path.exists() for path in _NCHAN_MODULES):
        found["nchan"] = nchan
    if shutil.which("mosquitto") or Path("/usr/sbin/mosquitto").exists():
        found["mosquitto"] = mosquitto
    return found


def nats_program() -> str:
    """From PATH, else the one that the PyPI package put beside this Python."""
    beside = Path(sys.executable).with_name("nats-server")
    return shutil.which("nats-server") or str(beside)
