"""The HTTP side of a hub: publish, batches, history, presence. Topics are in `topics_api`,
notifications in `notifications_api`, services in `services_api`."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from hubbub.domain.envelope_headers import (
    IDEMPOTENCY_HEADER,
    PUSH_HEADER,
    SECURITY_HEADER,
    check_header_names,
    idempotency_key,
    push_options,
    security_token,
)
from hubbub.domain.errors import BadRequest, HubbubError, Malformed, NotFound
from hubbub.domain.messages import Attributes
from hubbub.domain.payloads import as_spelt, parse_payload
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import History, PublishItem
from hubbub.domain.rules import HubConfiguration
from hubbub.domain.traces import context_of_request, with_context
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.calls import TOPIC_KEY_HEADER, flag, no_path, topic_key_of, wrong_method
from hubbub.gateways.commands_api import CommandsApi
from hubbub.gateways.communication_api import CommunicationApi
from hubbub.gateways.credentials import recognize, require_identity
from hubbub.gateways.documents_api import DocumentsApi
from hubbub.gateways.exchange import Exchange
from hubbub.gateways.filters import filters_of
from hubbub.gateways.handshake import note_header
from hubbub.gateways.http import Prepared, Request, Target, error_shape
from hubbub.gateways.notifications_api import NotificationsApi
from hubbub.gateways.services_api import ServicesApi
from hubbub.gateways.threads_api import ThreadsApi
from hubbub.gateways.topics_api import PreparedGet, TopicsApi
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.protocols.checks import check_event_name
from hubbub.protocols.json.http import page_json, presence_json, publish_items
from hubbub.protocols.websub import TopicForm

_HTTP = "http"
_HEADERS = (SECURITY_HEADER, PUSH_HEADER, TOPIC_KEY_HEADER, IDEMPOTENCY_HEADER)
_PARAMETERS = ("event", "store", "retain", "push", "transient")
"""Of a publish."""
_HARMLESS = (
    "Content-Security-Policy: sandbox; default-src 'none'\r\nX-Content-Type-Options: nosniff\r\n"
)


class Links(Protocol):
    def __call__(
        self,
        request: Request,
        exchange: Exchange,
        hub: Hub,
        channel: str,
        form: TopicForm = "messages",
    ) -> str:
        """A complete header line."""


class HubApi:
    """Paths under /v1/hubs/{hub}/ that answer and are done."""

    def __init__(self, node: Node, links: Links) -> None:
        """`links` writes the headers with which a channel is found as a WebSub topic."""
        self._node = node
        self._links = links
        self._topics = TopicsApi(node)
        self._services = ServicesApi(node)
        self._notifications = NotificationsApi(node)
        self._documents = DocumentsApi(node)
        self._threads = ThreadsApi(node)
        self._commands = CommandsApi(node)
        self._communication = CommunicationApi(node)

    def stop(self) -> None:
        """Whoever waits for an answer is sent away."""
        self._topics.stop()

    def handle(self, request: Request, target: Target, exchange: Exchange) -> None:
        """Raises `NotFound` for paths that are not here."""
        segments, method = target.segments, request.method
        hub = self._node.visit(segments[2])
        exchange.extra_headers += note_header(self._node.note_about(hub))
        rest = segments[3:]
        if len(rest) == 3 and rest[0] == "channels":
            channel, what = rest[1], rest[2]
            if what == "messages" and method == b"POST":
                self._publish(request, target, exchange, hub, channel)
            elif what == "messages" and method in (b"GET", b"HEAD"):
                identity = require_identity(request, target, hub, self._node)
                exchange.extra_headers += self._links(request, exchange, hub, channel).encode()
                exchange.run(self._history(target, hub, identity, channel))
            elif what == "content" and method in (b"GET", b"HEAD"):
                identity = require_identity(request, target, hub, self._node)
                links = self._links(request, exchange, hub, channel, "content")
                exchange.complete(self._content(exchange, hub, identity, channel, links))
            elif what == "presence" and method == b"GET":
                identity = require_identity(request, target, hub, self._node)
                exchange.run(self._presence(hub, identity, channel))
            elif what in ("messages", "presence", "content"):
                raise wrong_method(request, *(("GET", "POST") if what == "messages" else ("GET",)))
            elif what == "notifications":
                self._notifications.handle(request, target, exchange, hub)
            elif what == "document":
                self._documents.handle(request, target, exchange, hub, channel)
            elif what == "threads":
                self._threads.handle(request, target, exchange, hub, channel)
            else:
                raise no_path(request)
        elif rest[0] == "channels" and rest[2:3] == ("threads",):
            self._threads.handle(request, target, exchange, hub, rest[1])
        elif rest[0] == "channels" and rest[2:] == ("notifications", "read"):
            self._notifications.handle(request, target, exchange, hub)
        elif rest[0] == "channels" and rest[2:3] == ("document",):
            self._documents.handle(request, target, exchange, hub, rest[1])
        elif rest[0] in ("topics", "subscriptions"):
            self._topics.handle(request, target, exchange, hub)
        elif rest[0] in ("rpc", "streams"):
            self._services.handle(request, target, exchange, hub)
        elif rest == ("commands",):
            self._commands.handle(request, target, exchange, hub)
        elif rest[0] == "comm":
            self._communication.handle(request, target, exchange, hub)
        elif rest == ("messages",):
            if method != b"POST":
                raise wrong_method(request, "POST")
            self._publish_batch(request, target, exchange, hub)
        else:
            raise no_path(request)

    # -- publishing -----------------------------------------------------------------------------

    def _publish(
        self, request: Request, target: Target, exchange: Exchange, hub: Hub, channel: str
    ) -> None:
        """The body is the payload; the query says the rest."""
        identity = require_identity(request, target, hub, self._node)
        check_header_names(request.headers, _HEADERS, _PARAMETERS)
        content_type = request.header(b"content-type")
        order = _Order(
            hub=hub.name,
            channel=channel,
            event=check_event_name(target.first("event") or ""),
            content_type=content_type,
            store=flag(target.first("store"), "store"),
            retain=flag(target.first("retain"), "retain"),
            push=flag(target.first("push"), "push"),
            transient=flag(target.first("transient"), "transient"),
            topic_key=topic_key_of(request),
            attributes=as_spelt(self._node.envelope_of(request.headers), content_type),
            push_options=push_options(request.headers),
        )
        token, key = security_token(request.headers), idempotency_key(request.headers)
        if not exchange.extra_headers and token is None and key is None:
            request.head.memo = order
        self._carry_out(order, hub, identity, request, exchange, token, key)

    def handle_again(self, request: Request, exchange: Exchange) -> bool:
        """The short way for a head that was handled before. Answers whether it was one."""
        prepared, node = request.head.memo, self._node
        if prepared is None:
            return False
        hub = node.hubs.get(prepared.hub)
        identity = None if hub is None else recognize(request, hub, node)
        if hub is None or identity is None:
            return False
        if isinstance(prepared, _Order):
            self._carry_out(prepared, hub, identity, request, exchange)
        elif isinstance(prepared, PreparedGet):
            exchange.run(self._topics.get(hub, identity, prepared.wanted))
        return True

    def _carry_out(
        self,
        order: _Order,
        hub: Hub,
        identity: Identity,
        request: Request,
        exchange: Exchange,
        token: str | None = None,
        key: str | None = None,
    ) -> None:
        payload, content_type = parse_payload(request.body, order.content_type)
        item = PublishItem(
            order.channel,
            order.event,
            payload,
            content_type,
            order.store,
            order.push,
            order.retain,
            order.transient,
            None,
            None,
            order.topic_key,
            order.attributes,
            order.push_options,
            token,
            key,
        )
        answer, configuration = _PublishAnswer(exchange), hub.configuration
        publish = self._node.publisher.publish
        if order.permitted_by is configuration:
            message_id = publish(hub, identity, item, answer.conclude, _HTTP, None, True)
        else:
            message_id = self._hand_on(hub, identity, item, answer.conclude, request)
            order.permitted_by = configuration
        answer.accepted(message_id)
        if hub.delivery_queue.congested:
            hub.hold_back(order.channel, exchange.connection)

    def _hand_on(
        self,
        hub: Hub,
        identity: Identity,
        item: PublishItem,
        reply: PublishReply,
        request: Request,
    ) -> str:
        """Returns the message's id. Raises the errors of `Publisher.publish`."""
        publish = self._node.publisher.publish
        if item.topic_key is None:
            return publish(hub, identity, item, reply, _HTTP)
        with self._node.throttle.guess(hub.name, request.address):
            return publish(hub, identity, item, reply, _HTTP)

    def _publish_batch(
        self, request: Request, target: Target, exchange: Exchange, hub: Hub
    ) -> None:
        """`{"publishes": […]}`, answered with a result for each."""
        identity = require_identity(request, target, hub, self._node)
        check_header_names(request.headers, (TOPIC_KEY_HEADER,), fields=False)
        items = publish_items(request.body)
        topic_key = topic_key_of(request)
        if topic_key is not None:
            items = [_with_key(item, topic_key) for item in items]
        if self._node.traced:
            items = [_in_trace(item, context_of_request(request.headers)) for item in items]
        if not items:
            raise BadRequest("'publishes' is empty; give at least one message")
        self._node.throttle.admit(hub.name, identity, request.address, len(items) - 1)
        batch = _BatchAnswer(exchange, len(items))
        for index, item in enumerate(items):
            self._publish_one(hub, identity, item, batch, index, request)
            if hub.delivery_queue.congested and isinstance(item, PublishItem):
                hub.hold_back(item.channel, exchange.connection)

    def _publish_one(
        self,
        hub: Hub,
        identity: Identity,
        item: PublishItem | HubbubError,
        batch: _BatchAnswer,
        index: int,
        request: Request,
    ) -> None:
        if isinstance(item, HubbubError):
            batch.conclude(index, PublishOutcome(error=item))
            return
        try:
            batch.ids[index] = self._hand_on(
                hub, identity, item, lambda outcome: batch.conclude(index, outcome), request
            )
            batch.send_if_done()
        except HubbubError as error:
            batch.conclude(index, PublishOutcome(error=error))

    # -- questions ------------------------------------------------------------------------------

    async def _history(self, target: Target, hub: Hub, identity: Identity, channel: str) -> bytes:
        query = History(
            channel=channel,
            after=_number(target, "after"),
            before=_number(target, "before"),
            after_time=_number(target, "afterTime"),
            before_time=_number(target, "beforeTime"),
            epoch=target.first("epoch"),
            limit=_number(target, "limit") or 0,
        )
        page = await self._node.queries.page(hub, identity, query, filters_of(target))
        return page_json(page)

    async def _content(
        self, exchange: Exchange, hub: Hub, identity: Identity, channel: str, links: str
    ) -> None:
        """The newest message alone, as receivers of webhooks get it. What strangers published is
        not to act in a browser as a page of the hub."""
        page = await self._node.queries.page(hub, identity, History(channel, limit=1))
        if not page.messages:
            raise NotFound(f"{channel!r} has no message that is kept")
        newest = page.messages[-1]
        spelt = newest.attributes.media_type if newest.attributes is not None else None
        exchange.answer(200, newest.payload, spelt or newest.content_type, links + _HARMLESS)

    async def _presence(self, hub: Hub, identity: Identity, channel: str) -> bytes:
        return presence_json(channel, await self._node.queries.members(hub, identity, channel))


