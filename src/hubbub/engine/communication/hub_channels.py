"""Access to a hub's channels for the adapter that connects peers to them."""

from __future__ import annotations

import msgspec

from hubbub.domain.communication.contents import media_type_header, payload_of
from hubbub.domain.communication.following import ORIGINAL, fit
from hubbub.domain.communication.messages import MAX_TTL_MS, PeerMessage
from hubbub.domain.errors import NotSubscribed, TopicNotFound
from hubbub.domain.messages import Message
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.requests import PublishItem, TopicAck, TopicGet, TopicSubscribe
from hubbub.engine.communication.log_messages import from_logged, to_logged
from hubbub.engine.node import Node
from hubbub.engine.topics.service import Topics
from hubbub.ports.adapters import Pulled

_HUB_ITSELF = Identity(level=Level.SERVICE)


class ChannelsOfHub:
    """Implements `ports.adapters.HubChannels`."""

    def __init__(self, node: Node, hub: str) -> None:
        self._node = node
        self._topics = node.feature(Topics)
        self._hub = hub

    async def publish(self, channel: str, message: PeerMessage, key: str) -> None:
        hub = self._node.hub(self._hub)
        headers = {**message.headers, ORIGINAL: message.id}
        copy = msgspec.structs.replace(message, headers=headers)
        item = PublishItem(
            channel,
            message.type,
            *payload_of(message.content),
            store=hub.rules_for(channel).store,
            attributes=to_logged(self._hub, copy, 0, "").attributes,
            idempotency_key=key,
        )
        _, outcome = await self._node.publisher.settle(hub, _HUB_ITSELF, item, "communication")
        if outcome.error is not None:
            raise outcome.error

    async def follow(self, channel: str, reader: str) -> None:
        wanted = TopicSubscribe(channel, reader)
        await self._topics.subscribe(self._node.hub(self._hub), _HUB_ITSELF, wanted)

    async def take(self, channel: str, reader: str) -> Pulled | None:
        hub, topics = self._node.hub(self._hub), self._topics
        try:
            found = await topics.get(hub, _HUB_ITSELF, TopicGet(channel, reader))
        except (NotSubscribed, TopicNotFound):
            await self.follow(channel, reader)
            return None
        for article in found.messages:
            return Pulled(_read(article.message), article.message.serial)
        return None

    async def acknowledge(self, channel: str, reader: str, receipt: object) -> None:
        assert isinstance(receipt, int)
        done = TopicAck(channel, reader, up_to=receipt)
        await self._topics.acknowledge(self._node.hub(self._hub), _HUB_ITSELF, done)


def _read(message: Message) -> PeerMessage:
    """Fields of channel messages may be longer than those of peer messages."""
    read = from_logged(message)
    return msgspec.structs.replace(
        read,
        type=fit(read.type),
        subtype=fit(read.subtype),
        sender=fit(read.sender or message.publisher or ""),
        receiver=fit(read.receiver),
        conversation_id=fit(read.conversation_id),
        language=fit(read.language),
        refers_to=fit(read.refers_to),
        headers={**read.headers, **media_type_header(message)},
        ttl_ms=min(max(read.ttl_ms, 0), MAX_TTL_MS),
    )
