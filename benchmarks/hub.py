"""Hubbub under measurement: its configuration, and how its clients speak to it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load import wire
from benchmarks.load.requesters import Requests
from benchmarks.load.stamp import INDEX, json_payload
from benchmarks.load.wire import Framing, Publication, Route, Step
from benchmarks.servers import Running, free_port, running, workplace

HUB = "bench"
OTHER_HUB = "other"
_OPEN = {"public": True, "clientPublish": True, "allowAnonymous": True}
_NEVER_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Hubbub:
    process: Running
    port: int
    config: Path
    name: str = "hubbub"
    hub: str = HUB
    source: Path | None = None

    def subscription(self, *channels: str) -> Route:
        request = {"reqID": 1, "channels": [{"channel": each} for each in channels]}
        subscribe = json.dumps({"event": "Subscribe", "payload": request})
        step = Step(subscribe.encode(), b'"subscribedChannels":["', Framing.TEXT)
        return Route(self.port, (self._socket(), step))

    def publication(self, channel: str, size: int) -> Publication:
        message = _publish(channel, json_payload(size))
        return Publication(Route(self.port, (self._socket(),)), message, Framing.TEXT)

    def filtering(self, channel: str, filters: Sequence[Mapping[str, object]]) -> Route:
        """Subscriptions whose sessions have one of these filters each, in turn; `stamp.INDEX` in
        one becomes the number of the connection."""
        requests = [
            json.dumps({"event": "SetFilter", "payload": {"reqID": 1, "name": "f", **each}})
            for each in filters
        ]
        texts = tuple(
            text.replace(f'"{INDEX.decode()}"', INDEX.decode()).encode() for text in requests
        )
        step = Step(texts[0], b'"name":"f"', Framing.TEXT, texts)
        upgrade, *others = self.subscription(channel).steps
        return Route(self.port, (upgrade, step, *others))

    def publication_of(self, channel: str, payload: bytes) -> Publication:
        route = Route(self.port, (self._socket(),))
        return Publication(route, _publish(channel, payload), Framing.TEXT)

    def posts(self, channel: str, size: int, connections: int, depth: int) -> Requests:
        """HTTP publishes, each with the token of a service."""
        path = f"/v1/hubs/{self.hub}/channels/{channel}/messages"
        token = self.token()
        headers = f"Authorization: Bearer {token}", "Content-Type: application/json"
        message = wire.post(path, json_payload(size), size, *headers)
        publication = Publication(Route(self.port), message, Framing.RAW)
        return Requests(publication, b"HTTP/1.1 20", connections, depth)

    def stored(self, channel: str, size: int, connections: int) -> Requests:
        """Publishes to a stored channel that wait for their acknowledgement."""
        message = _publish(channel, json_payload(size), ',"reqID":7,"extra":{"store":true}')
        publication = Publication(Route(self.port, (self._socket(),)), message, Framing.TEXT)
        return Requests(publication, b'"success":true', connections)

    def acknowledged(self, channel: str, size: int, connections: int) -> Requests:
        """Publishes to a live channel that wait for their acknowledgement."""
        message = _publish(channel, json_payload(size), ',"reqID":7')
        publication = Publication(Route(self.port, (self._socket(),)), message, Framing.TEXT)
        return Requests(publication, b'"success":true', connections)

    def echoes(self, size: int, connections: int, cmd: str = "hEcho") -> Requests:
        """Commands that are answered with the status 0."""
        head = (
            f'{{"event":"HCommand","payload":{{"reqID":7,"command":{{"reqid":"7",'
            f'"sender":"bench@{self.hub}","entity":"hnode@{self.hub}","cmd":"{cmd}","params":'
        )
        token = self.token("bench")
        path = f"/v1/hubs/{self.hub}/socket?token={token}"
        route = Route(self.port, (wire.upgrade(path, expect=b'"SessionInfo"'),))
        message = head.encode() + json_payload(size) + b"}}}"
        publication = Publication(route, message, Framing.TEXT)
        return Requests(publication, b'"status":0', connections)

    def changes(self, channel: str, size: int, connections: int, follow: bool = False) -> Requests:
        """Changes of one member of a document that wait for their answer."""
        head = f'{{"event":"DocumentChange","payload":{{"reqID":7,"channel":"{channel}","ops":['
        change = b'{"op":"add","path":"/bench","value":' + json_payload(size) + b"}]}}"
        route = self.subscription(channel) if follow else Route(self.port, (self._socket(),))
        publication = Publication(route, head.encode() + change, Framing.TEXT)
        return Requests(publication, b'"success":true', connections)

    def uses(self, channel: str, size: int, connections: int, count: int) -> Requests:
        """Each publishes once to a channel of its own and waits for the acknowledgement."""
        name = f"{channel}-{INDEX.decode()}"
        message = _publish(name, json_payload(size), ',"reqID":7')
        publication = Publication(Route(self.port, (self._socket(),)), message, Framing.TEXT)
        return Requests(publication, b'"success":true', connections, limit=count)

    def token(self, user: str | None = None, level: str = "service", hub: str | None = None) -> str:
        """A token of a service, which may have a user id, or of another level."""
        arguments = ["--hub", hub or self.hub, "--level", level, "--config", str(self.config)]
        if user is not None:
            arguments += ["--user", user]
        done = subprocess.run(
            [_program(), "token", *arguments],
            cwd=self.config.parent,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **_environment(self.source)},
        )
        return done.stdout.strip()

    def _socket(self) -> Step:
        return wire.upgrade(f"/v1/hubs/{self.hub}/socket", expect=b'"SessionInfo"')


def _publish(channel: str, payload: bytes, more: str = "") -> bytes:
    head = f'{{"event":"Publish","payload":{{"publishes":[{{"channel":"{channel}","event":"m"{more}'
    return head.encode() + b',"payload":{"json":' + payload + b"}}]}}"


@contextlib.contextmanager
def hubbub(
    settings: Mapping[str, Mapping[str, object]] | None = None,
    source: Path | None = None,
    name: str = "hubbub",
) -> Iterator[Hubbub]:
    """A hub with its limits out of the way; `settings` adds to its file, by category. `source` is
    the folder with another version of the package `hubbub`.

    Its store is under ./data, so that "synced to disk" means a disk, not a file system in memory.
    """
    port = free_port()
    tree = configuration(port)
    for category, values in (settings or {}).items():
        tree[category] = {**tree.get(category, {}), **values}
    if source is not None:
        tree = _known(tree, source)
    home = Path("data")
    home.mkdir(exist_ok=True)
    with workplace(home) as directory:
        config = directory / "hubbub.yaml"
        config.write_text(json.dumps(tree))  # which is YAML too
        serve = [_program(), "serve", "--config", str(config)]
        with running(serve, port, directory, _environment(source)) as process:
            yield Hubbub(process, port, config, name, source=source)


def open_hub(**settings: object) -> dict[str, object]:
    """A tenant as it is in the configuration file; `settings` add to its own."""
    return {
        "settings": {"allowAnonymous": True, "defaultRules": "open", **settings},
        "rules": {"open": _OPEN, "stored": {**_OPEN, "store": True}},
        "namespaces": {"log": "stored"},
    }


def configuration(port: int) -> dict[str, dict[str, object]]:
    return {
        "listener": {"port": port, "connectionsPerSecond": 0, "shutdownTimeout": 1},
        "connection": {"ws": {"pingInterval": _NEVER_SECONDS, "pongTimeout": _NEVER_SECONDS}},
        "session": {"messagesPerSecond": 0},
        "limits": {  # all load comes from one address
            "anonymousPerSecond": 0,
            "clientPerSecond": 0,
            "servicePerSecond": 0,
            "connectionsPerSecond": 0,
        },
        "auth": {"session": {"secret": secrets.token_hex(32)}},
        "debug": {"level": "warning"},
        "hubs": {HUB: open_hub(), OTHER_HUB: open_hub()},
    }


def _known(tree: dict[str, dict[str, object]], source: Path) -> dict[str, dict[str, object]]:
    """Without categories that the other version does not have."""
    ask = "from hubbub.server.settings import known_keys; print(*known_keys())"
    done = subprocess.run(
        [sys.executable, "-c", ask],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **_environment(source)},
    )
    known = {key.partition(".")[0] for key in done.stdout.split()} | {"hubs"}
    return {category: values for category, values in tree.items() if category in known}


def _environment(source: Path | None) -> dict[str, str]:
    return {} if source is None else {"PYTHONPATH": str(source)}


def _program() -> str:
    return str(Path(sys.executable).with_name("hubbub"))
