"""Plain webhooks: made, listed, looked at and ended under `/v1/hubs/{hub}/webhooks`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.errors import NotSubscribed
from hubbub.domain.permissions import Identity
from hubbub.domain.topics import principal_of
from hubbub.domain.webhooks import Webhook
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.calls import HubRequest, NoQuery, no_path
from hubbub.gateways.exchange import Exchange
from hubbub.protocols.json import webhooks as bodies

LARGEST_PAGE = 1000


class WebhooksQuery(msgspec.Struct, frozen=True):
    after: Annotated[str, Meta(description="Those behind this id.")] = ""
    limit: Annotated[int, Meta(ge=1, le=LARGEST_PAGE, description="Webhooks at most.")] = 100


class WebhooksApi:
    """Services and administrators reach all webhooks of their hub, others their own."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def handle(self, call: HubRequest, exchange: Exchange, path: tuple[str, ...]) -> None:
        """`path` is what stands behind `/webhooks`. Raises `NotFound`, `MethodNotAllowed`."""
        method = call.request.method
        match path:
            case () if method == b"POST":
                work = self._create(call, exchange)
            case ():
                call.expect(b"GET", b"POST")
                work = self._list(call, exchange)
            case (webhook,) if method == b"DELETE":
                work = self._delete(call, exchange, webhook)
            case (webhook,):
                call.expect(b"GET", b"DELETE")
                work = self._show(call, exchange, webhook)
            case (webhook, "replay"):
                call.expect(b"POST")
                work = self._replay(call, exchange, webhook)
            case _:
                raise no_path(call.request)
        exchange.complete(work)

    async def _create(self, call: HubRequest, exchange: Exchange) -> None:
        call.query(NoQuery)
        wanted, start = bodies.read_order(call.request.body)
        webhook = await self._node.webhooks.subscribe(call.hub, call.identity, wanted, start)
        exchange.answer(201, bodies.webhook_json(webhook))

    async def _list(self, call: HubRequest, exchange: Exchange) -> None:
        query = call.query(WebhooksQuery)
        limit, after = query.limit, query.after
        found: list[Webhook] = []
        more = True
        while more and len(found) < limit:
            page = await self._node.webhooks.list(call.hub, after, LARGEST_PAGE)
            more = len(page) == LARGEST_PAGE
            after = page[-1].id if page else after
            found += [each for each in page if _reaches(call.identity, each)]
        more = more or len(found) > limit
        found = found[:limit]
        exchange.answer_json(bodies.webhooks_json(found, found[-1].id if more else None))

    async def _show(self, call: HubRequest, exchange: Exchange, webhook: str) -> None:
        call.query(NoQuery)
        found = await self._find(call.hub, call.identity, webhook)
        status = await self._node.webhooks.describe(call.hub, webhook)
        exchange.answer_json(bodies.webhook_json(found, status))

    async def _delete(self, call: HubRequest, exchange: Exchange, webhook: str) -> None:
        """One's own also without the permission by now: it is the way to stop it."""
        call.query(NoQuery)
        await self._node.webhooks.end(await self._find(call.hub, call.identity, webhook))
        exchange.answer(204, b"")

    async def _replay(self, call: HubRequest, exchange: Exchange, webhook: str) -> None:
        call.query(NoQuery)
        await self._find(call.hub, call.identity, webhook)
        delivered, failed = await self._node.webhooks.replay(call.hub, webhook)
        exchange.answer_json(bodies.replayed_json(delivered, failed))

    async def _find(self, hub: Hub, identity: Identity, webhook: str) -> Webhook:
        """Raises `NotSubscribed`, also for those of others: nobody learns what they have."""
        found = await self._node.webhooks.find(hub, webhook)
        if not _reaches(identity, found):
            raise NotSubscribed(f"hub {hub.name!r} has no webhook {webhook[:64]!r} of yours")
        return found


def _reaches(identity: Identity, webhook: Webhook) -> bool:
    return identity.trusted or webhook.owner == principal_of(identity)
