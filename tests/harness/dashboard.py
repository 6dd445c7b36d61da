"""A browser at the dashboard, as far as headers and cookies go."""

from __future__ import annotations

from typing import Any

from yarl import URL

from harness.admin import Reply
from harness.running_hub import RunningHub

COOKIE = "__Host-hubbub"
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin", "Hubbub-Dashboard": "1"}


class Browser:
    """Keeps the cookie, and says where its requests come from."""

    def __init__(self, hub: RunningHub) -> None:
        self._hub = hub
        self.cookie = ""
        self.attributes = ""

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str | None] | None = None,
    ) -> Reply:
        """`headers` replace those of the page; None leaves one out."""
        sent = {**SAME_ORIGIN, **(headers or {})}
        if self.cookie:
            sent.setdefault("Cookie", f"{COOKIE}={self.cookie}")
        given = {name: value for name, value in sent.items() if value is not None}
        url = URL(path, encoded=True)  # as it is written
        async with self._hub.http.request(method, url, json=body, headers=given) as response:
            line = response.headers.get("Set-Cookie")
            if line is not None:
                value, _, self.attributes = line.partition("; ")
                self.cookie = value.partition("=")[2]
            return Reply(response.status, response.headers, await response.text())

    async def log_in(self, **proof: Any) -> Reply:
        return await self.ask("POST", "/dashboard/login", proof)
