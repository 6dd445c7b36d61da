"""A hub in developer mode in a process of its own, for tests in a browser, which run on no loop;
and what they look at."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.servers import free_port

MARKUP = '<img src=x onerror="window.hacked=1">'
HOSTILE = (
    MARKUP,
    '"><script>window.hacked=1</script>',
    "javascript:window.hacked=1",
    "../../etc/passwd",
    "a/b?c=d&e=f",
    "abc\u202egnp.exe",
    "${hacked}{{constructor}}",
    "ü" * 120,
)
"""Names that a page could take for markup, for a path or for another name."""


class DevHub:
    """Started with `hubbub serve --dev` over an empty folder."""

    def __init__(self, folder: Path, **settings: str) -> None:
        """`settings` are variables of the environment, without their prefix."""
        self._folder = folder
        self._settings = {f"HUBBUB_{name}": value for name, value in settings.items()}
        self._log = (folder / "hub.log").open("wb")
        self._process = self._start(str(free_port()), {})
        self.address, self.ticket = self._read_banner()
        self.admin = self.token("--level", "admin", "--hub", "*", "--user", "root")
        self._others: list[subprocess.Popen[bytes]] = []

    def _start(self, port: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command("serve", "--dev", "--port", port),
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **self._settings, **environment},
        )

    def revive(self) -> None:
        """Starts it again where a test before did not manage to."""
        if self._process.poll() is not None:
            self.restart()

    def restart(self, **environment: str) -> None:
        """At the same address, over the same data; with other variables of the environment."""
        self._stop([self._process])
        self._process = self._start(self.address.rpartition(":")[2], environment)
        _, self.ticket = self._read_banner()

    @property
    def warehouse(self) -> Path:
        """The folder of the pipeline's tables."""
        return self._folder / "data" / "warehouse"

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "hubbub.cli.main", *arguments]

    def _read_banner(self) -> tuple[str, str]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = re.search(rb"(http://\S+)/dashboard#ticket=(\S+)", line)
            if found:
                return found[1].decode(), found[2].decode()
        raise AssertionError(f"no link: {(self._folder / 'hub.log').read_text()[-2000:]}")

    def token(self, *arguments: str) -> str:
        made = subprocess.run(
            self._command("token", *arguments), cwd=self._folder, capture_output=True, check=True
        )
        return made.stdout.decode().strip()

    def call(
        self, method: str, path: str, body: Any = None, expect: int = 200, token: str = ""
    ) -> Any:
        """A request with a token, else of the administrator; answers the JSON. Raises unless the
        status is the expected one; any of 200 to 299 is as good as 200."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, method=method)
        request.add_header("Authorization", f"Bearer {token or self.admin}")
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                status, said = 200, response.read()
        except urllib.error.HTTPError as error:
            status, said = error.code, error.read()
        assert status == expect, f"{method} {path}: {status} instead of {expect}, {said!r}"
        return json.loads(said) if said else None

    def text(self, path: str) -> str:
        """A page that is open to everybody."""
        with urllib.request.urlopen(self.address + path, timeout=20) as response:
            return str(response.read(), "utf-8")

    def run(self, *arguments: str) -> None:
        """A program of the project beside the hub, until the hub closes."""
        self._others.append(
            subprocess.Popen(
                [sys.executable, *arguments], cwd=self._folder, stdout=self._log, stderr=self._log
            )
        )

    def close(self) -> None:
        self._stop([*self._others, self._process])
        self._log.close()

    @staticmethod
    def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
        for process in processes:
            process.terminate()
        late = []
        for process in processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                late.append(process.args)
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        assert not late, f"did not end within 20 s of SIGTERM: {late}"


def seed(hub: DevHub) -> None:
    """Something on every page: rules, stored messages, a failing webhook, a durable subscription,
    notifications, a document, a revocation; and names that nobody would choose."""
    demo = "/v1/admin/hubs/demo"
    room = {"presence": True, "occupancy": True, "public": True, "clientPublish": True}
    ledger = {"store": True, "storeByDefault": True, "public": True, "maxAgeSeconds": 86400}
    hub.call("PUT", f"{demo}/rules/chatroom", room)
    settings = hub.call("GET", f"{demo}/settings")
    hub.call("PUT", f"{demo}/settings", {**settings, "commands": True})
    hub.call("PUT", f"{demo}/rules/ledger", ledger)
    hub.call("PUT", f"{demo}/namespaces/ledger", {"rules": "ledger"})
    hub.call("PUT", f"{demo}/auth-providers/accounts", {"url": "https://accounts.example.org/"})
    hub.call(
        "PUT", f"{demo}/rpc-routes/prices", {"method": "prices.*", "url": "https://p.example.org/"}
    )
    hub.call("PUT", "/v1/hubs/demo/topics/orders/subscriptions/billing", {})
    for number in range(5):
        hub.call("POST", "/v1/hubs/demo/topics/orders/messages", f"order {number}".encode())
    hook = {"channel": "ledger:may", "callback": "http://127.0.0.1:9/in"}
    hub.call("POST", "/v1/hubs/demo/webhooks", hook)
    payloads: list[dict[str, Any]] = [
        {"json": {"id": 1, "total": 12.5, "items": ["tea", "cups"]}},
        {"text": MARKUP},
        {"base64": "AAECAwT/"},
    ]
    publishes = [
        {"channel": "ledger:may", "payload": each, "event": "booked", "extra": {"store": True}}
        for each in payloads
    ]
    hub.call("POST", f"{demo}/messages", {"publishes": publishes})
    notices = [{"payload": {"json": {"title": "Maintenance on Friday"}}, "event": "notice"}]
    path = f"{demo}/channels/notification:news/notifications"
    hub.call("POST", path, {"notifications": [*notices, {"payload": {"text": MARKUP}}]})
    plan = {"title": "Release plan", "tasks": [{"text": "write", "done": True}], MARKUP: MARKUP}
    hub.call("PUT", f"{demo}/channels/doc:plan/document", plan)
    for shown in ("doc:plan", "room:tea"):
        hub.call("PUT", f"{demo}/channels/{shown}/settings", {"rules": "chatroom"})
    hub.call("POST", f"{demo}/revocations", {"kind": "user", "subject": MARKUP})
    hub.call("POST", "/v1/admin/hubs", {"hub": "shop"})
    hub.call("PUT", f"{demo}/channels/ledger:may/settings", {"rules": "ledger"})
    for name in HOSTILE:
        settings = {"rules": "chatroom"}
        hub.call("PUT", f"{demo}/channels/{quote(name, safe='')}/settings", settings)
    markup = quote(MARKUP, safe="")
    hub.call("PUT", f"{demo}/rules/{markup}", room)
    hub.call("PUT", f"{demo}/peers/{markup}", {"addresses": []})
    hub.call("PUT", f"{demo}/collectives/{markup}", {"members": [MARKUP]})
    hub.call("PUT", f"{demo}/adapters/desk", {"kind": "rest"})
    address = {"adapter": "desk", "parameters": ["http://127.0.0.1:9/ann"]}
    hub.call("PUT", f"{demo}/peers/ann", {"addresses": [address]})
    hub.call("PUT", f"{demo}/routes/{markup}", {"type": "alarm", "route": ["ann"]})
    message = {"type": "note", "subtype": MARKUP, "sender": "eve", "receiver": "ann"}
    hub.call("POST", "/v1/hubs/demo/comm/messages", {**message, "content": MARKUP})
    hub.call("PUT", f"/v1/hubs/demo/topics/orders/subscriptions/{markup}", {})
    hook = {"channel": f"ledger:{MARKUP}", "callback": "http://127.0.0.1:9/hostile"}
    hub.call("POST", "/v1/hubs/demo/webhooks", hook)
