"""Publishing over NATS, for services: messages in protobuf, a result per message."""

from __future__ import annotations

import msgspec

from hubbub.domain.errors import HubbubError, NotAuthenticated, NotPermitted
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import PublishItem
from hubbub.engine.administration import Administration
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.checks import check_batch
from hubbub.protocols.protobuf.events import read_item
from hubbub.protocols.protobuf.fast import result_proto

OVER_NATS = "nats"
"""Replaces the client address, which NATS does not provide: all callers over NATS share its
limits."""

_NATS = "nats"


class NatsPublisher:
    def __init__(self, administration: Administration) -> None:
        self._live = administration.live
        self._node = administration.node

    async def publish(self, request: pb.AdminPublishRequest) -> pb.AdminReply:
        """Raises errors of the whole request; an error of one message is its result."""
        identity = await self._caller(request)
        check_batch("publish", len(request.publishes))
        items = [_item(proto) for proto in request.publishes]
        results = await self._live.publish(identity, request.hub_id, items, _NATS)
        return pb.AdminReply(
            ack=True,
            published=[
                result_proto(msgspec.structs.replace(result, req_id=proto.req_id))
                for result, proto in zip(results, request.publishes, strict=True)
            ],
        )

    async def _caller(self, request: pb.AdminPublishRequest) -> Identity:
        if not request.token:
            raise NotAuthenticated("this needs a token, in the field `token`")
        hub = request.hub_id
        identity = await self._node.credentials.verify_fetching(request.token, hub, OVER_NATS)
        if not identity.trusted:
            raise NotPermitted("this is for the level service; the token has client")
        self._node.throttle.admit(hub, identity, OVER_NATS, max(1, len(request.publishes)))
        return identity


def _item(proto: pb.PubRequestInfo) -> PublishItem | HubbubError:
    try:
        return read_item(proto)
    except HubbubError as error:
        return error
