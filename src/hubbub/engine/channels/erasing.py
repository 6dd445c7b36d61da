"""What one user published to a channel: taken out of the store and of the owner's memory."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hubbub.domain.messages import ERASED_CONTENT_TYPE, ERASED_PAYLOAD, Message
from hubbub.domain.names import COMMUNICATION_LOG
from hubbub.domain.topics import ErasedMessages, EraseMessages
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.retained import RetainedMessages
from hubbub.ports.storage.messages import MessageStore

_AT_ONCE = 5_000
"""Serials that are looked through in one transaction."""


class Eraser:
    """Of one owner's channels. Serials, ids and times of messages stay, so that no subscriber sees
    a gap."""

    def __init__(
        self, store: MessageStore, terms: Mapping[int, int], retained: RetainedMessages
    ) -> None:
        self._store = store
        self._terms = terms
        self._retained = retained

    async def erase(self, channel: Channel, request: EraseMessages) -> ErasedMessages:
        """Raises `StaleOwner`, `StoreUnavailable`."""
        term = self._terms.get(channel.partition, 0)
        which = (channel.hub, channel.name, request.user_id, request.after)
        erased = await self._store.erase_messages(*which, _AT_ONCE, channel.partition, term)
        user = request.user_id
        if channel.history is not None:
            channel.history.replace(lambda message: _without(message, user))
        if channel.cursors is not None:
            channel.cursors.forget_messages()
        if channel.retained is not None and channel.retained.publisher == user:
            await self._retained.clear(channel)
        return erased


def _without(message: Message, user_id: str) -> Message:
    sent_to = message.attributes.receiver if message.attributes is not None else None
    is_received = message.channel == COMMUNICATION_LOG and sent_to == user_id
    if message.publisher != user_id and not is_received:
        return message
    return msgspec.structs.replace(
        message,
        publisher=None,
        attributes=None,
        content_type=ERASED_CONTENT_TYPE,
        payload=ERASED_PAYLOAD,
    )
