"""Search over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import (
    BadRequest,
    NotFound,
    NotPermitted,
    Overloaded,
    Timeout,
    TooManyChannels,
)
from hubbub.domain.search import DEFAULT_HITS, MAX_HITS, MAX_QUERY, Search
from hubbub.engine.node import Node
from hubbub.engine.search.service import SearchService
from hubbub.gateways.calls import HubRequest, given
from hubbub.gateways.filters import filters_of
from hubbub.gateways.messages_api import FILTERING, FilterText, WhereText
from hubbub.gateways.public_shapes import SearchPage
from hubbub.gateways.routes import Access, Routes
from hubbub.protocols.json.http import search_json

_Time = Annotated[int, Meta(ge=0, le=10**17)]


class SearchParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    q: Annotated[
        str,
        Meta(
            description="Words that must all occur; those in quotation marks must follow each "
            "other.",
            extra_json_schema={"minLength": 1, "maxLength": MAX_QUERY},
        ),
    ]
    channel: (
        Annotated[str, Meta(description="Only in this channel, or in those of a pattern.")]
        | UnsetType
    ) = UNSET
    since: Annotated[_Time, Meta(description="Not before this time (ms).")] | UnsetType = UNSET
    until: Annotated[_Time, Meta(description="Not after this time (ms).")] | UnsetType = UNSET
    filter: FilterText = ""
    where: WhereText = ""
    order: Annotated[
        Literal["rank", "time"], Meta(description="The best first, or the newest first.")
    ] = "rank"
    limit: Annotated[int, Meta(ge=1, le=MAX_HITS, description="Hits at most.")] = DEFAULT_HITS
    cursor: Annotated[str, Meta(description="`cursor` of the page before.")] | UnsetType = UNSET

    def search(self) -> Search:
        return Search(
            self.q,
            channel=given(self.channel),
            since=given(self.since),
            until=given(self.until),
            order=self.order,
            limit=self.limit,
            cursor=given(self.cursor),
        )


_ERRORS = (BadRequest, NotFound, NotPermitted, Overloaded, Timeout, TooManyChannels, *FILTERING)
ROUTES = Routes("/v1/hubs/{hub}", "Messages", Access.HUB, _ERRORS)


@ROUTES.serve("GET", "/search", answers={200: SearchPage})
async def search(node: Node, request: HubRequest[SearchParameters]) -> bytes:
    """Search the stored messages of all channels that the caller may read."""
    filters = filters_of(request.target)
    found = node.feature(SearchService).page(
        request.hub, request.identity, request.query.search(), filters
    )
    return search_json(await request.doors.wait_for(found))
