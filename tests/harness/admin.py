"""A caller of the admin API, with a token of any level."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from harness.running_hub import RunningHub
from hubbub.domain.permissions import Level

HUB = "/v1/admin/hubs/acme"


class Reply:
    """The response to a request."""

    def __init__(self, status: int, headers: Mapping[str, str], text: str) -> None:
        self.status = status
        self.headers = headers
        self.text = text
        self.json: Any = json.loads(text) if text[:1] in ("{", "[") else None

    @property
    def code(self) -> str | None:
        """The code of the error."""
        return str(self.json["error"]["code"]) if self.json and "error" in self.json else None

    @property
    def message(self) -> str:
        return str(self.json["error"]["message"])

    @property
    def tag(self) -> str:
        return self.headers["ETag"]


class Caller:
    def __init__(self, hub: RunningHub, token: str | None) -> None:
        self._hub = hub
        self.token = token

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        /,
        data: bytes | io.BytesIO | None = None,
        **headers: str,
    ) -> Reply:
        """`headers` use `_` for `-`: `If_Match='"1"'`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None:
            data = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        async with self._hub.http.request(method, path, data=data, headers=sent) as response:
            return Reply(response.status, response.headers, await response.text())

    async def all(self, path: str, limit: int) -> list[Any]:
        """Every entry of a list, page by page."""
        found: list[Any] = []
        cursor = ""
        while True:
            joint = "&" if "?" in path else "?"
            query = f"{joint}limit={limit}" + (f"&cursor={quote(cursor)}" if cursor else "")
            reply = await self("GET", path + query)
            assert reply.status == 200, reply.text
            assert len(reply.json["items"]) <= limit
            found += reply.json["items"]
            cursor = reply.json["next"]
            if cursor is None:
                return found


def admin_of(hub: RunningHub, user: str = "root") -> Caller:
    """An administrator of all hubs."""
    return Caller(hub, hub.token(user, hub="*", level=Level.ADMIN))


def service_of(hub: RunningHub, name: str = "acme") -> Caller:
    return Caller(hub, hub.token("backend", hub=name, level=Level.SERVICE))


def client_of(hub: RunningHub, user: str = "ann", name: str = "acme") -> Caller:
    return Caller(hub, hub.token(user, hub=name))
