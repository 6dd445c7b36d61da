"""Routes that other parts of the listener serve, for the description: the hub's own HTTP API and
the pages of the server."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hubbub.domain.errors import (
    InvalidPayload,
    NotFound,
    NotPermitted,
    QuotaExceeded,
    TooLarge,
    Unavailable,
    WrongChannelKind,
)
from hubbub.domain.fields import Name
from hubbub.gateways.admin import public_shapes as shapes
from hubbub.gateways.admin.routes import Access, AnyRoute, NoQuery, Route

_HUB = "/v1/hubs/{hub}"
_CHANNEL = f"{_HUB}/channels/{{channel}}"
_PUBLISHING = (
    NotFound, NotPermitted, InvalidPayload, TooLarge, WrongChannelKind, QuotaExceeded, Unavailable,
)  # fmt: skip

Number = Annotated[int, Meta(ge=0, le=10**17)]


class PublishQuery(msgspec.Struct, frozen=True):
    event: Annotated[
        str,
        Meta(
            max_length=255,
            description="What happened, in a word.",
            extra_json_schema={"pattern": "^[A-Za-z0-9._-]*$"},
        ),
    ] = ""
    store: Annotated[bool, Meta(description="Keep it, where the rules allow it.")] = False
    retain: Annotated[bool, Meta(description="Show it to each new subscriber.")] = False
    push: Annotated[bool, Meta(description="Also to push services.")] = False
    transient: Annotated[bool, Meta(description="Only for who is there now.")] = False


class HistoryQuery(msgspec.Struct, frozen=True, rename="camel"):
    after: Annotated[Number, Meta(description="Messages behind this serial.")] | None = None
    before: Annotated[Number, Meta(description="Messages before this serial.")] | None = None
    after_time: Annotated[Number, Meta(description="Messages after this time (ms).")] | None = None
    before_time: Annotated[Number, Meta(description="Messages before this time (ms).")] | None = (
        None
    )
    epoch: Annotated[str, Meta(max_length=64, description="In which the serial counts.")] = ""
    limit: Annotated[int, Meta(ge=0, le=10_000, description="Messages at most.")] = 0


class EventsQuery(msgspec.Struct, frozen=True):
    channel: Annotated[list[Name], Meta(min_length=1, description="What to follow.")]
    last_event_id: Annotated[
        str, Meta(description="Where to go on; also taken from the header Last-Event-ID.")
    ] = msgspec.field(default="", name="lastEventID")


def _page(
    path: str,
    operation_id: str,
    summary: str,
    answers: Any,
    kind: str,
    access: Access = Access.ANYONE,
) -> AnyRoute:
    return Route(
        method="GET", path=path, operation_id=operation_id, tag="Server", summary=summary,
        access=access, query=NoQuery, answers=answers, answer_type=kind,
    )  # fmt: skip


PUBLIC_ROUTES: list[AnyRoute] = [
    Route(
        method="POST", path=f"{_CHANNEL}/messages", operation_id="publish", tag="Messages",
        summary="Publish a message; the body is the payload", access=Access.HUB,
        query=PublishQuery, body=Any, content_type="*/*", answers={200: shapes.Published},
        errors=_PUBLISHING,
    ),
    Route(
        method="GET", path=f"{_CHANNEL}/messages", operation_id="readHistory", tag="Messages",
        summary="Read what was published; at most one of after, before, afterTime, beforeTime",
        access=Access.HUB, query=HistoryQuery, answers={200: shapes.HistoryPage},
        errors=(NotFound, NotPermitted),
    ),
    Route(
        method="GET", path=f"{_CHANNEL}/presence", operation_id="readPresence", tag="Messages",
        summary="See who is in a channel", access=Access.HUB, query=NoQuery,
        answers={200: shapes.PresenceList}, errors=(NotFound, NotPermitted),
    ),
    Route(
        method="POST", path=f"{_HUB}/messages", operation_id="publishBatch", tag="Messages",
        summary="Publish messages, with a result for each", access=Access.HUB, query=NoQuery,
        body=shapes.PublishBatch, answers={200: shapes.PublishResults}, errors=(NotFound,),
    ),
    Route(
        method="GET", path=f"{_HUB}/events", operation_id="followEvents", tag="Messages",
        summary="Follow channels as server-sent events", access=Access.HUB, query=EventsQuery,
        answers={200: str}, answer_type="text/event-stream", errors=(NotFound, NotPermitted),
    ),
    _page("/healthz", "getHealth", "Whether the process lives", {200: shapes.Health},
          "application/json"),
    _page("/readyz", "getReadiness", "Whether clients should come here",
          {200: shapes.Readiness, 503: shapes.Readiness}, "application/json"),
    _page("/metrics", "getMetrics", "Metrics for Prometheus; also with admin.metricsToken",
          {200: str}, "text/plain", Access.ADMIN),
]  # fmt: skip
