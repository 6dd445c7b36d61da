"""An HTTP server in a thread, for tests that run on no loop: it remembers what it got, and answers
as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE_SECONDS = 30


class ThreadReceiver:
    def __init__(self) -> None:
        self.status = 200
        self.answer: Any = {}
        self.got: list[tuple[str, bytes]] = []
        """Paths with bodies."""
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                answer = json.dumps(receiver.answer).encode()
                self.send_response(receiver.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
                receiver._took(self.path, body)

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def _took(self, path: str, body: bytes) -> None:
        with self._changed:
            self.got.append((path, body))
            self._changed.notify_all()

    def wait_for(self, path: str, count: int = 1) -> list[bytes]:
        """The bodies that came to a path, as soon as there are so many."""

        def there() -> list[bytes]:
            return [body for where, body in self.got if where == path]

        with self._changed:
            if not self._changed.wait_for(lambda: len(there()) >= count, PATIENCE_SECONDS):
                raise AssertionError(f"{path} got {len(there())} requests of {count}: {self.got}")
        return there()

    @contextmanager
    def serving(self) -> Iterator[ThreadReceiver]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()
