"""Where an attack takes place: a hub with its shipped limits and two tenants, in processes of its
own, and the tenants' own servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attack.arena import BLUE, RED, Arena
from attack.cores import ahead
from attack.scenery import scenery
from benchmarks.servers import Running, free_port, running
from harness.certificates import make_certificate
from harness.nats import open_nats_server
from hubbub.domain.permissions import Identity, Level
from hubbub.server.access import make_tokens
from hubbub.server.clock import SystemClock
from hubbub.server.settings import load

MEMORY_BOUND_MB = 512
_TOKEN_SECONDS = 3600.0
_OPEN = {"public": True, "clientPublish": True, "allowAnonymous": True}
_KEPT = {"store": True, "storeByDefault": True, "search": True}
_RULES = {
    "open": {**_OPEN, "liveHistory": True},
    "kept": {**_OPEN, **_KEPT},
    "crowd": {**_OPEN, "presence": True, "occupancy": True},
    "closed": _KEPT,
}
_NAMESPACES = {"log": "kept", "crowd": "crowd", "secret": "closed"}


@dataclass(frozen=True, slots=True)
class Layout:
    """What a hub listens on, and how it is started. `source` is a folder with another version of
    the package. Where latencies are `measured`, the hub has a core of its own."""

    needs: frozenset[str] = frozenset()
    settings: tuple[tuple[str, Any], ...] = ()
    arguments: tuple[str, ...] = ()
    source: Path | None = None
    measured: bool = False


class Hub:
    """A hub's process, which can be killed and started again over the same data."""

    def __init__(self, folder: Path, layout: Layout, nats: str = "", props: int = 0) -> None:
        """`props` is the port of the tenants' server."""
        self.folder = folder
        self.port = free_port()
        self.zeromq = free_port()
        self.mqtt = free_port()
        self.nats = nats
        self.certificate = ""
        self._layout = layout
        self._props = props
        self._config = folder / "hubbub.yaml"
        self._config.write_text(json.dumps(self._settings()))  # JSON is YAML

    def _settings(self) -> dict[str, Any]:
        keys: dict[str, Any] = {
            "listener": {"port": self.port, "shutdownTimeout": 0},
            "storage": {"path": str(self.folder / "data")},
            "zeromq": {"endpoint": f"tcp://127.0.0.1:{self.zeromq}"},
            "mqtt": {"enabled": True, "listeners": [{"port": self.mqtt}]},
            "debug": {"level": "error"},
            "mercure": {"enabled": True},
            "hubs": {
                RED: tenant(allowAnonymous=True, commands=True),
                BLUE: tenant(allowAnonymous=False),
            },
        }
        if "tls" in self._layout.needs:
            files = [str(path) for path in make_certificate(self.folder)]
            self.certificate = files[0]
            keys["listener"]["tls"] = {"certificate": files[0], "key": files[1]}
        if self._props:
            keys["admin"] = {"url": f"http://127.0.0.1:{self._props}/deny/login"}
        if self.nats:
            keys["broker"] = {"host": self.nats}
        for key, value in self._layout.settings:
            keys[key] = {**keys.get(key, {}), **value}
        return keys

    @contextlib.contextmanager
    def serving(self) -> Iterator[Running]:
        """The hub's process, until the block ends."""
        serve = self.command("serve", *self._layout.arguments)
        with contextlib.ExitStack() as stack:
            with ahead() if self._layout.measured else contextlib.nullcontext():
                server = running(serve, self.port, self.folder, self.environment)
                process = stack.enter_context(server)
            yield process

    @property
    def environment(self) -> dict[str, str]:
        source = self._layout.source
        return {} if source is None else {"PYTHONPATH": str(source)}

    def command(self, *arguments: str) -> list[str]:
        config = ("--config", str(self._config))
        return [sys.executable, "-m", "hubbub.cli.main", *arguments, *config]

    def token(self, hub: str, level: str) -> str:
        tokens = make_tokens(load(self._config, {}), SystemClock())
        return tokens.issue(hub, Identity(level=Level(level)), _TOKEN_SECONDS)

    def tokens(self) -> dict[str, str]:
        """Of the operator, of both tenants' services, and of two clients of the hostile tenant."""
        made = {
            "admin": self.token("*", "admin"),
            RED: self.token(RED, "service"),
            BLUE: self.token(BLUE, "service"),
        }
        for user in ("ann", "bob"):
            grants = [{"channel": "secret:*", "publish": True, "subscribe": True}]
            order = {"userID": user, "channels": grants, "rpcs": ["*"]}
            made[user] = self.administer("POST", "hubs/red/tokens", made["admin"], order)["token"]
        return made

    def administer(self, method: str, path: str, token: str, body: Any = None) -> Any:
        scheme = "https" if self.certificate else "http"
        call = urllib.request.Request(
            f"{scheme}://127.0.0.1:{self.port}/v1/admin/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            method=method,
        )
        trust = ssl.create_default_context(cafile=self.certificate) if self.certificate else None
        with urllib.request.urlopen(call, timeout=20, context=trust) as answer:
            text = answer.read()
        return json.loads(text) if text else None


def tenant(**settings: Any) -> dict[str, Any]:
    common = {"defaultRules": "open", "topicRules": "kept", "callbackAddresses": "loopback"}
    return {"settings": {**common, **settings}, "rules": _RULES, "namespaces": _NAMESPACES}


@contextlib.asynccontextmanager
async def ground(folder: Path, layout: Layout) -> AsyncIterator[tuple[Hub, Running, Arena]]:
    """A hub and what is around it."""
    async with contextlib.AsyncExitStack() as stack:
        nats = ""
        if "nats" in layout.needs:
            port = free_port()
            await stack.enter_async_context(open_nats_server(folder, port))
            nats = f"nats://127.0.0.1:{port}"
        props = stack.enter_context(scenery())
        hub = Hub(folder, layout, nats, props)
        process = stack.enter_context(hub.serving())
        tokens = await asyncio.to_thread(hub.tokens)
        arena = Arena(
            port=hub.port,
            tokens=tokens,
            source="127.0.0.2",
            scenery=props,
            zeromq=hub.zeromq,
            mqtt=hub.mqtt,
            nats=nats,
            certificate=hub.certificate,
        )
        yield hub, process, arena
