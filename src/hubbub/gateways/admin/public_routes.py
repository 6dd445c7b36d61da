"""Routes that other parts of the listener serve, for the description: event streams and the pages
of the server."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.errors import (
    NotFound,
    NotPermitted,
)
from hubbub.domain.fields import Name
from hubbub.gateways import public_shapes as shapes
from hubbub.gateways.messages_api import FILTERING, FilterText, WhereText
from hubbub.gateways.routes import Access, Routes


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


LIVE_ROUTES = Routes("/v1/hubs/{hub}", "Messages", Access.HUB, (NotFound, NotPermitted))
LIVE_ROUTES.describe(
    "GET", "/events", "followEvents", "Follow channels as server-sent events", query=EventsQuery,
    answers={200: str}, answer_type="text/event-stream", errors=FILTERING,
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
