"""Fetches external topics after their publisher announced new content.

The store keeps a ping until its topic was fetched or given up. The driver of the channel's webhooks
fetches it, also after a restart or on the channel's next node."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urldefrag, urljoin

import msgspec

from hubbub.domain.callbacks import check_callback
from hubbub.domain.errors import HUB_AWAY, BadRequest, HubbubError
from hubbub.domain.names import partition_of
from hubbub.domain.webhooks import WebTopic
from hubbub.engine.outward.retrying import GivenUp, pause_seconds, retry_after_seconds
from hubbub.engine.webhooks.context import DriverContext
from hubbub.ports.outgoing import HttpResponse, SendFailed

logger = logging.getLogger(__name__)

_MAX_VALIDATOR_CHARS = 500
_MOST_REMEMBERED = 10_000
_ACCEPT = "*/*"
_FOR_GOOD = ("refused_address", "too_large")
"""Failures that a retry cannot fix."""
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_MAX_REDIRECTS = 5
_WINDOWS = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}
"""Window sizes for zlib, by coding; some servers send `deflate` without its header."""

Publish = Callable[[str, str, bytes, str], Awaitable[object]]
"""Puts a body with its content type into a hub's channel."""
Outcome = Literal["new", "same", "nobody"]
"""`nobody`: the topic was not fetched since nobody subscribes to it."""


class FetchFailed(Exception):
    """`word` is the counter's label; `answer` is the server's response, if there was one."""

    def __init__(self, word: str, message: str, answer: HttpResponse | None = None) -> None:
        super().__init__(message)
        self.word = word
        self.answer = answer


