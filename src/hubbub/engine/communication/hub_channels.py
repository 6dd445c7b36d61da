"""The channels of a hub, for the adapter that connects peers to them."""

from __future__ import annotations

import msgspec

from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.errors import NotSubscribed
from hubbub.domain.messages import TEXT
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.requests import PublishItem, TopicAck, TopicGet, TopicSubscribe
from hubbub.engine.communication.logging import from_logged, to_logged
from hubbub.engine.node import Node
from hubbub.ports.adapters import Pulled

_HUB_ITSELF = Identity(level=Level.SERVICE)


class ChannelsOfHub:
    """Implements `ports.adapters.HubChannels`."""

    def __init__(self, node: Node, hub: str) -> None:
        self._node = node
        self._hub = hub

    async def publish(self, channel: str, message: PeerMessage, key: str) -> None:
        hub = self._node.hub(self._hub)
        item = PublishItem(
            channel,
            message.type,
            message.content.encode(),
            TEXT,
            store=hub.rules_for(channel).store,
            attributes=to_logged(self._hub, message, 0, "").attributes,
            idempotency_key=key,
        )
        _, outcome = await self._node.publisher.settle(hub, _HUB_ITSELF, item, "communication")
        if outcome.error is not None:
            raise outcome.error

    async def take(self, channel: str, reader: str) -> Pulled | None:
        hub, topics = self._node.hub(self._hub), self._node.topics
        try:
            found = await topics.get(hub, _HUB_ITSELF, TopicGet(channel, reader))
        except NotSubscribed:
            await topics.subscribe(hub, _HUB_ITSELF, TopicSubscribe(channel, reader))
            return None
        for article in found.messages:
            message = article.message
            read = from_logged(message)
            sender = read.sender or message.publisher or ""
            return Pulled(msgspec.structs.replace(read, sender=sender), message.serial)
        return None

    async def acknowledge(self, channel: str, reader: str, receipt: object) -> None:
        assert isinstance(receipt, int)
        done = TopicAck(channel, reader, up_to=receipt)
        await self._node.topics.acknowledge(self._node.hub(self._hub), _HUB_ITSELF, done)
