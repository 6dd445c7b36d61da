"""Pushes to 10,000 devices beside a busy channel: its subscribers must not notice."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

from benchmarks.findings import Effort, Finding, spread
from benchmarks.hub import HUB, Hubbub, hubbub
from benchmarks.load.publishers import Steady
from benchmarks.load.run import FanOut, fan_out
from benchmarks.load.subscribers import Audience

_DEVICES = 10_000
_PER_USER = 50
_SUBSCRIBERS = 100
_PER_SECOND = 50
_SIZE = 200
_REACH = 2.0
_BEHIND = 10  # niceness: the service must not keep the hub from the CPU
_POINT = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
_SECRET = "BTBZMqHH6r4Tts7J_aSIgg"  # both of the example in RFC 8291
_SPAWN = multiprocessing.get_context("spawn")
_RULES = {"public": True, "clientPublish": True, "allowAnonymous": True, "push": True}
_SETTINGS = {
    "allowAnonymous": True,
    "defaultRules": "open",
    "callbackAddresses": "loopback",
}


def push(effort: Effort) -> list[Finding]:
    """Each device's push is encrypted for it; the service answers at once."""
    devices = effort.scaled(_DEVICES)
    calm: list[float] = []
    beside: list[float] = []
    rates: list[float] = []
    lost = 0
    hubs: dict[str, object] = {HUB: {"settings": _SETTINGS, "rules": {"open": _RULES}}}
    more: dict[str, dict[str, object]] = {"hubs": hubs, "push": {"perTokenPerMinute": 0}}
    for _ in range(effort.rounds):
        with _service() as port, hubbub(more) as server:
            users = _register(server, port, devices)
            quiet, _ = _measure(server, effort, [])
            busy, taken = _measure(server, effort, users)
            calm.append(quiet.latency.p99 / 1e3)
            beside.append(busy.latency.p99 / 1e3)
            rates.append(taken)
            lost += quiet.lost + busy.lost
    ratios = [after / before for before, after in zip(calm, beside, strict=True)]
    return [
        Finding(
            f"pushes to {devices:,} devices beside a channel with {_SUBSCRIBERS} subscribers:"
            " its p99",
            f"at most {_REACH:g} times",
            f"{spread(ratios)} times ({spread(calm, ' ms', 1)} to {spread(beside, ' ms', 1)}),"
            f" {lost} lost; {spread(rates, '', 0)} pushes/s",
            median(ratios) <= _REACH and not lost,
            {"calm": calm, "beside": beside, "rates": rates},
        )
    ]


def _measure(server: Hubbub, effort: Effort, users: list[str]) -> tuple[FanOut, float]:
    """The channel while pushes to the users go out all the time, and pushes a second."""
    crowd = Audience(server.subscription("busy"), _SUBSCRIBERS)
    admin = _Admin(server)
    with fan_out(crowd, server.publication("busy", _SIZE), Steady(_PER_SECOND)) as channel:
        channel.warm(effort.warm_seconds)
        before, began = admin.taken(), time.perf_counter()
        channel.begin()
        ends = began + effort.seconds
        while time.perf_counter() < ends:
            if users and admin.waiting() < 1000:
                admin.push(users)
            time.sleep(0.1)
        taken = (admin.taken() - before) / (time.perf_counter() - began)
        return channel.end(), taken


def _register(server: Hubbub, port: int, devices: int) -> list[str]:
    users = [f"u{number}" for number in range((devices + _PER_USER - 1) // _PER_USER)]
    token = server.token()

    def register(user: str) -> None:
        admin = _Admin(server, token)
        for number in range(_PER_USER):
            endpoint = f"http://127.0.0.1:{port}/{user}/{number}"
            given = {"endpoint": endpoint, "keys": {"p256dh": _POINT, "auth": _SECRET}}
            body = {"platform": "webpush", "token": given}
            admin.ask("PUT", f"/users/{user}/push-tokens", body)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(register, users))
    return users


class _Admin:
    """One connection of a service."""

    def __init__(self, server: Hubbub, token: str | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port)
        self._headers = {
            "Authorization": f"Bearer {token or server.token()}",
            "Content-Type": "application/json",
        }

    def push(self, users: list[str]) -> None:
        self.ask("POST", "/push", {"users": users, "title": "Hello", "body": "World"})

    def waiting(self) -> int:
        return int(self.ask("GET", "/push")["waiting"])

    def taken(self) -> int:
        web = self.ask("GET", "/push")["platforms"].get("webpush", {"outcomes": {}})
        return int(web["outcomes"].get("ok", 0))

    def ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body)
        self._connection.request(method, f"/v1/admin/hubs/{HUB}{path}", data, self._headers)
        response = self._connection.getresponse()
        text = response.read()
        assert response.status == 200, text[:500]
        return json.loads(text)


# -- a push service that takes everything, in a process of its own --------------------------------


@contextlib.contextmanager
def _service() -> Iterator[int]:
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield int(ours.recv())
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Connection) -> None:
    os.nice(_BEHIND)
    asyncio.run(_take(pipe))


async def _take(pipe: Connection) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(size))
                writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()