@dataclass(slots=True, eq=False)
class _Fetch:
    """The state of one topic's fetch; `pinged` is set by a newer ping."""

    partition: int
    pinged: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Fetcher:
    """Runs at most one fetch per topic; pings that arrive meanwhile lead to one more. After a fetch
    without news the next one is delayed, so that nobody can make the hub flood a server."""

    def __init__(self, context: DriverContext, publish: Publish) -> None:
        self._context = context
        self._publish = publish
        self._fetches: dict[tuple[str, str], _Fetch] = {}
        self._not_before: dict[tuple[str, str], float] = {}

    def pending(self) -> Counter[str]:
        """The number of topics that are still to be fetched, by hub."""
        return Counter(hub for hub, _ in self._fetches)

    def start(self, hub: str, channel: str) -> None:
        """Called after a ping was stored."""
        key = (hub, channel)
        fetch = self._fetches.get(key)
        if fetch is None:
            fetch = self._fetches[key] = _Fetch(partition_of(hub, channel))
            fetch.task = asyncio.get_running_loop().create_task(self._work(key, fetch))
        else:
            fetch.pinged.set()

    def cancel(self, partitions: Collection[int]) -> None:
        """Stops the fetches of these partitions; their next driver continues from the pings in the
        store."""
        for key, fetch in list(self._fetches.items()):
            if fetch.partition in partitions and fetch.task is not None:
                fetch.task.cancel()
                self._not_before.pop(key, None)

    def cancel_hub(self, hub: str) -> None:
        """Stops the fetches of a hub that is suspended."""
        for key, fetch in list(self._fetches.items()):
            if key[0] == hub and fetch.task is not None:
                fetch.task.cancel()
                self._not_before.pop(key, None)

    # -- one topic ------------------------------------------------------------------------------

    async def _work(self, key: tuple[str, str], fetch: _Fetch) -> None:
        """Fetches the topic until no ping is left."""
        try:
            while True:
                await self._hold_back(key)
                fetch.pinged.clear()
                pause = await self._try(key)
                if pause is not None:
                    await self._pause(key, fetch, pause)
                elif not fetch.pinged.is_set():
                    return
        except Exception:
            logger.exception("hub %s: the topic %s is fetched at the next start", *key)
        finally:
            if self._fetches.get(key) is fetch:
                del self._fetches[key]

    async def _try(self, key: tuple[str, str]) -> float | None:
        """Makes one attempt; returns the seconds until the next one, or None."""
        try:
            topic = await self._context.store.read_web_topic(*key)
            if topic is None or topic.pinged_at is None:
                return None
            return await self._fetch_and_note(topic)
        except HUB_AWAY:
            return None
        except HubbubError as error:
            logger.warning("hub %s: the topic %s waits: %s", *key, error)
            return self._context.limits.first_retry_seconds

    async def _fetch_and_note(self, topic: WebTopic) -> float | None:
        assert topic.pinged_at is not None
        hub, channel, counts = topic.hub, topic.channel, self._context.counters[topic.hub].fetches
        try:
            outcome = await self._fetch(topic)
        except FetchFailed as failed:
            counts[failed.word] += 1
            return await self._failed(topic, failed)
        counts[outcome] += 1
        if outcome == "same":
            self._leave_alone((hub, channel))
        ended = await self._context.store.end_ping(hub, channel, topic.pinged_at, well=True)
        return None if ended else 0.0

    async def _failed(self, topic: WebTopic, failed: FetchFailed) -> float | None:
        """Stores the failure; returns the seconds until the next attempt, or None if the topic is
        given up."""
        assert topic.pinged_at is not None
        hub, channel, failures = topic.hub, topic.channel, topic.fetch_failures + 1
        self._leave_alone((hub, channel))
        await self._context.store.note_failed_fetch(hub, channel, failures, str(failed)[:500])
        now, answer = self._context.clock.now(), failed.answer
        status = answer.status if answer is not None else None
        left = self._context.limits.give_up_seconds - (now - topic.pinged_at / 1000)
        try:
            if failed.word in _FOR_GOOD:
                raise GivenUp
            wanted = retry_after_seconds(answer, now)
            seconds = pause_seconds(self._context.limits, failures, status, wanted, left)
        except GivenUp:
            self._context.counters[hub].fetches["given_up"] += 1
            logger.error(
                "hub %s: the topic %s is given up after %d tries: %s",
                hub, channel, failures, failed,
            )  # fmt: skip
            ended = await self._context.store.end_ping(hub, channel, topic.pinged_at, well=False)
            return None if ended else 0.0
        logger.warning(
            "the topic %s of hub %s could not be fetched, next try in %.3g s: %s",
            channel, hub, seconds, failed,
        )  # fmt: skip
        return seconds

    # -- time -----------------------------------------------------------------------------------

    async def _hold_back(self, key: tuple[str, str]) -> None:
        seconds = self._not_before.pop(key, 0.0) - asyncio.get_running_loop().time()
        if seconds > 0:
            await asyncio.sleep(seconds)

    def _leave_alone(self, key: tuple[str, str]) -> None:
        if len(self._not_before) >= _MOST_REMEMBERED:
            self._not_before.clear()
        now = asyncio.get_running_loop().time()
        self._not_before[key] = now + self._context.limits.first_retry_seconds

    @staticmethod
    async def _pause(key: tuple[str, str], fetch: _Fetch, seconds: float) -> None:
        """Ends early when the publisher pings again, since the publisher's server is likely
        available then."""
        try:
            async with asyncio.timeout(seconds):
                await fetch.pinged.wait()
        except TimeoutError:
            pass

    # -- one request ----------------------------------------------------------------------------

    async def _fetch(self, topic: WebTopic) -> Outcome:
        """Raises `FetchFailed`, `HubbubError`."""
        if not await self._context.store.read_webhooks(topic.hub, topic.channel, limit=1):
            return "nobody"
        answer = await self._follow(topic)
        if answer.status == 304:
            return "same"
        if answer.status != 200:
            word = f"{answer.status // 100}xx"
            raise FetchFailed(word, f"{topic.url!r} answered {answer.status}", answer)
        return await self._compare(topic, decoded(answer, self._context.limits.fetch_bytes))

    async def _follow(self, topic: WebTopic) -> HttpResponse:
        """Fetches the topic's URL and follows a few redirects; each target is checked against the
        addresses that the hub may contact. Raises `FetchFailed`."""
        assert topic.url is not None
        url = topic.url
        for _ in range(_MAX_REDIRECTS + 1):
            answer = await self._get(topic, url)
            place = answer.headers.get("location")
            if answer.status not in _REDIRECTS or place is None:
                return answer
            url = urldefrag(urljoin(url, place)).url
            try:
                check_callback(url)
            except BadRequest as error:
                raise FetchFailed("redirect", f"{topic.url!r}: {error.message}") from None
        raise FetchFailed("redirect", f"{topic.url!r} leads to more than {_MAX_REDIRECTS} others")

    async def _get(self, topic: WebTopic, url: str) -> HttpResponse:
        headers = [("Accept", _ACCEPT)]
        if topic.etag:
            headers.append(("If-None-Match", topic.etag))
        if topic.last_modified:
            headers.append(("If-Modified-Since", topic.last_modified))
        try:
            return await self._context.get(
                "fetch", topic.hub, url, tuple(headers), self._context.limits.fetch_bytes
            )
        except SendFailed as error:
            raise FetchFailed(error.word, error.message) from None

    async def _compare(self, topic: WebTopic, answer: HttpResponse) -> Outcome:
        digest = hashlib.sha256(answer.body).digest()
        content_type = answer.headers.get("content-type", "application/octet-stream")
        fresh = digest != topic.digest
        if fresh:
            try:
                await self._publish(topic.hub, topic.channel, answer.body, content_type)
            except HubbubError as error:
                raise FetchFailed("not_published", error.message) from None
        latest = msgspec.structs.replace(
            topic,
            etag=_validator(answer, "etag"),
            last_modified=_validator(answer, "last-modified"),
            digest=digest,
            content_type=content_type[:255],
        )
        if latest != topic:
            await self._context.store.save_web_topic(latest)
        return "new" if fresh else "same"


def decoded(answer: HttpResponse, most_bytes: int) -> HttpResponse:
    """Returns the response with its `Content-Encoding` removed. Raises `FetchFailed` if the coding
    is unknown, the body is damaged, or the decoded body is too large."""
    body = answer.body
    codings = [
        each.strip().lower() for each in answer.headers.get("content-encoding", "").split(",")
    ]
    for coding in reversed([each for each in codings if each not in ("", "identity")]):
        body = _expand(body, coding, most_bytes)
    return answer if body is answer.body else msgspec.structs.replace(answer, body=body)


def _expand(body: bytes, coding: str, most_bytes: int) -> bytes:
    windows = _WINDOWS.get(coding)
    if windows is None:
        raise FetchFailed("encoding", f"the content encoding {coding[:40]!r} is not known here")
    for bits in windows:
        expander = zlib.decompressobj(bits)
        try:
            found = expander.decompress(body, most_bytes + 1)
        except zlib.error:
            continue
        if len(found) > most_bytes:
            raise FetchFailed("too_large", f"the content has more than {most_bytes} bytes")
        if expander.eof:
            return found
    raise FetchFailed("encoding", f"the content is no whole {coding}")


def _validator(answer: HttpResponse, name: str) -> str | None:
    text = answer.headers.get(name)
    usable = text is not None and len(text) <= _MAX_VALIDATOR_CHARS and text.isprintable()
    return text if usable else None
