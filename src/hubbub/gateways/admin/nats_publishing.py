"""Publishing over NATS, for services: messages in protobuf, a result for each."""

from __future__ import annotations

import asyncio

from hubbub.domain.errors import BadRequest, HubbubError, NotAuthenticated, NotPermitted
from hubbub.domain.notices import PublishResult
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.requests import PublishItem
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.ports.bus import PublishOutcome
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.checks import check_batch
from hubbub.protocols.protobuf.events import read_item
from hubbub.protocols.protobuf.fast import result_proto

OVER_NATS = "nats"
"""In place of an address, which NATS does not tell: all callers there share its limits."""

_NATS = "nats"


class NatsPublisher:
    def __init__(self, node: Node) -> None:
        self._node = node

    async def publish(self, request: pb.AdminPublishRequest) -> pb.AdminReply:
        """Raises what speaks against all of it; what speaks against one message is its result."""
        hub, identity = await self._caller(request)
        check_batch("publish", len(request.publishes))
        if not request.publishes:
            raise BadRequest("`publishes` is empty; give at least one message")
        results = await asyncio.gather(
            *(self._publish(hub, identity, proto) for proto in request.publishes)
        )
        return pb.AdminReply(ack=True, published=results)

    async def _caller(self, request: pb.AdminPublishRequest) -> tuple[Hub, Identity]:
        if not request.token:
            raise NotAuthenticated("this needs a token, in the field `token`")
        name = request.hub_id
        identity = await self._node.credentials.verify_fetching(request.token, name, OVER_NATS)
        if identity.level is Level.CLIENT:
            raise NotPermitted("this is for the level service; the token has client")
        self._node.throttle.admit(name, identity, OVER_NATS, max(1, len(request.publishes)))
        return self._node.hub(name), identity

    async def _publish(self, hub: Hub, identity: Identity, proto: pb.PubRequestInfo) -> pb.Response:
        try:
            message_id, outcome = await self._settle(hub, identity, read_item(proto))
            if outcome.error is not None:
                raise outcome.error
        except HubbubError as error:
            return result_proto(PublishResult(proto.req_id, error=error))
        known = outcome.message_id if outcome.duplicate else message_id
        return result_proto(
            PublishResult(proto.req_id, known, outcome.serial, duplicate=outcome.duplicate)
        )

    async def _settle(
        self, hub: Hub, identity: Identity, item: PublishItem
    ) -> tuple[str, PublishOutcome]:
        done: asyncio.Future[PublishOutcome] = asyncio.get_running_loop().create_future()

        def conclude(outcome: PublishOutcome) -> None:
            if not done.done():
                done.set_result(outcome)

        message_id = self._node.publisher.publish(hub, identity, item, conclude, _NATS)
        return message_id, await done
