"""The connected devices of a node. A client id has at most one connection."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from hubbub.engine.mqtt.requests import DeviceConnected
from hubbub.engine.rooms import Room
from hubbub.ports.bus import Bus


class DeviceKey(NamedTuple):
    """Two users with the same client id are two devices."""

    hub: str
    user_id: str | None
    client_id: str


class Device(Protocol):
    def taken_over(self) -> None:
        """Another connection of the same device begins: ends this one."""


class ConnectedDevices(Room):
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._devices: dict[DeviceKey, Device] = {}
        self.node_requests = {DeviceConnected: self._connected_elsewhere}

    def __len__(self) -> int:
        return len(self._devices)

    def enter(self, key: DeviceKey, device: Device) -> None:
        """Ends the device's earlier connection, on this node or another."""
        self._take_over(key)
        self._devices[key] = device
        self._bus.send(DeviceConnected(key.hub, key.user_id, key.client_id))

    def leave(self, key: DeviceKey, device: Device) -> None:
        """Does nothing if another connection has taken over."""
        if self._devices.get(key) is device:
            del self._devices[key]

    def _take_over(self, key: DeviceKey) -> None:
        earlier = self._devices.pop(key, None)
        if earlier is not None:
            earlier.taken_over()

    async def _connected_elsewhere(self, _: str, told: DeviceConnected) -> None:
        self._take_over(DeviceKey(told.hub, told.user_id, told.client_id))
