"""Bridges peers and the hub's own channels: messages to a peer are published on a channel, and
messages of a channel come in."""

from __future__ import annotations

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
    """A channel that stores. `reader` names the durable subscription; default: the adapter's
    name."""

    channel: Name
    reader: Name | None = None


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
            return await self._channels.take(self._channel, self._reader)
        except HubbubError as error:
            raise _failure(error) from None

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
