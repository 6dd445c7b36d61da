"""A server of the tenants in a process of its own: receivers, services and issuers that work, fail
or hang. Started as a program, it prints its port.

| path | answers |
|---|---|
| /ok… | 200 with the challenge, if the request has one, else with its body, as `?type=` says |
| /fail… | 500 |
| /hang… | nothing, ever |
| /deny… | 401 |
| /seen?path=P | how many requests came for P, as a number, and the last one's headers as JSON |
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

SECOND_HOST = "127.0.0.77"
"""The same server as another destination, whose slots and breaker no other attack uses up."""

_seen: Counter[str] = Counter()
_last: dict[str, dict[str, str]] = {}


@contextlib.contextmanager
def scenery() -> Iterator[int]:
    """The port of a running one."""
    command = [sys.executable, __file__]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *rest = head[:-4].split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in rest if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            target = urlsplit(first.split(" ")[1])
            query = {name: values[-1] for name, values in parse_qs(target.query).items()}
            if target.path == "/seen":
                path = query["path"]
                found = {"count": _seen[path], "headers": _last.get(path, {})}
                writer.write(_answer(200, json.dumps(found).encode()))
                continue
            _seen[target.path] += 1
            _last[target.path] = dict(line.split(": ", 1) for line in rest if ": " in line)
            if target.path.startswith("/hang"):
                await reader.read(1)  # until the hub gives up
                break
            status = {"/fail": 500, "/deny": 401}.get(target.path[:5], 200)
            said = query.get("hub.challenge", "").encode() or body
            writer.write(_answer(status, said, query.get("type", "application/octet-stream")))
    writer.close()


def _answer(status: int, body: bytes, kind: str = "application/octet-stream") -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    await asyncio.start_server(_serve, SECOND_HOST, port, backlog=4096)
    print(port, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
