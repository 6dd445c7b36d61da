"""Pushes to the devices of one user, with an outcome for each; used by the device adapter."""

from __future__ import annotations

from hubbub.domain.push.options import PushOptions
from hubbub.engine.push.devices import PushDevices
from hubbub.engine.push.pusher import Pusher
from hubbub.ports.adapters import Pushed


class DevicesOfHub:
    """Implements `ports.adapters.Devices`."""

    def __init__(self, hub: str, devices: PushDevices, driver: Pusher) -> None:
        self._hub = hub
        self._devices = devices
        self._driver = driver

    async def push(self, user_id: str, options: PushOptions, message_id: str) -> list[Pushed]:
        tokens = await self._devices.of(self._hub, [user_id])
        attempts = await self._driver.test(self._hub, tokens, options, message_id)
        return [Pushed(each.outcome, each.reason, each.retry_after_seconds) for each in attempts]