def _with_key(item: PublishItem | HubbubError, key: str) -> PublishItem | HubbubError:
    if isinstance(item, HubbubError):
        return item
    return msgspec.structs.replace(item, topic_key=key)


def _in_trace(item: PublishItem | HubbubError, context: str | None) -> PublishItem | HubbubError:
    if isinstance(item, HubbubError) or context is None:
        return item
    return msgspec.structs.replace(item, attributes=with_context(item.attributes, context))


class _Order(Prepared, eq=False):
    """A publish."""

    channel: str
    event: str
    content_type: str | None
    store: bool
    retain: bool
    push: bool
    transient: bool
    topic_key: str | None = None
    attributes: Attributes | None = None
    push_options: dict[str, Any] | None = None
    permitted_by: HubConfiguration | None = None
    """The settings under which this was found to be permitted to the head's sender."""


class _PublishAnswer(msgspec.Struct, eq=False):
    """Waits for both: the message's id and what became of it."""

    _exchange: Exchange
    _message_id: str | None = None
    _outcome: PublishOutcome | None = None

    def accepted(self, message_id: str) -> None:
        self._message_id = message_id
        if self._outcome is not None:
            self._send(message_id, self._outcome)

    def conclude(self, outcome: PublishOutcome) -> None:
        self._outcome = outcome
        if self._message_id is not None:
            self._send(self._message_id, outcome)

    def _send(self, message_id: str, outcome: PublishOutcome) -> None:
        if outcome.error is not None:
            self._exchange.fail(outcome.error)
        elif outcome.duplicate:
            self._exchange.answer_json(repeat_json(outcome))
        elif outcome.serial:
            said = f'{{"msgID":"{message_id}","channelSerial":"{outcome.serial}"}}'
            self._exchange.answer_json(said.encode())
        else:
            self._exchange.answer_json(f'{{"msgID":"{message_id}"}}'.encode())


