"""Threads over HTTP: the conversations of a channel, and the messages of one."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import NotFound, NotPermitted
from hubbub.domain.requests import History, Threads
from hubbub.domain.threads import DEFAULT_PAGE, MAX_PAGE, MAX_STATUS
from hubbub.engine.node import Node
from hubbub.gateways.calls import Digits, HubRequest, given, no_path
from hubbub.gateways.public_shapes import HistoryPage, ThreadsPage
from hubbub.gateways.routes import Access, Routes
from hubbub.protocols.json.http import page_json, threads_json


class ThreadsParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: Annotated[
        Digits, Meta(description="Threads whose first message has a greater serial.")
    ] = "0"
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE, description="Threads at most.")] = DEFAULT_PAGE
    status: (
        Annotated[
            str, Meta(min_length=1, max_length=MAX_STATUS, description="Only those in this status.")
        ]
        | UnsetType
    ) = UNSET

    def of(self, channel: str) -> Threads:
        after, status = int(self.after), given(self.status)
        return Threads(channel, after=after, limit=self.limit, status=status)


class ThreadQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: Annotated[Digits, Meta(description="Messages behind this serial.")] = "0"
    limit: Annotated[int, Meta(ge=0, le=10_000, description="Messages at most.")] = 0

    def of(self, channel: str, conversation: str) -> History:
        return History(
            channel, after=int(self.after), limit=self.limit, conversation_id=conversation
        )


THREAD_API = Routes("/v1/hubs/{hub}", "Messages", Access.HUB, (NotFound, NotPermitted))
_PATH = "/channels/{channel}/threads"


@THREAD_API.serve("GET", _PATH, answers={200: ThreadsPage})
async def list_threads(node: Node, request: HubRequest[ThreadsParameters]) -> bytes:
    """List the conversations of a channel that stores, in the order of their first messages."""
    query = request.query.of(request.path["channel"])
    return threads_json(await node.queries.threads_page(request.hub, request.identity, query))


@THREAD_API.serve("GET", f"{_PATH}/{{conversation}}", answers={200: HistoryPage})
async def read_thread(node: Node, request: HubRequest[ThreadQuery]) -> bytes:
    """Read the messages of a conversation, oldest first."""
    channel, conversation = request.path["channel"], request.path["conversation"]
    if not conversation:
        raise no_path(request.request)
    query = request.query.of(channel, conversation)
    return page_json(await node.queries.page(request.hub, request.identity, query))
