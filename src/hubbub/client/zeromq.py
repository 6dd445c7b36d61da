"""Topics over ZeroMQ: a REQ socket with retries.

Needs pyzmq (the extra `zeromq`). A request without a response is sent again on a new socket, since
a waiting REQ socket cannot send. Puts are numbered, so that repeats are stored once.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from hubbub.client.errors import Unreachable
from hubbub.client.messages import Receipt, TopicMessage, encode_data
from hubbub.client.numbering import NumberedPuts
from hubbub.domain.errors import HubbubError, NotSubscribed, TopicNotFound
from hubbub.domain.topics import DEFAULT_SUBSCRIPTION
from hubbub.protocols.checks import error_from_wire

if TYPE_CHECKING:
    import zmq.asyncio

logger = logging.getLogger(__name__)
notes = logging.getLogger("hubbub.client.notes")

TIMEOUT_SECONDS = 10.0
_LINGER_MS = 0
_FRAMES_OF_AN_ARTICLE = 4


class ZeroMqTopics:
    """A client of one hub; use it with `async with`. One request is in flight at a time; others
    wait. A request without a response within `timeout_seconds` is repeated, at most `tries` times
    if given; then `Unreachable` is raised."""

    def __init__(
        self,
        endpoint: str = "tcp://127.0.0.1:8001",
        *,
        hub: str = "demo",
        token: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        tries: int | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._credential = hub if token is None else f"{hub} {token}"
        self._timeout_seconds = timeout_seconds
        self._tries = tries
        self._producers: dict[str, NumberedPuts] = {}
        self._turn = asyncio.Lock()
        self._context: zmq.asyncio.Context | None = None
        self._socket: zmq.asyncio.Socket | None = None

    async def __aenter__(self) -> ZeroMqTopics:
        import zmq.asyncio

        self._context = zmq.asyncio.Context()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._drop()
        if self._context is not None:
            self._context.term()
            self._context = None

    # -- requests -------------------------------------------------------------------------------

    async def put(
        self, topic: str, data: object, event: str = "", *, content_type: str | None = None
    ) -> Receipt:
        """Returns when the message is on disk. It is stored once, however often it is sent; after
        an error or a cancellation it may have been stored."""
        payload, kind = encode_data(data, content_type)
        producer = self._producers.setdefault(topic, NumberedPuts())
        async with self._turn:
            with producer.next() as stamp:
                options = {"producer": stamp.id, "sequence": stamp.sequence, "contentType": kind}
                if event:
                    options["event"] = event
                _, serial, info = await self._ask("PutReply", "put", topic, payload, options)
        said = _without_note(info)
        return Receipt(said.get("msgID", ""), int(serial or 0), said["duplicate"])

    async def subscribe(
        self,
        topic: str,
        name: str = DEFAULT_SUBSCRIPTION,
        *,
        start: Literal["new", "first"] | int = "new",
        **options: Any,
    ) -> dict[str, Any]:
        """The state of the durable subscription, with the protocol's names."""
        given = {"subscription": name, "start": start, **options}
        async with self._turn:
            frames = await self._ask("SUBSCRIBED", "subscribe", topic, given)
        return _without_note(frames[2])

    async def unsubscribe(self, topic: str, name: str = DEFAULT_SUBSCRIPTION) -> None:
        async with self._turn:
            await self._ask("UNSUBSCRIBED", "unsubscribe", topic, {"subscription": name})

    async def get(
        self,
        topic: str,
        name: str = DEFAULT_SUBSCRIPTION,
        *,
        limit: int = 1,
        wait_seconds: float = 0.0,
        consumer: str = "",
    ) -> list[TopicMessage]:
        """The next unacknowledged messages; they are returned again until they are acknowledged."""
        options: dict[str, Any] = {"subscription": name, "limit": limit, "wait": wait_seconds}
        options["consumer"] = consumer
        async with self._turn:
            frames = await self._ask(
                "TopicArticle", "get", topic, options, empty="EmptyTopic", wait=wait_seconds
            )
        articles = range(0, len(frames) - 1, _FRAMES_OF_AN_ARTICLE) if len(frames) > 1 else ()
        return [_article(frames[at : at + _FRAMES_OF_AN_ARTICLE], name) for at in articles]

    async def get_each(self, name: str = DEFAULT_SUBSCRIPTION) -> dict[str, TopicMessage | None]:
        """The next message of each topic with a subscription of this name; None where nothing
        waits."""
        async with self._turn:
            try:
                frames = await self._ask(
                    "TopicArticle", "get", "", {"subscription": name}, empty="EmptyTopic"
                )
            except NotSubscribed:  # to any topic
                return {}
        found: dict[str, TopicMessage | None] = {}
        for at in range(0, len(frames), _FRAMES_OF_AN_ARTICLE + 1):
            article = frames[at : at + _FRAMES_OF_AN_ARTICLE]  # the next topic's answer follows
            has_message = bool(article[1])
            found[article[0].decode()] = _article(article, name) if has_message else None
        return found

    async def ack(
        self,
        topic: str,
        serials: Sequence[int] = (),
        name: str = DEFAULT_SUBSCRIPTION,
        *,
        up_to: int | None = None,
        consumer: str = "",
    ) -> int:
        """Returns the serial up to which everything is acknowledged."""
        options = {"subscription": name, "upTo": up_to is not None, "consumer": consumer}
        told = ",".join(map(str, serials)) if up_to is None else str(up_to)
        async with self._turn:
            frames = await self._ask("Ack", "ack", topic, told.encode(), options)
        return int(frames[1])

    async def shutdown(self) -> None:
        """Stops the server; only for administrators of all hubs. The token is sent without the name
        of a hub."""
        async with self._turn:
            credential, self._credential = self._credential, self._credential.rpartition(" ")[2]
            try:
                await self._ask("Shutdown", "shutdown", None)
            finally:
                self._credential = credential

    # -- one request ----------------------------------------------------------------------------

    async def _ask(
        self,
        expected: str,
        command: str,
        topic: str | None,
        *parts: bytes | Mapping[str, Any],
        empty: str | None = None,
        wait: float = 0.0,
    ) -> list[bytes]:
        """The frames after the response's name. Raises `HubbubError`."""
        frames = [command.encode(), self._credential.encode()]
        if topic is not None:
            frames.append(topic.encode())
        frames += [each if isinstance(each, bytes) else json.dumps(each).encode() for each in parts]
        name, *rest = await self._exchange(frames, self._timeout_seconds + wait)
        if name.decode() not in (expected, empty):
            raise _refusal(name.decode(), rest)
        return rest

    async def _exchange(self, frames: list[bytes], seconds: float) -> list[bytes]:
        tries = self._tries
        for sent in itertools.count(1):
            socket = self._connected()
            try:
                async with asyncio.timeout(seconds):
                    await socket.send_multipart(frames)
                    answer: list[bytes] = await socket.recv_multipart()
                    return answer
            except TimeoutError:
                self._drop()
                if sent == tries:
                    break
                logger.warning(
                    "nothing answers at %s within %g s; sending it again", self._endpoint, seconds
                )
            except BaseException:
                self._drop()  # an answer that still comes is for nobody
                raise
        raise Unreachable(f"{self._endpoint} did not answer {tries} times within {seconds:g} s")

    def _connected(self) -> zmq.asyncio.Socket:
        import zmq

        if self._context is None:
            raise Unreachable("the client is closed: use it within `async with`")
        if self._socket is None:
            self._socket = self._context.socket(zmq.REQ)
            self._socket.setsockopt(zmq.LINGER, _LINGER_MS)
            self._socket.connect(self._endpoint)
        return self._socket

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _without_note(info: bytes) -> dict[str, Any]:
    """Parses the hub's information; its human-readable note is logged."""
    said: dict[str, Any] = json.loads(info)
    note = said.pop("note", None)
    if note is not None:
        notes.warning(note)
    return said


def _refusal(name: str, rest: list[bytes]) -> HubbubError:
    said = [each.decode("utf-8", "replace") for each in rest]
    if name == "NotSubscribed":
        return NotSubscribed(said[1])
    if name == "NonExistentTopic":
        return TopicNotFound(said[1])
    if name == "ERROR":
        return error_from_wire(said[0], said[1])
    return HubbubError(f"the hub answered {name!r}, which this client does not know")


def _article(frames: Sequence[bytes], subscription: str) -> TopicMessage:
    topic, serial, payload, info = frames
    said = json.loads(info)
    return TopicMessage(
        said["msgID"],
        topic.decode(),
        said.get("event", ""),
        payload,
        said["contentType"],
        said["ts"],
        int(serial),
        said.get("publisher"),
        deliveries=said["deliveries"],
        redelivered=said["redelivered"],
        subscription=subscription,
    )
