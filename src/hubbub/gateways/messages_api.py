"""Messages over HTTP: publish, batches, history, presence."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from hubbub.domain.envelope_headers import (
    IDEMPOTENCY_HEADER,
    PUSH_HEADER,
    SECURITY_HEADER,
    check_header_names,
    idempotency_key,
    push_options,
    security_token,
)
from hubbub.domain.errors import (
    BadRequest,
    HubbubError,
    IncompleteFilter,
    InvalidAttribute,
    InvalidFilter,
    InvalidPayload,
    Malformed,
    NotFound,
    NotPermitted,
    QuotaExceeded,
    TooLarge,
    TooManyFilters,
    Unavailable,
    WrongChannelKind,
)
from hubbub.domain.messages import Attributes
from hubbub.domain.payloads import as_spelt, parse_payload
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import History, PublishItem
from hubbub.domain.rules import HubConfiguration
from hubbub.domain.traces import context_of_request, with_context
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways import public_shapes as shapes
from hubbub.gateways.calls import (
    TOPIC_KEY_HEADER,
    EventName,
    HubRequest,
    NoQuery,
    flag,
    topic_key_of,
)
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.filters import filters_of
from hubbub.gateways.http import PreparedRequest, ReceivedRequest, Target, error_shape
from hubbub.gateways.routes import Access, Routes
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.protocols.checks import check_event_name
from hubbub.protocols.json.http import page_json, presence_json, publish_items

_HTTP = "http"
_ITEMS_IN_A_TURN: Final = 200
"""Items of a batch: about ten milliseconds."""
_HEADERS = (SECURITY_HEADER, PUSH_HEADER, TOPIC_KEY_HEADER, IDEMPOTENCY_HEADER)


class PublishQuery(msgspec.Struct, frozen=True):
    event: EventName = ""
    store: Annotated[bool, Meta(description="Keep it, where the rules allow it.")] = False
    retain: Annotated[bool, Meta(description="Show it to each new subscriber.")] = False
    push: Annotated[bool, Meta(description="To devices, too, where the rules allow it.")] = False
    transient: Annotated[bool, Meta(description="Only for who is there now.")] = False


FilterText = Annotated[
    str, Meta(description="A filter that messages must pass, as JSON; may be given several times.")
]
WhereText = Annotated[
    str,
    Meta(description="The same as a condition in text: `payload.price lt 10`; also repeatable."),
]
_Number = Annotated[int, Meta(ge=0, le=10**17)]


class HistoryParameters(msgspec.Struct, frozen=True, rename="camel"):
    after: Annotated[_Number, Meta(description="Messages behind this serial.")] | None = None
    before: Annotated[_Number, Meta(description="Messages before this serial.")] | None = None
    after_time: Annotated[_Number, Meta(description="Messages after this time (ms).")] | None = None
    before_time: Annotated[_Number, Meta(description="Messages before this time (ms).")] | None = (
        None
    )
    epoch: Annotated[str, Meta(max_length=64, description="In which the serial counts.")] = ""
    limit: Annotated[int, Meta(ge=0, le=10_000, description="Messages at most.")] = 0
    filter: FilterText = ""
    where: WhereText = ""


_CHANNEL = "/channels/{channel}"
_PUBLISHING = (
    NotFound, NotPermitted, InvalidPayload, TooLarge, WrongChannelKind, QuotaExceeded, Unavailable,
)  # fmt: skip
FILTERING = (IncompleteFilter, InvalidFilter, TooManyFilters)
MESSAGE_API = Routes("/v1/hubs/{hub}", "Messages", Access.HUB, (NotFound, NotPermitted))


# -- publishing -----------------------------------------------------------------------------------


@MESSAGE_API.serve(
    "POST", f"{_CHANNEL}/messages", any_query=True, headers=shapes.PUBLISH_HEADERS, body=Any,
    content_type="*/*", answers={200: shapes.Published}, errors=(*_PUBLISHING, InvalidAttribute),
    summary="Publish a message; the body is the payload",
)  # fmt: skip
def publish(node: Node, request: HubRequest[PublishQuery]) -> None:
    """The query says what the headers do not."""
    sent, target = request.request, request.target
    check_header_names(sent.headers, _HEADERS, PublishQuery.__struct_encode_fields__)
    content_type = sent.header(b"content-type")
    order = Order(
        hub=request.hub.name,
        channel=request.path["channel"],
        event=check_event_name(target.first("event") or ""),
        content_type=content_type,
        store=flag(target.first("store"), "store"),
        retain=flag(target.first("retain"), "retain"),
        push=flag(target.first("push"), "push"),
        transient=flag(target.first("transient"), "transient"),
        topic_key=topic_key_of(sent),
        attributes=as_spelt(node.envelope_of(sent.headers), content_type),
        push_options=push_options(sent.headers),
    )
    token, key = security_token(sent.headers), idempotency_key(sent.headers)
    if not request.exchange.extra_headers and token is None and key is None:
        sent.head.memo = order
    carry_out(node, order, request.hub, request.identity, sent, request.exchange, token, key)


def carry_out(
    node: Node,
    order: Order,
    hub: Hub,
    identity: Identity,
    request: ReceivedRequest,
    exchange: HttpExchange,
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
    configuration, publisher = hub.configuration, node.publisher
    if order.permitted_by is configuration and (lane := publisher.lane(hub, item)) is not None:
        message = publisher.publish_live(lane, hub, identity, item, _HTTP)
        exchange.answer_json(
            b'{"msgID":"%b","channelSerial":"%d"}' % (message.id.encode(), message.serial)
        )
        if hub.delivery_queue.congested:
            hub.hold_back(order.channel, exchange.connection)
        return
    answer, publish = _PublishAnswer(exchange), publisher.publish
    if order.permitted_by is configuration:
        message_id = publish(hub, identity, item, answer.conclude, _HTTP, None, True)
    else:
        message_id = _hand_on(node, hub, identity, item, answer.conclude, request)
        order.permitted_by = configuration
    answer.accepted(message_id)
    if hub.delivery_queue.congested:
        hub.hold_back(order.channel, exchange.connection)


def _hand_on(
    node: Node,
    hub: Hub,
    identity: Identity,
    item: PublishItem,
    reply: PublishReply,
    request: ReceivedRequest,
) -> str:
    """Publishes and returns the message's id. Raises the errors of `Publisher.publish`."""
    publish = node.publisher.publish
    if item.topic_key is None:
        return publish(hub, identity, item, reply, _HTTP)
    with node.throttle.guess(hub.name, request.address):
        return publish(hub, identity, item, reply, _HTTP)