def repeat_json(outcome: PublishOutcome) -> bytes:
    """Of a publish that was there already."""
    said: dict[str, object] = {"msgID": outcome.message_id or "", "duplicate": True}
    if outcome.serial:
        said["channelSerial"] = str(outcome.serial)
    return msgspec.json.encode(said)


class _BatchAnswer:
    """Collects the results of a batch, in its order."""

    def __init__(self, exchange: Exchange, size: int) -> None:
        self._exchange = exchange
        self._outcomes: list[PublishOutcome | None] = [None] * size
        self._pending = size
        self.ids: list[str | None] = [None] * size

    def conclude(self, index: int, outcome: PublishOutcome) -> None:
        self._outcomes[index] = outcome
        self._pending -= 1
        self.send_if_done()

    def send_if_done(self) -> None:
        if self._pending:
            return
        results = [self._result(index) for index in range(len(self.ids))]
        if None not in results:
            self._exchange.answer_json(msgspec.json.encode({"published": results}))

    def _result(self, index: int) -> dict[str, object] | None:
        outcome = self._outcomes[index]
        if outcome is None:
            return None
        error = outcome.error
        if error is not None:
            return {"success": False, "error": error_shape(error)}
        if self.ids[index] is None:
            return None
        result: dict[str, object] = {"success": True}
        message_id = outcome.message_id if outcome.duplicate else self.ids[index]
        if message_id is not None:
            result["msgID"] = message_id
        if outcome.serial:
            result["channelSerial"] = str(outcome.serial)
        if outcome.duplicate:
            result["duplicate"] = True
        return result


def _number(target: Target, name: str) -> int | None:
    value = target.first(name)
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise Malformed(f"{name}={value!r} is not a number")
    return int(value)
