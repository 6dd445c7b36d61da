"""Threads over HTTP: the conversations of a channel, and the messages of one."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.requests import History, Threads
from hubbub.domain.threads import DEFAULT_PAGE, MAX_PAGE, MAX_STATUS
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.calls import Digits, HubRequest, given, no_path
from hubbub.gateways.credentials import require_identity
from hubbub.gateways.exchange import Exchange
from hubbub.gateways.http import Request, Target
from hubbub.protocols.json.http import page_json, threads_json


class ThreadsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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


class ThreadsApi:
    """The paths /v1/hubs/{hub}/channels/{channel}/threads and …/threads/{conversation}."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def handle(
        self, request: Request, target: Target, exchange: Exchange, hub: Hub, channel: str
    ) -> None:
        """Raises `NotFound` for paths that are not here."""
        call = HubRequest(hub, require_identity(request, target, hub, self._node), request, target)
        call.expect(b"GET", b"HEAD")
        match target.segments[6:]:
            case ():
                exchange.run(self._threads(call, channel))
            case (conversation,) if conversation:
                exchange.run(self._thread(call, channel, conversation))
            case _:
                raise no_path(request)

    async def _threads(self, call: HubRequest, channel: str) -> bytes:
        query = call.query(ThreadsQuery).of(channel)
        page = await self._node.queries.threads_page(call.hub, call.identity, query)
        return threads_json(page)

    async def _thread(self, call: HubRequest, channel: str, conversation: str) -> bytes:
        query = call.query(ThreadQuery).of(channel, conversation)
        return page_json(await self._node.queries.page(call.hub, call.identity, query))
