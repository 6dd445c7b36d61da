"""A proxy in front of an object store that fails the requests which a test chooses.

It runs in a process of its own: `deltalake` may hold Python's lock while it waits for an answer.

    python -m harness.failing_store STORE
"""

from __future__ import annotations

import contextlib
import http.client
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal
from urllib.request import Request, urlopen

import msgspec

How = Literal["refused", "lost", "silent"]
_HOP = frozenset(["connection", "keep-alive", "transfer-encoding", "server", "date"])
_BUSY = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_CONTROL = "/-/faults"
TESTS = Path(__file__).parents[1]


class Fault(msgspec.Struct):
    """The fault for the first requests of a method whose path contains a text."""

    method: str
    path: str
    how: How
    """`refused`: 503. `lost`: the store does it, and the connection breaks before the answer.
    `silent`: the store does nothing, and no answer comes."""
    times: int
    hits: int = 0


class FailingStore:
    """`address` is that of the proxy, as `127.0.0.1:PORT`."""

    def __init__(self, address: str) -> None:
        self.address = address

    def fail(self, method: str, path: str, how: How, times: int = 1) -> None:
        """Replaces the current fault by this one."""
        self._ask([Fault(method, path, how, times)])

    def heal(self) -> int:
        """No faults any more. How many requests failed since the last call?"""
        return sum(fault.hits for fault in self._ask([]))

    def _ask(self, faults: list[Fault]) -> list[Fault]:
        """The faults that there were."""
        body = msgspec.json.encode(faults)
        with urlopen(Request(f"http://{self.address}{_CONTROL}", body), timeout=60) as answer:
            return msgspec.json.decode(answer.read(), type=list[Fault])


@contextlib.contextmanager
def failing_store(store: str) -> Iterator[FailingStore]:
    command = [sys.executable, "-m", "harness.failing_store", store]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=TESTS)
    try:
        assert process.stdout is not None
        yield FailingStore(process.stdout.readline().strip())
    finally:
        process.kill()
        process.communicate()


# -- the process of the proxy ---------------------------------------------------------------------


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, store: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.store = store
        self.faults: list[Fault] = []
        self.lock = threading.Lock()

    def fault_of(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.method == method and fault.path in path and fault.hits < fault.times:
                    fault.hits += 1
                    return fault
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _forward(self) -> None:
        body = self._body()
        if self.path == _CONTROL:
            before = msgspec.json.encode(self.server.faults)
            self.server.faults = msgspec.json.decode(body, type=list[Fault])
            self._answer(200, {}, before)
            return
        fault = self.server.fault_of(self.command, self.path)
        if fault is not None and fault.how == "refused":
            self._answer(503, {"Content-Type": "application/xml"}, _BUSY)
            return
        if fault is not None and fault.how == "silent":
            threading.Event().wait()
        status, headers, content = self._ask_store(body)
        if fault is not None:
            self.close_connection = True
            return
        with contextlib.suppress(OSError):  # the client may have gone
            self._answer(status, headers, content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward

    def _ask_store(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.server.store, timeout=60)
        with contextlib.closing(connection):
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in self.headers.items():
                if name.lower() != "expect":
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def _body(self) -> bytes:
        """The body as received, with its chunks."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found, size = b"", 1
        while size:
            line = self.rfile.readline()
            size = int(line.split(b";")[0], 16)
            found += line + self.rfile.read(size)
            found += self.rfile.readline() if size else self._trailers()
        return found

    def _trailers(self) -> bytes:
        found = line = self.rfile.readline()
        while line not in (b"\r\n", b""):
            line = self.rfile.readline()
            found += line
        return found

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        is_head = self.command == "HEAD"
        for name, value in headers.items():
            if name.lower() not in _HOP and (is_head or name.lower() != "content-length"):
                self.send_header(name, value)
        if not is_head:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(b"" if is_head else content)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""


def main() -> None:
    with _Server(sys.argv[1]) as server:
        print(f"127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
