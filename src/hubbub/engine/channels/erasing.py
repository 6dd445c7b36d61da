"""Erases a user's published messages from the store and from the owner's memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

import msgspec

from hubbub.domain.errors import StaleOwner
from hubbub.domain.messages import ERASED_CONTENT_TYPE, ERASED_PAYLOAD, Message
from hubbub.domain.names import COMMUNICATION_LOG
from hubbub.domain.topics import ErasedMessages, EraseMessages
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.retained import RetainedMessages
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.channels.terms import Terms
from hubbub.engine.rooms import implementing
from hubbub.ports.storage.messages import MessageStore

_AT_ONCE = 5_000
"""Serials examined in one transaction."""
_CHANNELS_OF_A_TURN = 32


class Eraser(OwnerRoom):
    """Erases in the channels of one owner. Serials, ids and times of messages remain, so that no
    subscriber sees a gap."""

    def __init__(
        self,
        store: MessageStore,
        terms: Terms,
        retained: RetainedMessages,
        channels: Mapping[tuple[str, str], Channel],
        rooms: Sequence[OwnerRoom],
    ) -> None:
        """`channels` are those that are open; the `rooms` hear of each whose messages changed in
        the store."""
        self._store = store
        self._terms = terms
        self._retained = retained
        self._channels = channels
        self._erased = implementing(rooms, OwnerRoom.messages_erased)
        self.channel_requests = {EraseMessages: self._erase}

    async def _erase(self, channel: Channel, request: EraseMessages) -> ErasedMessages:
        """Raises `StaleOwner`, `StoreUnavailable`."""
        which = (channel.hub, channel.name, request.user_id, request.after)
        under = (channel.partition, self._terms.of(channel))
        erased = await self._store.erase_messages(*which, _AT_ONCE, *under)
        for messages_erased in self._erased:
            messages_erased(channel.hub, channel.name)
        retained = await self._forget(channel, request.user_id)
        return msgspec.structs.replace(erased, retained=retained)

    async def user_erased(self, hub: str, user_id: str) -> None:
        """Runs in slices. Raises `StoreUnavailable`."""
        channels = [channel for channel in self._channels.values() if channel.hub == hub]
        for at, channel in enumerate(channels):
            with contextlib.suppress(StaleOwner):  # its new owner has forgotten the user, too
                await self._forget(channel, user_id)
            if not at % _CHANNELS_OF_A_TURN:
                await asyncio.sleep(0)

    async def _forget(self, channel: Channel, user_id: str) -> int:
        """Returns the number of erased retained messages: 1 or 0."""
        if channel.history is not None:
            channel.history.replace(lambda message: _without(message, user_id))
        if channel.retained is None or channel.retained.publisher != user_id:
            return 0
        await self._retained.clear(channel)
        return 1


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
