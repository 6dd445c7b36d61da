"""Bridges peers and the hub's own channels: messages to a peer are published on a channel, and
messages of a channel come in."""

from __future__ import annotations

import msgspec

from hubbub.domain.communication.messages import FieldText, NeededText, PeerMessage
from hubbub.domain.errors import HubbubError
from hubbub.domain.fields import Name
from hubbub.domain.rules import Setting
from hubbub.ports.adapters import (
    AdapterContext,
    AdapterFailed,
    Delivery,
    Pulled,
    TemporaryFailure,
    adapter,
)


class ChannelAdapterSettings(Setting, frozen=True):
    """The channel is the first parameter of the peer's address, or else this setting, or else the
    peer's own channel (`u:<peer>`)."""

    channel: Name | None = None


class ChannelPullSettings(Setting, frozen=True):
    """A channel that stores. `reader` names the durable subscription; default: the adapter's name.
    A message of the channel without a subtype is an ordinary one, which no peer sent."""

    channel: Name
    reader: Name | None = None
    type: FieldText = ""
    """The type of ordinary messages; default: their event, or `MESSAGE`."""
    subtype: NeededText = "TEXT"
    """The subtype of ordinary messages."""
    receiver: FieldText = ""
    """The receiver of messages that name none."""


@adapter(name="channel", settings=ChannelAdapterSettings)
class ChannelOut:
    def __init__(self, settings: ChannelAdapterSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context

    async def push(self, delivery: Delivery) -> None:
        named = next(iter(delivery.address.parameters), None) or self._settings.channel
        channel = named or f"u:{delivery.peer}"
        try:
            await self._context.channels.publish(channel, delivery.message, delivery.key)
        except HubbubError as error:
            raise _failure(error) from None

    async def close(self) -> None:
        pass


@adapter(name="channel-in", settings=ChannelPullSettings, direction="pull")
class ChannelIn:
    def __init__(self, settings: ChannelPullSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._channel = settings.channel
        self._reader = settings.reader or context.name
        self._channels = context.channels

    async def begin(self) -> None:
        try:
            await self._channels.follow(self._channel, self._reader)
        except HubbubError as error:
            raise _failure(error) from None

    async def pull(self) -> Pulled | None:
        try:
            pulled = await self._channels.take(self._channel, self._reader)
        except HubbubError as error:
            raise _failure(error) from None
        if pulled is None:
            return None
        return msgspec.structs.replace(pulled, message=self._complete(pulled.message))

    def _complete(self, message: PeerMessage) -> PeerMessage:
        settings = self._settings
        if not message.subtype:
            kind = settings.type or message.type or "MESSAGE"
            message = msgspec.structs.replace(message, type=kind, subtype=settings.subtype)
        return msgspec.structs.replace(message, receiver=message.receiver or settings.receiver)

    async def settle(self, receipt: object) -> None:
        try:
            await self._channels.acknowledge(self._channel, self._reader, receipt)
        except HubbubError as error:
            raise _failure(error) from None

    async def close(self) -> None:
        pass


def _failure(error: HubbubError) -> Exception:
    if error.retry:
        return TemporaryFailure(error.message, error.retry_after or 0.0)
    return AdapterFailed(error.message)