@MESSAGE_API.serve(
    "POST", "/messages", any_query=True, body=shapes.PublishBatch,
    answers={200: shapes.PublishResults}, errors=(NotFound,),
)  # fmt: skip
def publish_batch(node: Node, request: HubRequest[NoQuery]) -> None:
    """Publish messages, with a result for each."""
    hub, identity, sent = request.hub, request.identity, request.request
    check_header_names(sent.headers, (TOPIC_KEY_HEADER,), fields=False)
    items = publish_items(sent.body)
    topic_key = topic_key_of(sent)
    if topic_key is not None:
        items = [_with_key(item, topic_key) for item in items]
    if node.publisher.traced:
        items = [_in_trace(item, context_of_request(sent.headers)) for item in items]
    if not items:
        raise BadRequest("'publishes' is empty; give at least one message")
    node.throttle.admit(hub.name, identity, sent.address, len(items) - 1)
    batch = _BatchAnswer(request.exchange, len(items))

    def publish(start: int) -> None:
        for index, item in enumerate(items[start : start + _ITEMS_IN_A_TURN], start):
            _publish_one(node, hub, identity, item, batch, index, sent)
            if hub.delivery_queue.congested and isinstance(item, PublishItem):
                hub.hold_back(item.channel, request.exchange.connection)

    async def publish_rest() -> None:
        for start in range(_ITEMS_IN_A_TURN, len(items), _ITEMS_IN_A_TURN):
            await asyncio.sleep(0)
            publish(start)

    publish(0)
    if len(items) > _ITEMS_IN_A_TURN:
        request.exchange.complete(publish_rest())


