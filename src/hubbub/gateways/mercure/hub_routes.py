"""The paths of Mercure in a hub: publish, subscribe, and list active subscriptions."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hubbub.domain.errors import (
    NotAuthenticated,
    NotFound,
    NotPermitted,
    QuotaExceeded,
    TooLarge,
    Unavailable,
    UnsupportedMediaType,
)
from hubbub.domain.mercure.callers import NOBODY, MercureCaller
from hubbub.domain.mercure.selectors import Selectors, check_selectors
from hubbub.domain.mercure.updates import read_update
from hubbub.engine.mercure.service import Mercure
from hubbub.engine.node import Node
from hubbub.engine.sessions.session import Session
from hubbub.gateways.calls import HubRequest
from hubbub.gateways.http import TEXT_UTF8
from hubbub.gateways.mercure.callers import anyone, identify
from hubbub.gateways.mercure.stream import MercureConnection, follow
from hubbub.gateways.routes import Access, Routes
from hubbub.protocols.websub import FORM, read_form

_JSON_LD = "application/ld+json"
_CONTEXT = "https://mercure.rocks/"
_WELL_KNOWN = "/.well-known/mercure"
_LAST_EVENT_ID = ("lastEventID", "Last-Event-ID", "last-event-id")


class StreamQuery(msgspec.Struct, frozen=True):
    topic: Annotated[
        str, Meta(description="A topic, a URI template, or `*`; may be given several times.")
    ]
    last_event_id: Annotated[
        str, Meta(description="The id of the last update that the client has, or `earliest`.")
    ] = msgspec.field(default="", name="lastEventID")
    authorization: Annotated[str, Meta(description="The token, in place of a header.")] = ""


class MercureForm(msgspec.Struct, frozen=True):
    """An update."""

    topic: Annotated[list[str], Meta(min_length=1, max_length=16)]
    data: str = ""
    private: str | None = None
    type: str = ""
    retry: str = ""
    id: str = ""


class ActiveSubscriptions(msgspec.Struct, frozen=True):
    """Active subscriptions as JSON-LD."""

    id: str
    type: str
    subscriptions: list[dict[str, Any]] = []


ROUTES = Routes(
    "/v1/hubs/{hub}/mercure",
    "Mercure",
    Access.HUB,
    (NotAuthenticated, NotPermitted, Unavailable),
    caller=anyone,
    any_query=True,
)


@ROUTES.serve(
    "POST", "", name="publishUpdate", body=MercureForm, content_type=FORM, answers={200: str},
    answer_type="text/plain", errors=(UnsupportedMediaType, TooLarge, QuotaExceeded),
    reads_itself=True,
)  # fmt: skip
async def publish_update(node: Node, request: HubRequest[msgspec.Struct]) -> None:
    """Publish an update; the answer is its id."""
    content_type = (request.request.header(b"content-type") or "").partition(";")[0]
    if content_type.strip().lower() != FORM:
        raise UnsupportedMediaType(f"the content type is {content_type[:60]!r}; send {FORM}")
    caller = _known(identify(node, request, "publish"))
    update = read_update(read_form(request.request.body))
    published = await node.feature(Mercure).publish(request.hub, caller, update)
    request.exchange.answer(200, published.encode(), TEXT_UTF8)


@ROUTES.serve(
    "GET", "", name="readUpdates", answers={200: str}, answer_type="text/event-stream",
    errors=(QuotaExceeded,), summary="Follow updates as server-sent events",
)  # fmt: skip
def read_updates(node: Node, request: HubRequest[StreamQuery]) -> None:
    """The stream begins with the updates that the client missed."""
    target, mercure, hub = request.target, node.feature(Mercure), request.hub
    selectors = target.all("topic")
    check_selectors(selectors)
    caller = identify(node, request, "subscribe")
    if caller is NOBODY:
        node.throttle.admit(hub.name, caller.identity, request.request.address)
        try:
            mercure.check_readable(hub, caller)
        except NotPermitted:
            raise _token_needed(hub.name) from None
    mercure.check_readable(hub, caller)
    last_event_id = request.request.header(b"last-event-id") or next(
        (value for name in _LAST_EVENT_ID if (value := target.first(name))), None
    )
    wanted, opened = Selectors(selectors), list[str]()

    def end() -> None:
        if opened:
            mercure.end(hub, opened.pop())

    def make(transport: asyncio.Transport, buffer_bytes: int) -> MercureConnection:
        return MercureConnection(transport, buffer_bytes, request.exchange.extra_headers, end)

    def begin(connection: MercureConnection, session: Session) -> None:
        opened.append(session.id)
        mercure.begin(session, caller, wanted)
        session.run(follow(node, connection, session, last_event_id))

    request.doors.begin_stream(request.request, request.exchange, hub, caller.identity, make, begin)


@ROUTES.serve(
    "GET", "/subscriptions", name="listActiveSubscriptions", answers={200: ActiveSubscriptions},
    answer_type=_JSON_LD, errors=(NotFound, TooLarge),
)  # fmt: skip
async def list_active(node: Node, request: HubRequest[msgspec.Struct]) -> None:
    """List the subscriptions of all streams."""
    await _answer_active(node, request, None, None)


@ROUTES.serve(
    "GET", "/subscriptions/{topic}", name="listActiveSubscriptionsOfTopic",
    answers={200: ActiveSubscriptions}, answer_type=_JSON_LD, errors=(NotFound, TooLarge),
    path_parameters={"topic": "A topic selector, percent-encoded."},
)  # fmt: skip
async def list_active_of_topic(node: Node, request: HubRequest[msgspec.Struct]) -> None:
    """List the subscriptions to one topic selector."""
    await _answer_active(node, request, request.path["topic"], None)


@ROUTES.serve(
    "GET", "/subscriptions/{topic}/{subscriber}", name="getActiveSubscription",
    answers={200: ActiveSubscriptions}, answer_type=_JSON_LD, errors=(NotFound, TooLarge),
    path_parameters={
        "topic": "A topic selector, percent-encoded.",
        "subscriber": "The id of a subscriber, percent-encoded.",
    },
)  # fmt: skip
async def get_active(node: Node, request: HubRequest[msgspec.Struct]) -> None:
    """Read one subscription."""
    await _answer_active(node, request, request.path["topic"], request.path["subscriber"])


async def _answer_active(
    node: Node, request: HubRequest[Any], topic: str | None, subscriber: str | None
) -> None:
    caller = _known(identify(node, request, "subscribe"))
    raw = request.request.url.partition(b"?")[0].decode("latin-1")
    url = _WELL_KNOWN + "/subscriptions" + raw.partition("/subscriptions")[2]
    found, last = await node.feature(Mercure).active(request.hub, caller, url, topic, subscriber)
    told: dict[str, Any]
    if subscriber is not None:
        told = {"@context": _CONTEXT, **found[0], "lastEventID": last}
    else:
        told = {
            "@context": _CONTEXT,
            "id": url,
            "type": "Subscriptions",
            "lastEventID": last,
            "subscriptions": found,
        }
    request.exchange.answer(200, msgspec.json.encode(told), _JSON_LD)


def _known(caller: MercureCaller) -> MercureCaller:
    """Raises `NotAuthenticated`."""
    if caller is NOBODY:
        raise NotAuthenticated(
            "send a token: 'Authorization: Bearer …', with the claim `mercure`, signed by one of "
            "the hub's mercureKeys"
        )
    return caller


def _token_needed(hub: str) -> NotAuthenticated:
    return NotAuthenticated(
        f"hub {hub!r} wants a token from subscribers, or does not exist; anonymous ones need "
        "allowAnonymous, and rules of mercure:log with public and allowAnonymous"
    )
