"""Topics that live elsewhere: fetched when their publisher says that there is something new."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from hubbub.domain.callbacks import Reach
from hubbub.domain.errors import HubbubError
from hubbub.domain.webhooks import WebTopic
from hubbub.engine.outgoing import OutgoingGate
from hubbub.engine.webhooks.limits import WebhookLimits
from hubbub.engine.webhooks.requests import USER_AGENT
from hubbub.ports.clock import Clock
from hubbub.ports.outgoing import HttpRequest, HttpResponse, SendFailed
from hubbub.ports.storage import Store

_TRIES = 3
_MAX_VALIDATOR_CHARS = 500
_MOST_REMEMBERED = 10_000
_ACCEPT = "*/*"

Publish = Callable[[bytes, str], Awaitable[object]]
"""Puts body and content type into the topic's channel."""


class Fetched(msgspec.Struct, frozen=True):
    """What became of a ping. `nobody`: no one is subscribed, so that nothing was fetched."""

    outcome: Literal["new", "same", "nobody", "failed"]
    reason: str | None = None


class Fetcher:
    """One fetch at a time for each topic; a ping that comes meanwhile is answered by one more.
    Where nothing was new, the next one waits a moment: nobody can have the hub flood a server."""

    def __init__(
        self, store: Store, clock: Clock, outgoing: OutgoingGate | None, limits: WebhookLimits
    ) -> None:
        self._store = store
        self._clock = clock
        self._outgoing = outgoing
        self._limits = limits
        self._under_way: dict[tuple[str, str], asyncio.Lock] = {}
        self._waiting: set[tuple[str, str]] = set()
        self._not_before: dict[tuple[str, str], float] = {}

    async def fetch(
        self, hub: str, channel: str, url: str, reach: Reach, publish: Publish
    ) -> Fetched:
        key = (hub, channel)
        if key in self._waiting:
            return Fetched("same", "the next fetch, which waits already, finds it")
        lock = self._under_way.setdefault(key, asyncio.Lock())
        self._waiting.add(key)
        try:
            async with lock:
                await self._hold_back(key)
                self._waiting.discard(key)
                fetched = await self._fetch(hub, channel, url, reach, publish)
                self._note(key, fetched)
                return fetched
        except BaseException:
            self._waiting.discard(key)
            raise
        finally:
            if not lock.locked() and key not in self._waiting:
                self._under_way.pop(key, None)

    async def _hold_back(self, key: tuple[str, str]) -> None:
        seconds = self._not_before.pop(key, 0.0) - asyncio.get_running_loop().time()
        if seconds > 0:
            await asyncio.sleep(seconds)

    def _note(self, key: tuple[str, str], fetched: Fetched) -> None:
        if fetched.outcome in ("same", "failed"):
            if len(self._not_before) >= _MOST_REMEMBERED:
                self._not_before.clear()
            now = asyncio.get_running_loop().time()
            self._not_before[key] = now + self._limits.first_retry_seconds

    async def _fetch(
        self, hub: str, channel: str, url: str, reach: Reach, publish: Publish
    ) -> Fetched:
        known, subscribers = await asyncio.gather(
            self._store.read_web_topic(hub, channel),
            self._store.read_webhooks(hub, channel, limit=1),
        )
        if not subscribers:
            return Fetched("nobody")
        topic = known or WebTopic(hub, channel, created_at=int(self._clock.now() * 1000))
        if topic.url != url:
            topic = msgspec.structs.replace(topic, url=url, etag=None, last_modified=None)
        try:
            answer = await self._get(url, topic, reach)
        except SendFailed as error:
            return Fetched("failed", error.message)
        if answer.status == 304:
            return Fetched("same")
        if answer.status != 200:
            return Fetched("failed", f"{url!r} answered {answer.status}")
        return await self._compare(topic, answer, publish)

    async def _compare(self, topic: WebTopic, answer: HttpResponse, publish: Publish) -> Fetched:
        digest = hashlib.sha256(answer.body).digest()
        content_type = answer.headers.get("content-type", "application/octet-stream")
        fresh = digest != topic.digest
        if fresh:
            try:
                await publish(answer.body, content_type)
            except HubbubError as error:
                return Fetched("failed", error.message)
        latest = msgspec.structs.replace(
            topic,
            etag=_validator(answer, "etag"),
            last_modified=_validator(answer, "last-modified"),
            digest=digest,
            content_type=content_type[:255],
        )
        if latest != topic:
            await self._store.save_web_topic(latest)
        return Fetched("new" if fresh else "same")

    async def _get(self, url: str, topic: WebTopic, reach: Reach) -> HttpResponse:
        """A server that is not there is asked again, a few times."""
        if self._outgoing is None:
            raise SendFailed("connect", "this node sends no requests")
        headers = [("User-Agent", USER_AGENT), ("Accept", _ACCEPT)]
        if topic.etag:
            headers.append(("If-None-Match", topic.etag))
        if topic.last_modified:
            headers.append(("If-Modified-Since", topic.last_modified))
        request = HttpRequest(
            topic.hub,
            "GET",
            url,
            tuple(headers),
            timeout_seconds=self._limits.timeout_seconds,
            max_answer_bytes=self._limits.fetch_bytes,
        )
        for number in range(_TRIES):
            if number:
                await asyncio.sleep(self._limits.first_retry_seconds * 2 ** (number - 1))
            last = number == _TRIES - 1
            try:
                answer = await self._outgoing.send("fetch", request, reach)
            except SendFailed as error:
                if last or error.word in ("refused_address", "too_large"):
                    raise
            else:
                if last or answer.status < 500:
                    return answer
        raise AssertionError("unreachable")


def _validator(answer: HttpResponse, name: str) -> str | None:
    text = answer.headers.get(name)
    usable = text is not None and len(text) <= _MAX_VALIDATOR_CHARS and text.isprintable()
    return text if usable else None
