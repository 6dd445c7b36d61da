"""Collections of a hub: plugins search them and save documents to them.

Plugins also have collections of their own: channels to which no client has access."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from hubbub.domain.commands.jids import channel_id, parse_channel
from hubbub.domain.commands.mapping import from_message, payload_of
from hubbub.domain.commands.objects import write_channel, write_message
from hubbub.domain.commands.status import invalid, not_available
from hubbub.domain.messages import JSON, Message
from hubbub.domain.plugins.criteria import (
    Document,
    compile_criteria,
    read_limit,
    read_sort,
    sorted_documents,
)
from hubbub.domain.requests import PublishItem
from hubbub.domain.rules import PLUGIN_COLLECTION
from hubbub.domain.shown import shown
from hubbub.engine.commands.asking import Asker
from hubbub.engine.commands.history import HistoryCommands
from hubbub.engine.commands.records import ChannelRecords
from hubbub.engine.hub import Hub
from hubbub.engine.large_work import TURN_BYTES, HubLocks
from hubbub.engine.publishing import Publisher
from hubbub.ports.clock import Clock
from hubbub.ports.storage.commands import CommandStore

SCANNED: Final = 10_000
"""Maximum number of documents that one search reads, the newest first."""
FOUND_BYTES: Final = 2 * 1024 * 1024
_DOCUMENT_BYTES: Final = 500
"""Size of a document besides its payload."""
_CHECK_BYTES: Final = 8
"""Bytes whose processing takes as long as one comparison."""

_CHANNELS = "hChannels"
_SUBSCRIPTIONS = "hSubscriptions"
_AS_PAYLOADS = frozenset({"hCommands", "hResults"})
_DIRECT = "hDirectMessages"
_OWN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_PAGE = 500


class Collections:
    def __init__(
        self,
        store: CommandStore,
        clock: Clock,
        publisher: Publisher,
        records: ChannelRecords,
        history: HistoryCommands,
    ) -> None:
        self._store = store
        self._clock = clock
        self._publisher = publisher
        self._records = records
        self._history = history
        self._searches = HubLocks()

    def now(self) -> int:
        """In milliseconds since 1970."""
        return int(self._clock.now() * 1000)

    async def find(
        self, asker: Asker, collection: object, criteria: object, sort: object, limit: object
    ) -> list[Document]:
        """Searches the documents of the whole hub, whoever asks; without `sort` the newest come
        first. A hub runs one search at a time, in slices. Raises `CommandRefused` and
        `HubbubError`."""
        compiled = compile_criteria(criteria, self.now())
        keys, most = read_sort(sort), read_limit(limit)
        found: list[Document] = []
        room, scanned, turn = FOUND_BYTES, 0, 0
        async with self._searches.of(asker.hub.name):
            async for document, message in self._documents(asker, collection):
                scanned += 1
                if scanned > SCANNED or room <= 0 or (len(found) >= most and not keys):
                    break
                size = (
                    _DOCUMENT_BYTES if message is None else _DOCUMENT_BYTES + len(message.payload)
                )
                turn += size + _CHECK_BYTES * compiled.checks
                if turn > TURN_BYTES:
                    turn = 0
                    await asyncio.sleep(0)
                if compiled.matches(document, message):
                    found.append(document)
                    room -= size
        return sorted_documents(found, keys)[:most]

    async def _documents(
        self, asker: Asker, collection: object
    ) -> AsyncIterator[tuple[Document, Message | None]]:
        hub = asker.hub
        if collection == _CHANNELS:
            async for record in self._channels(hub):
                yield record, None
            return
        if collection == _SUBSCRIPTIONS:
            for channel in await self._store.read_user_subscriptions(hub.name, asker.user_id):
                subscriber = str(asker.jid.bare)
                yield {"chid": channel_id(channel, hub.name), "subscriber": subscriber}, None
            return
        channel, is_payload = _channel_of(hub, collection)
        async for message in self._history.backwards(hub, channel):
            yield (
                payload_of(message) if is_payload else write_message(from_message(message)),
                message,
            )

    async def _channels(self, hub: Hub) -> AsyncIterator[Document]:
        names = sorted(hub.configuration.bindings)
        for start in range(0, len(names), _PAGE):
            part = names[start : start + _PAGE]
            for record in await self._store.read_channel_records(hub.name, part):
                yield write_channel(record, hub.name)

    async def channel(self, hub: Hub, chid: object) -> Document:
        """Raises `CommandRefused`."""
        if not isinstance(chid, str):
            raise invalid(f"chid is {shown(chid)}; give a text")
        record = await self._records.read(hub, parse_channel(chid, hub.name))
        if record is None:
            raise not_available(f"there is no channel {chid}")
        return write_channel(record, hub.name)

    async def save(self, asker: Asker, collection: str, document: Document) -> Document:
        """Adds a document to a plugins' collection, after its validators accepted it. Raises
        `CommandRefused` and `HubbubError`."""
        hub = asker.hub
        item = PublishItem(
            PLUGIN_COLLECTION + collection, "", msgspec.json.encode(document), JSON, store=True
        )
        identity = hub.service_for(asker.user_id)
        _, outcome = await self._publisher.settle(hub, identity, item, asker.technology)
        if outcome.error is not None:
            raise outcome.error
        return document


def is_own(collection: object) -> bool:
    """Whether plugins may use this name for a collection of their own."""
    taken = (_CHANNELS, _SUBSCRIPTIONS, _DIRECT, "hMessages", *_AS_PAYLOADS)
    return (
        isinstance(collection, str) and bool(_OWN.fullmatch(collection)) and collection not in taken
    )


def _channel_of(hub: Hub, collection: object) -> tuple[str, bool]:
    """The channel of a collection, and whether its documents are message payloads."""
    if isinstance(collection, str):
        if collection in _AS_PAYLOADS:
            return collection, True
        if collection == _DIRECT:
            return collection, False
        if collection.startswith("#"):
            return parse_channel(collection, hub.name), False
        if is_own(collection):
            return PLUGIN_COLLECTION + collection, True
    raise invalid(f"collection is {shown(collection)}; give #channel, hChannels or a name of yours")
