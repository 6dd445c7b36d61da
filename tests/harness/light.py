"""Light-PubSubHubbub by hand."""

from __future__ import annotations

import json
from typing import Any

from harness.running_hub import RunningHub


class Light:
    """Requests by hand to one hub, as text unless the test wants JSON."""

    def __init__(self, hub: RunningHub, base: str = "/hub", **headers: str) -> None:
        self._http = hub.http
        self._base = base
        self._headers = headers

    async def ask(
        self, method: str, path: str, body: bytes | str | None = None, **more: str
    ) -> Said:
        headers = {"Accept": "*/*", **self._headers, **more}
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._http.request(
            method, f"{self._base}/{path}", data=body, headers=headers
        ) as answer:
            return Said(answer.status, dict(answer.headers), await answer.text())

    async def register(self, topic: str, **more: str) -> Said:
        return await self.ask("PUT", "register", topic, **more)

    async def subscribe(self, port: int | str, topic: str, **more: Any) -> Said:
        body = {"address": "127.0.0.1", "port": port, "topic": topic, **more}
        return await self.ask("PUT", "subscribe", json.dumps(body))

    async def unsubscribe(self, port: int, topic: str, **more: str) -> Said:
        path = f"unsubscribe/?address=127.0.0.1&idTopic={topic}&port={port}"
        path += "".join(f"&{name}={value}" for name, value in more.items())
        return await self.ask("DELETE", path)

    async def publish(self, topic: str, body: bytes | str = b"hi", **more: str) -> Said:
        return await self.ask("POST", f"publish/{topic}", body, **more)


class Said:
    def __init__(self, status: int, headers: dict[str, str], text: str) -> None:
        self.status = status
        self.headers = headers
        self.text = text

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> tuple[int, str]:
        """Status and code, of an error that was said in words."""
        assert self.headers["Content-Type"] == "text/plain; charset=utf-8", self.text
        return self.status, self.headers["Hubbub-Error"]
