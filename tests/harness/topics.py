"""Clients of topics: plain HTTP, and sockets in either encoding."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import quote

import aiohttp
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from harness.running_hub import RunningHub, open_hub
from hubbub.domain.notices import Notice
from hubbub.domain.requests import Request
from hubbub.domain.rules import HubConfiguration, Rules
from hubbub.protocols.json.codec import JsonCodec
from hubbub.protocols.protobuf.codec import ProtobufCodec

STORED = Rules(public=True, client_publish=True, allow_anonymous=True, store=True)
LIVE = Rules(public=True, client_publish=True, allow_anonymous=True)
DEADLINE_SECONDS = 5.0
Codec = JsonCodec | ProtobufCodec


def topic_hub(name: str = "acme", **more: Any) -> HubConfiguration:
    """A hub whose channels are topics, except those that begin with `live:`."""
    return open_hub(name, STORED, {"live": LIVE}, **more)


async def until(condition: Callable[[], object]) -> None:
    """Wait until it holds; the loop turns meanwhile."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0.002)


class Reply(NamedTuple):
    status: int
    json: Any
    headers: Any

    @property
    def error(self) -> tuple[int, str]:
        return self.status, self.json["error"]["code"]


class HttpTopic:
    """One topic, as one caller uses it over HTTP."""

    def __init__(
        self, hub: RunningHub, topic: str, token: str | None = None, name: str = "acme"
    ) -> None:
        self._hub = hub
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._base = f"/v1/hubs/{name}"
        self._topic = f"{self._base}/topics/{quote(topic, safe='')}"

    async def call(self, method: str, path: str, **options: Any) -> Reply:
        timeout = aiohttp.ClientTimeout(total=10)
        async with self._hub.http.request(
            method, path, headers=self._headers, timeout=timeout, **options
        ) as answer:
            return Reply(answer.status, await answer.json(), answer.headers)

    async def put(self, body: Any = "x", **query: str) -> Reply:
        return await self.call("POST", f"{self._topic}/messages", params=query, data=body)

    async def open(self, producer: str) -> Reply:
        return await self.call("POST", f"{self._topic}/producers/{producer}")

    async def subscribe(self, name: str = "default", start: str = "new", **options: Any) -> Reply:
        body = {"json": options} if options else {}
        return await self.call("PUT", self.path(name), params={"start": start}, **body)

    async def state(self, name: str = "default") -> Reply:
        return await self.call("GET", self.path(name))

    async def unsubscribe(self, name: str = "default") -> Reply:
        return await self.call("DELETE", self.path(name))

    async def get(self, name: str = "default", **query: Any) -> Reply:
        params = {key: str(value) for key, value in query.items()}
        return await self.call("POST", f"{self.path(name)}/get", params=params)

    async def ack(self, name: str = "default", **body: Any) -> Reply:
        return await self.call("POST", f"{self.path(name)}/ack", json=body)

    async def listed(self) -> Reply:
        return await self.call("GET", f"{self._base}/subscriptions")

    async def get_each(self, **query: str) -> Reply:
        return await self.call("POST", f"{self._base}/subscriptions/get", params=query)

    def path(self, name: str = "default") -> str:
        return f"{self._topic}/subscriptions/{quote(name, safe='')}"


def texts(reply: Reply) -> list[str]:
    """The messages of a reply to a get."""
    assert reply.status == 200, reply
    return [message["payload"]["text"] for message in reply.json["messages"]]


class TopicSocket:
    """A session that asks in one of the encodings."""

    def __init__(self, connection: ClientConnection, codec: Codec) -> None:
        self.connection = connection
        self._codec = codec
        self._numbers = count(1)
        self._heard: list[Notice] = []

    @classmethod
    async def open(
        cls, hub: RunningHub, codec: Codec, token: str | None = None, name: str = "acme"
    ) -> TopicSocket:
        """Connected and greeted."""
        query = f"?token={token}" if token else ""
        connection = await connect(
            f"ws://{hub.address}/v1/hubs/{name}/socket{query}",
            subprotocols=[Subprotocol(codec.subprotocol)],
            compression=None,
            proxy=None,
            max_size=None,
            max_queue=None,
        )
        self = cls(connection, codec)
        await self.hear(0)
        return self

    async def __aenter__(self) -> TopicSocket:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connection.close()

    async def send(self, request: Request) -> None:
        frame = self._codec.encode_request(request)
        await self.connection.send(frame.decode() if self._codec.opcode == 1 else frame)

    async def ask(self, kind: Callable[..., Request], *arguments: Any, **more: Any) -> Any:
        """Send a request and wait for its answer."""
        req_id = next(self._numbers)
        await self.send(kind(*arguments, req_id=req_id, **more))
        return await self.hear(req_id)

    async def hear(self, req_id: int) -> Any:
        """The next notice with this request's id; others are kept for later."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                for notice in self._heard:
                    if _req_id_of(notice) == req_id:
                        self._heard.remove(notice)
                        return notice
                frame = await self.connection.recv()
                data = frame.encode() if isinstance(frame, str) else frame
                self._heard += self._codec.decode_notices(data)


def _req_id_of(notice: Notice) -> int:
    results = getattr(notice, "results", None)
    if results:
        return int(results[0].req_id)
    return int(getattr(notice, "req_id", 0))
