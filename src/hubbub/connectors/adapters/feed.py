"""Entries of a feed (Atom, RSS) as messages."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from hubbub.connectors.adapters.failures import need
from hubbub.connectors.adapters.http import AdapterHttp, HttpSettings, with_authorization
from hubbub.domain.communication.messages import FieldText, NeededText, PeerMessage
from hubbub.domain.communication.settings import CallbackUrl
from hubbub.domain.fields import Headers, TimeoutSeconds
from hubbub.fair_slots import FairPlaces
from hubbub.ports.adapters import AdapterContext, AdapterFailed, Pulled, adapter
from hubbub.protocols.adapters.feeds import declares_entities, entry_message

_MOST_KNOWN = 10_000
_ACCEPT = "application/atom+xml, application/rss+xml, application/xml;q=0.9, */*;q=0.1"
_PARSING: Final = FairPlaces(2, 1000, "feeds that are read")
"""Parsing threads are shared by all hubs, and a large feed occupies one for seconds."""


class FeedSettings(HttpSettings, frozen=True):
    url: CallbackUrl
    headers: Headers = msgspec.field(default_factory=dict)
    authorization: str = ""
    """The value of the header `Authorization`, such as `Bearer …`."""
    type: NeededText = "FEED"
    receiver: FieldText = ""
    max_entries: Annotated[int, Meta(ge=1, le=1000)] = 50
    """The most entries read from the feed, newest first."""
    max_bytes: Annotated[int, Meta(ge=1000, le=20_000_000)] = 5_000_000
    timeout_seconds: TimeoutSeconds = 20.0


class _Fetched(msgspec.Struct, frozen=True):
    """Validators for a conditional request."""

    etag: str = ""
    modified: str = ""


@adapter(name="feed", settings=FeedSettings, direction="pull", secrets=frozenset({"authorization"}))
class FeedIn:
    """Sends `If-None-Match` and `If-Modified-Since` once all entries of a response are stored.
    Entries that were stored before a restart have the same ids and are not stored again."""

    def __init__(self, settings: FeedSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._hub = context.hub
        self._http = AdapterHttp(context, [settings.authorization], settings.timeout_seconds)
        self._waiting: deque[PeerMessage] = deque()
        self._given: set[str] = set()
        self._known: dict[str, None] = {}
        self._fetched = _Fetched()
        self._under_way = _Fetched()

    async def pull(self) -> Pulled | None:
        if not self._waiting:
            await self._fetch()
        if not self._waiting:
            return None
        message = self._waiting.popleft()
        self._given.add(message.id)
        return Pulled(message, message.id, last=not self._waiting)

    async def settle(self, receipt: object) -> None:
        assert isinstance(receipt, str)
        self._known[receipt] = None
        self._given.discard(receipt)
        while len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        if not self._waiting and not self._given:
            self._fetched = self._under_way

    async def close(self) -> None:
        pass

    async def _fetch(self) -> None:
        settings = self._settings
        headers = with_authorization(
            {"Accept": _ACCEPT, **settings.headers}, settings.authorization
        )
        if self._fetched.etag:
            headers["If-None-Match"] = self._fetched.etag
        if self._fetched.modified:
            headers["If-Modified-Since"] = self._fetched.modified
        answer = await self._http.send("GET", settings.url, headers, max_bytes=settings.max_bytes)
        if answer.status == 304:
            return
        if answer.status != 200:
            raise self._http.failure(answer, answer.headers.get("location", ""))
        if declares_entities(answer.body):
            raise AdapterFailed("the feed declares entities, which are not read")
        self._under_way = _Fetched(
            answer.headers.get("etag", ""), answer.headers.get("last-modified", "")
        )
        async with _PARSING.slot(self._hub):
            messages = await asyncio.to_thread(self._read, answer.body)
        self._given.clear()
        self._waiting.extend(each for each in messages if each.id not in self._known)
        if not self._waiting:
            self._fetched = self._under_way

    def _read(self, body: bytes) -> list[PeerMessage]:
        """Parses a feed, oldest entry first."""
        try:
            import feedparser
        except ImportError:
            raise need("feedparser", "feeds") from None
        found: Any = feedparser.parse(body)
        if not found.entries and not found.get("version"):
            raise AdapterFailed("the answer is no feed in Atom or RSS")
        settings = self._settings
        entries = found.entries[: settings.max_entries]
        return [
            entry_message(settings.url, found.feed, entry, settings.type, settings.receiver)
            for entry in reversed(entries)
        ]
