"""Pushes to the devices of one user, each with its outcome: for the adapter to devices."""

from __future__ import annotations

from hubbub.domain.push.options import PushOptions
from hubbub.engine.push.devices import Devices
from hubbub.engine.push.driver import PushDriver
from hubbub.ports.adapters import Pushed


class DevicesOfHub:
    """Implements `ports.adapters.Devices`."""

    def __init__(self, hub: str, devices: Devices, driver: PushDriver) -> None:
        self._hub = hub
        self._devices = devices
        self._driver = driver

    async def push(self, user_id: str, options: PushOptions, message_id: str) -> list[Pushed]:
        tokens = await self._devices.of(self._hub, [user_id])
        attempts = await self._driver.test(self._hub, tokens, options, message_id)
        return [Pushed(each.outcome, each.reason, each.retry_after_seconds) for each in attempts]
