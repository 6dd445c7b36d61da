"""The WebSub hub: verified subscriptions, pings, and published content."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from hubbub.domain.errors import BadRequest, HubbubError, Malformed, NotPermitted, NotSubscribed
from hubbub.domain.webhooks import WantedWebhook, websub_channel
from hubbub.engine.node import Node
from hubbub.engine.webhooks.service import Webhooks
from hubbub.gateways.calls import HubCall, expect
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.http import TEXT_UTF8
from hubbub.gateways.light import publish_body
from hubbub.protocols.websub import (
    FORM,
    Publication,
    WebSubRequest,
    hub_url,
    own_topic,
    read_form,
    read_request,
)
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

MAX_TOPICS = 1000
"""Maximum number of topics in one ping."""
MAX_DENIALS = 1000
"""Maximum number of denials being sent to callbacks."""


class WebSubDoor:
    """Responds at once; requests to callbacks and topics follow in the background."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._webhooks = node.feature(Webhooks)
        self._later = TaskSet(_log)

    def handle(
        self,
        call: HubCall,
        exchange: HttpExchange,
        base: str,
        bases: Sequence[str],
        at_root: bool = False,
    ) -> None:
        """`base` is the hub's public address, `bases` are the addresses that identify own topics.
        `at_root`: the caller used `/websub`, and is told that address."""
        expect(call.request, b"POST")
        in_query = any(name == "hub.mode" for name, _ in call.target.query)
        asked = read_request(call.target.query if in_query else _form(call))
        work: Coroutine[Any, Any, str]
        if isinstance(asked, WebSubRequest):
            work = self._subscribe(call, asked, base, bases, at_root)
        elif in_query and call.request.body:
            work = self._publish(call, asked, bases)
        else:
            work = self._ping(call, asked, bases)
        settings = call.hub.configuration.settings
        silent = settings.websub_no_content and not isinstance(asked, WebSubRequest)
        exchange.complete(self._answer(exchange, work, silent))

    @staticmethod
    async def _answer(exchange: HttpExchange, work: Coroutine[Any, Any, str], silent: bool) -> None:
        text = await work
        if silent:
            exchange.answer(204, b"", TEXT_UTF8)
        else:
            exchange.answer(202, f"{text}\n".encode(), TEXT_UTF8)

    async def _subscribe(
        self,
        call: HubCall,
        asked: WebSubRequest,
        base: str,
        bases: Sequence[str],
        at_root: bool,
    ) -> str:
        webhooks = self._webhooks
        channel, own = _channel(call, asked.topic, bases)
        if own and not base:  # then the subscriber itself says where the hub is
            base = next(each for each in bases if asked.topic.startswith(f"{each}/"))
        wanted = WantedWebhook(
            kind="websub",
            channel=channel,
            callback=asked.callback,
            topic=asked.topic,
            secret=asked.secret,
            algorithm=asked.algorithm or call.hub.configuration.settings.websub_algorithm,
            lease_seconds=asked.lease_seconds,
            hub_url=hub_url(base, None if at_root else call.hub.name) if base else None,
        )
        try:
            found = await webhooks.request_verified(call.hub, call.identity, wanted, asked.mode)
        except NotPermitted as error:
            # Whoever asks learns it by the answer, the callback by a request.
            self._do_later(webhooks.deny(call.hub, asked.callback, asked.topic, error.message))
            raise
        if found is None:
            raise NotSubscribed(
                f"nothing of yours goes from {asked.topic[:200]!r} to {asked.callback[:200]!r}: "
                "there is nothing to unsubscribe from"
            )
        return f"the callback will be asked whether it wants to {asked.mode}"

    async def _ping(self, call: HubCall, asked: Publication, bases: Sequence[str]) -> str:
        topics = {topic: _channel(call, topic, bases) for topic in asked.topics}
        if len(topics) > MAX_TOPICS:
            raise BadRequest(f"a ping names {len(topics)} topics; {MAX_TOPICS} are allowed")
        for topic, (channel, own) in topics.items():
            if not own:
                await self._webhooks.ping(call.hub, topic, channel)
        return "the topic will be fetched"

    def _do_later(self, work: Coroutine[Any, Any, object]) -> None:
        if len(self._later) < MAX_DENIALS:
            self._later.start(work)
        else:
            work.close()

    def stop(self) -> None:
        self._later.cancel()

    async def _publish(self, call: HubCall, asked: Publication, bases: Sequence[str]) -> str:
        if len(asked.topics) > 1:
            raise BadRequest("content belongs to one topic; give one hub.topic")
        channel, _ = _channel(call, asked.topics[0], bases)
        message_id, serial = await publish_body(self._node, call, channel, "websub")
        return f"published as message {serial}, {message_id}"


def _form(call: HubCall) -> Sequence[tuple[str, str]]:
    content_type = call.request.header(b"content-type") or FORM
    if content_type.partition(";")[0].strip().lower() != FORM:
        raise Malformed(
            f"the content type is {content_type[:60]!r}; send a form ({FORM}), or content with "
            "hub.mode=publish and hub.topic in the query"
        )
    return read_form(call.request.body)


def _channel(call: HubCall, topic: str, bases: Sequence[str]) -> tuple[str, bool]:
    """The channel of a topic, and whether it is one of this hub's."""
    own = own_topic(topic, bases)
    if own is None:
        return websub_channel(topic), False
    hub, channel = own
    if hub != call.hub.name:
        raise BadRequest(
            f"the topic {topic[:200]!r} belongs to hub {hub!r}; ask at /v1/hubs/{hub}/websub"
        )
    return channel, True


def _log(error: BaseException) -> None:
    if not isinstance(error, HubbubError):
        logger.error("a background task of WebSub failed", exc_info=error)
