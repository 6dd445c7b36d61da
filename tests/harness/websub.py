"""WebSub by hand."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from harness.callbacks import Callbacks, eventually
from harness.receivers import Received
from harness.running_hub import RunningHub
from hubbub.domain.webhooks import Webhook
from hubbub.engine.webhooks.service import Webhooks


class WebSub:
    """Forms by hand."""

    def __init__(self, hub: RunningHub, path: str = "/websub", **headers: str) -> None:
        self.hub = hub
        self._path = path
        self._headers = headers
        self._name = path.split("/")[3] if path.startswith("/v1/") else "demo"

    async def ask(self, **parameters: str) -> tuple[int, str]:
        return await self.post({f"hub.{name}": value for name, value in parameters.items()})

    async def post(self, form: Any, query: str = "", **headers: str) -> tuple[int, str]:
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.hub.http.post(
            self._path + query, data=form, headers={**self._headers, **headers}
        ) as answer:
            return answer.status, await answer.text()

    async def subscribe(self, callback: str, topic: str, **more: str) -> tuple[int, str]:
        return await self.ask(mode="subscribe", callback=callback, topic=topic, **more)

    def own(self, channel: str) -> str:
        """The topic that a channel of the hub is."""
        name = quote(channel, safe=":")
        return f"http://{self.hub.address}/v1/hubs/{self._name}/channels/{name}/messages"

    async def webhooks(self) -> list[Webhook]:
        node = self.hub.server.node
        return await node.feature(Webhooks).list(node.hub(self._name))

    async def active(self, callbacks: Callbacks, topic: str, **more: str) -> Received:
        """Subscribe and be verified; answers the verification."""
        status, text = await self.subscribe(callbacks.at(), topic, **more)
        assert status == 202, text
        verification = await callbacks.next()
        await eventually(lambda: self._is_active(topic, callbacks))
        return verification

    async def _is_active(self, topic: str, callbacks: Callbacks) -> bool:
        return any(
            each.topic == topic
            and each.callback.startswith(callbacks.at(""))
            and each.pending is None
            for each in await self.webhooks()
        )

    async def gone(self, topic: str) -> None:
        """Wait until nobody is subscribed to it, nor asked to be."""

        async def nobody() -> bool:
            return not any(each.topic == topic for each in await self.webhooks())

        await eventually(nobody)