def _publish_one(
    node: Node,
    hub: Hub,
    identity: Identity,
    item: PublishItem | HubbubError,
    batch: _BatchAnswer,
    index: int,
    request: ReceivedRequest,
) -> None:
    if isinstance(item, HubbubError):
        batch.conclude(index, PublishOutcome(error=item))
        return
    try:
        batch.ids[index] = _hand_on(
            node, hub, identity, item, lambda outcome: batch.conclude(index, outcome), request
        )
        batch.send_if_done()
    except HubbubError as error:
        batch.conclude(index, PublishOutcome(error=error))


# -- questions ------------------------------------------------------------------------------------


@MESSAGE_API.serve(
    "GET", f"{_CHANNEL}/messages", any_query=True, answers={200: shapes.HistoryPage},
    errors=FILTERING,
)  # fmt: skip
def read_history(node: Node, request: HubRequest[HistoryParameters]) -> Coroutine[Any, Any, bytes]:
    """Read what was published; at most one of after, before, afterTime, beforeTime."""
    channel = request.path["channel"]
    links = request.doors.links(request.request, request.exchange, request.hub, channel)
    request.exchange.extra_headers += links.encode()
    return _history(node, request, channel)


async def _history(node: Node, request: HubRequest[HistoryParameters], channel: str) -> bytes:
    target = request.target
    query = History(
        channel=channel,
        after=_number(target, "after"),
        before=_number(target, "before"),
        after_time=_number(target, "afterTime"),
        before_time=_number(target, "beforeTime"),
        epoch=target.first("epoch"),
        limit=_number(target, "limit") or 0,
    )
    filters = filters_of(target)
    return page_json(await node.queries.page(request.hub, request.identity, query, filters))


@MESSAGE_API.serve(
    "GET", f"{_CHANNEL}/content", any_query=True, answers={200: Any}, answer_type="*/*"
)
async def read_content(node: Node, request: HubRequest[NoQuery]) -> None:
    """Read the newest message that is kept, as receivers of webhooks get it."""
    channel, exchange = request.path["channel"], request.exchange
    links = request.doors.links(request.request, exchange, request.hub, channel, "content")
    page = await node.queries.page(request.hub, request.identity, History(channel, limit=1))
    if not page.messages:
        raise NotFound(f"{channel!r} has no message that is kept")
    newest = page.messages[-1]
    spelt = newest.attributes.media_type if newest.attributes is not None else None
    exchange.answer(200, newest.payload, spelt or newest.content_type, links)


@MESSAGE_API.serve(
    "GET", f"{_CHANNEL}/presence", any_query=True, answers={200: shapes.PresenceList}
)
async def read_presence(node: Node, request: HubRequest[NoQuery]) -> bytes:
    """See who is in a channel."""
    channel = request.path["channel"]
    members = await node.queries.members(request.hub, request.identity, channel)
    return presence_json(channel, members)


def _with_key(item: PublishItem | HubbubError, key: str) -> PublishItem | HubbubError:
    if isinstance(item, HubbubError):
        return item
    return msgspec.structs.replace(item, topic_key=key)


def _in_trace(item: PublishItem | HubbubError, context: str | None) -> PublishItem | HubbubError:
    if isinstance(item, HubbubError) or context is None:
        return item
    return msgspec.structs.replace(item, attributes=with_context(item.attributes, context))


class Order(PreparedRequest, eq=False):
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
    """The settings under which the head's sender was found to be permitted."""


class _PublishAnswer(msgspec.Struct, eq=False):
    """Waits for the message's id and its outcome."""

    _exchange: HttpExchange
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
    """The response to a repeated publish."""
    said: dict[str, object] = {"msgID": outcome.message_id or "", "duplicate": True}
    if outcome.serial:
        said["channelSerial"] = str(outcome.serial)
    return msgspec.json.encode(said)


class _BatchAnswer:
    """Collects the results of a batch, in order."""

    def __init__(self, exchange: HttpExchange, size: int) -> None:
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
