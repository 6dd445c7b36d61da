"""Mercure at a node: publishes updates, and admits and counts the streams of subscribers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from itertools import chain
from typing import Any
from urllib.parse import quote

import msgspec

from hubbub.domain.errors import HubbubError, NotFound, NotPermitted, TooLarge
from hubbub.domain.history import HistoryQuery
from hubbub.domain.limits import network_of
from hubbub.domain.mercure.callers import MercureCaller
from hubbub.domain.mercure.selectors import Selectors, filters_for
from hubbub.domain.mercure.updates import Update, update_id
from hubbub.domain.messages import JSON, TEXT
from hubbub.domain.names import MERCURE_LOG, check_name
from hubbub.domain.permissions import Grant
from hubbub.domain.requests import PublishItem
from hubbub.engine.hub import Hub
from hubbub.engine.mercure.credentials import MercureCredentials
from hubbub.engine.mercure.settings import MercureSettings
from hubbub.engine.mercure.streams import ListStreams, OpenStreams, Stream, StreamInfo
from hubbub.engine.node import Node
from hubbub.engine.publishing import check_place
from hubbub.engine.rooms import Room
from hubbub.engine.sessions.session import Session
from hubbub.ports import randomness
from hubbub.ports.bus import PublishOutcome

logger = logging.getLogger(__name__)

TECHNOLOGY = "mercure"
MAX_LISTED = 1000
_SUBSCRIPTIONS = "/.well-known/mercure/subscriptions"


class Mercure(Room):
    """Serves all hubs of a node."""

    def __init__(self, node: Node, settings: MercureSettings) -> None:
        self._node = node
        self.enabled = settings.enabled
        self._streams = OpenStreams(settings.max_selector_sets)
        self.credentials = MercureCredentials(node)
        self.node_requests = {ListStreams: self._list}

    # -- publishing -----------------------------------------------------------------------------

    async def publish(self, hub: Hub, caller: MercureCaller, update: Update) -> str:
        """Stores the update and returns its id. Raises `NotPermitted`, and the errors of a
        publish."""
        allowed = caller.publish
        if allowed is None:
            raise NotPermitted("the token does not allow to publish: it has no `mercure.publish`")
        for topic in update.topics:
            if not allowed.match((topic,)):
                raise NotPermitted(
                    f"`mercure.publish` of the token allows no update of {topic[:200]!r}"
                )
        outcome = await self._store(hub, caller, update.item())
        if hub.configuration.settings.mercure_bridge:
            self._bridge(hub, caller, update)
        return update_id(await self._epoch(hub, outcome.serial), outcome.serial)

    async def _store(self, hub: Hub, caller: MercureCaller, item: PublishItem) -> PublishOutcome:
        done: asyncio.Future[PublishOutcome] = asyncio.get_running_loop().create_future()

        def conclude(outcome: PublishOutcome) -> None:
            if not done.done():  # else the publisher is gone
                done.set_result(outcome)

        # The token was asked about the topics; the log itself takes nothing from clients.
        self._node.publisher.publish(
            hub, caller.identity, item, conclude, TECHNOLOGY, None, permitted=True
        )
        outcome = await done
        if outcome.error is not None:
            raise outcome.error
        return outcome

    async def _epoch(self, hub: Hub, serial: int) -> str:
        feed = hub.feeds.get(MERCURE_LOG)
        if feed is not None and feed.epoch:
            return feed.epoch
        page = await self._node.bus.ask(HistoryQuery(hub.name, MERCURE_LOG, 1, after=serial - 1))
        return page.epoch

    def _bridge(self, hub: Hub, caller: MercureCaller, update: Update) -> None:
        """Publishes the update to the channel of its first topic, for the other doors. A topic that
        is no name, or whose channel has an owner or a key, is left out."""
        channel, identity = update.topics[0], caller.identity
        if update.private or channel == MERCURE_LOG:
            return
        item = _bridged(update, channel)
        granted = msgspec.structs.replace(identity, grants=(Grant(channel, publish=True),))
        try:
            check_name(channel, "channel")
            check_place(hub, granted, item)
            self._node.publisher.publish(hub, granted, item, None, TECHNOLOGY, None)
        except HubbubError as error:
            logger.debug("an update was not published to its channel: %s", error.code)

    # -- subscribing ----------------------------------------------------------------------------

    def check_readable(self, hub: Hub, caller: MercureCaller) -> None:
        """Raises `NotPermitted`, `InvalidToken`."""
        self._node.access.check(hub.name, caller.reader(), MERCURE_LOG)

    def begin(self, session: Session, caller: MercureCaller, wanted: Selectors) -> None:
        """Prepares the session of a stream, before it subscribes. Raises `QuotaExceeded`."""
        identity = caller.identity
        holder = identity.user_id if identity.authenticated else network_of(session.address)
        stream = Stream(
            session.id,
            caller,
            wanted,
            f"{identity.authenticated}:{holder}",
            _new_uuid(),
        )
        self._streams.add(session.hub.name, stream)
        session.filters = filters_for(wanted, caller.subscribe)
        session.channel_readers = {MERCURE_LOG: caller.reader()}

    def begun(self, hub: Hub, session_id: str) -> None:
        """The stream gets updates, that of its own beginning included."""
        stream = self._streams.mark_told(hub.name, session_id)
        if stream is not None:
            self._tell(hub, stream, active=True)

    def end(self, hub: Hub, session_id: str) -> None:
        stream, told = self._streams.remove(hub.name, session_id)
        if stream is not None and told:
            self._tell(hub, stream, active=False)

    # -- active subscriptions -------------------------------------------------------------------

    def _tell(self, hub: Hub, stream: Stream, active: bool) -> None:
        """Tells subscribers that may know it that a stream began or ended. Nothing is stored."""
        if not hub.configuration.settings.mercure_subscriptions or hub.missing is not None:
            return
        for document in documents_of([stream.info], active):
            update = Update((document["id"],), msgspec.json.encode(document).decode(), private=True)
            item = msgspec.structs.replace(update.item(), store=False, transient=True)
            try:
                self._node.publisher.publish(
                    hub, stream.caller.identity, item, None, TECHNOLOGY, None, permitted=True
                )
            except HubbubError as error:
                logger.debug("an active subscription was not told: %s", error.code)

    async def _list(self, _: str, request: ListStreams) -> list[StreamInfo]:
        found = []
        for info in self._streams.of_hub(request.hub):
            found.append(info)
            if len(found) >= request.limit:
                break
        return found

    async def active(
        self, hub: Hub, caller: MercureCaller, url: str, topic: str | None, subscriber: str | None
    ) -> tuple[list[dict[str, Any]], str]:
        """The active subscriptions on all nodes, and the id of the last update. `url` is the path
        that was asked for, which the token must allow. Raises `NotPermitted`, `NotFound`,
        `TooLarge`."""
        if not hub.configuration.settings.mercure_subscriptions:
            raise NotFound("this hub does not list subscriptions; see its mercureSubscriptions")
        if not caller.subscribe.match((url,)):
            raise NotPermitted(f"`mercure.subscribe` of the token does not allow {url[:200]!r}")
        answers = await self._node.bus.ask_all(ListStreams(hub.name, MAX_LISTED + 1))
        every = documents_of(chain.from_iterable(answers.given.values()), active=True)
        found = [
            each
            for each in every
            if topic in (None, each["topic"]) and subscriber in (None, each["subscriber"])
        ]
        if len(found) > MAX_LISTED:
            raise TooLarge(
                f"there are more than {MAX_LISTED} subscriptions; ask for those of one topic"
            )
        if subscriber is not None and not found:
            raise NotFound("there is no such subscription")
        page = await self._node.bus.ask(HistoryQuery(hub.name, MERCURE_LOG, 1))
        return found, update_id(page.epoch, page.head)


def _new_uuid() -> str:
    digits = randomness.token_hex(16)
    parts = digits[:8], digits[8:12], f"4{digits[13:16]}", f"8{digits[17:20]}", digits[20:]
    return f"urn:uuid:{'-'.join(parts)}"


def documents_of(streams: Iterable[StreamInfo], active: bool) -> list[dict[str, Any]]:
    """The JSON-LD of each selector of the streams."""
    found = []
    for stream in streams:
        for selector in stream.selectors:
            names = selector, stream.subscriber
            document = {
                "id": "/".join((_SUBSCRIPTIONS, *(quote(each, safe="") for each in names))),
                "type": "Subscription",
                "subscriber": stream.subscriber,
                "topic": selector,
                "active": active,
            }
            if stream.payload is not None:
                document["payload"] = stream.payload
            found.append(document)
    return found


def _bridged(update: Update, channel: str) -> PublishItem:
    data = update.data.encode()
    content_type = JSON if _is_json(data) else TEXT
    return PublishItem(channel, update.type, data, content_type, transient=True)


def _is_json(data: bytes) -> bool:
    if b"\n" in data or b"\r" in data:
        return False
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
