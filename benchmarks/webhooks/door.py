"""A hub with open topics under measurement, and its doors for webhooks over one raw connection."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlencode

from benchmarks.hub import HUB, hubbub
from benchmarks.load.processes import family
from benchmarks.servers import Running

_RULES = {"public": True, "clientPublish": True, "allowAnonymous": True, "store": True}
_FORM = "application/x-www-form-urlencoded"


class Refused(Exception):
    """The hub answered with an error."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The hub's process and where it listens."""

    process: Running
    port: int

    def pin(self, core: int) -> None:
        """All of the hub on one core."""
        for pid in family(self.process.pid):
            for task in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(task), {core})


@contextlib.contextmanager
def webhook_hub(**webhooks: object) -> Iterator[Subject]:
    """With its usual settings; `webhooks` changes some of that category."""
    settings = {
        "allowAnonymous": True,
        "defaultRules": "topics",
        "openTopics": True,
        "callbackAddresses": "loopback",
    }
    bench = {"settings": settings, "rules": {"topics": _RULES}}
    with hubbub({"hubs": {HUB: bench}, "webhooks": {"hub": HUB, **webhooks}}) as server:
        yield Subject(server.process, server.port)


class Door:
    """One connection. Each request waits for its answer."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def register(self, topic: str) -> None:
        self._ask("PUT", "/hub/register", topic.encode())

    def subscribe(self, topic: str, address: str, port: int) -> None:
        body = json.dumps({"address": address, "port": str(port), "topic": topic})
        self._ask("PUT", "/hub/subscribe", body.encode())

    def publication(self, topic: str, body: bytes) -> bytes:
        """The request, to be sent as it is."""
        return _request("POST", f"/hub/publish/{topic}", body, "text/plain")

    def subscribe_classic(self, topic: str, callback: str) -> None:
        fields = {"hub.mode": "subscribe", "hub.topic": topic, "hub.callback": callback}
        self._ask("POST", "/websub", urlencode(fields).encode(), _FORM)

    def ping(self, topic: str) -> bytes:
        """The request, to be sent as it is."""
        body = urlencode({"hub.mode": "publish", "hub.url": topic})
        return _request("POST", "/websub", body.encode(), _FORM)

    def send(self, request: bytes) -> None:
        """And wait for its answer. Raises `Refused`."""
        self._socket.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._receive()
        head, _, body = answer.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        while len(body) < length:
            body += self._receive()
        if not head.startswith(b"HTTP/1.1 2"):
            raise Refused(f"{head.splitlines()[0].decode()}: {body.decode()}")

    def _receive(self) -> bytes:
        data = self._socket.recv(65536)
        if not data:
            raise Refused("the hub closed the connection")
        return data

    def _ask(self, method: str, path: str, body: bytes, content_type: str = "text/plain") -> None:
        self.send(_request(method, path, body, content_type))


def _request(method: str, path: str, body: bytes, content_type: str) -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
