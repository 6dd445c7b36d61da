"""Routes that other parts of the listener serve, for the description: the hub's own HTTP API and
the pages of the server."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hubbub.domain.errors import (
    IncompleteFilter,
    InvalidAttribute,
    InvalidFilter,
    InvalidPayload,
    NotFound,
    NotPermitted,
    QuotaExceeded,
    TooLarge,
    TooManyFilters,
    Unavailable,
    WrongChannelKind,
)
from hubbub.domain.fields import Name
from hubbub.gateways.admin import public_shapes as shapes
from hubbub.gateways.admin.routes import Access, Routes
from hubbub.gateways.calls import EventName
from hubbub.gateways.threads_api import ThreadQuery, ThreadsQuery

_MESSAGES = "/channels/{channel}/messages"
_THREADS = "/channels/{channel}/threads"
_PUBLISHING = (
    NotFound, NotPermitted, InvalidPayload, TooLarge, WrongChannelKind, QuotaExceeded, Unavailable,
)  # fmt: skip
_FILTERING = (IncompleteFilter, InvalidFilter, TooManyFilters)

Number = Annotated[int, Meta(ge=0, le=10**17)]


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


class HistoryQuery(msgspec.Struct, frozen=True, rename="camel"):
    after: Annotated[Number, Meta(description="Messages behind this serial.")] | None = None
    before: Annotated[Number, Meta(description="Messages before this serial.")] | None = None
    after_time: Annotated[Number, Meta(description="Messages after this time (ms).")] | None = None
    before_time: Annotated[Number, Meta(description="Messages before this time (ms).")] | None = (
        None
    )
    epoch: Annotated[str, Meta(max_length=64, description="In which the serial counts.")] = ""
    limit: Annotated[int, Meta(ge=0, le=10_000, description="Messages at most.")] = 0
    filter: FilterText = ""
    where: WhereText = ""


class EventsQuery(msgspec.Struct, frozen=True):
    channel: Annotated[list[Name], Meta(min_length=1, description="What to follow.")]
    empty: Annotated[bool, Meta(description="A stream without a channel is wanted.")] = False
    filter: FilterText = ""
    where: WhereText = ""
    last_event_id: Annotated[
        str, Meta(description="Where to go on; also taken from the header Last-Event-ID.")
    ] = msgspec.field(default="", name="lastEventID")
    channel_token: Annotated[
        list[str],
        Meta(description="A token for each channel, in their order; an empty one for none."),
    ] = []
    presence: Annotated[
        str,
        Meta(
            description="What presence shows of the stream: a JSON object.",
            extra_json_schema={"pattern": r"^\{.*\}$"},
        ),
    ] = ""


PUBLIC_ROUTES = Routes("/v1/hubs/{hub}", "Messages", Access.HUB, (NotFound, NotPermitted))
PUBLIC_ROUTES.describe(
    "POST", _MESSAGES, "publish", "Publish a message; the body is the payload",
    query=PublishQuery, headers=shapes.PUBLISH_HEADERS, body=Any, content_type="*/*",
    answers={200: shapes.Published}, errors=(*_PUBLISHING, InvalidAttribute),
)  # fmt: skip
PUBLIC_ROUTES.describe(
    "GET", _MESSAGES, "readHistory",
    "Read what was published; at most one of after, before, afterTime, beforeTime",
    query=HistoryQuery, answers={200: shapes.HistoryPage}, errors=_FILTERING,
)  # fmt: skip
PUBLIC_ROUTES.describe(
    "GET", "/channels/{channel}/content", "readContent",
    "Read the newest message that is kept, as receivers of webhooks get it",
    answers={200: Any}, answer_type="*/*",
)  # fmt: skip
PUBLIC_ROUTES.describe(
    "GET", _THREADS, "listThreads",
    "List the conversations of a channel that stores, in the order of their first messages",
    query=ThreadsQuery, answers={200: shapes.ThreadsPage},
)  # fmt: skip
PUBLIC_ROUTES.describe(
    "GET", f"{_THREADS}/{{conversation}}", "readThread",
    "Read the messages of a conversation, oldest first",
    query=ThreadQuery, answers={200: shapes.HistoryPage},
)  # fmt: skip
PUBLIC_ROUTES.describe(
    "GET", "/channels/{channel}/presence", "readPresence", "See who is in a channel",
    answers={200: shapes.PresenceList},
)  # fmt: skip
PUBLIC_ROUTES.describe(
    "POST", "/messages", "publishBatch", "Publish messages, with a result for each",
    body=shapes.PublishBatch, answers={200: shapes.PublishResults}, errors=(NotFound,),
)  # fmt: skip
PUBLIC_ROUTES.describe(
    "GET", "/events", "followEvents", "Follow channels as server-sent events", query=EventsQuery,
    answers={200: str}, answer_type="text/event-stream", errors=_FILTERING,
)  # fmt: skip

SERVER_ROUTES = Routes("", "Server", Access.ANYONE)
SERVER_ROUTES.describe(
    "GET", "/healthz", "getHealth", "Whether the process lives", answers={200: shapes.Health}
)
SERVER_ROUTES.describe(
    "GET", "/readyz", "getReadiness", "Whether clients should come here",
    answers={200: shapes.Readiness, 503: shapes.Readiness},
)  # fmt: skip
SERVER_ROUTES.describe(
    "GET", "/metrics", "getMetrics", "Metrics for Prometheus; also with admin.metricsToken",
    answers={200: str}, answer_type="text/plain", access=Access.ADMIN,
)  # fmt: skip
