"""The state of a device's session, which may outlive its connection."""

from __future__ import annotations

import msgspec

from hubbub.domain.requests import Position
from hubbub.gateways.mqtt.options import DeviceFilters, FilterOptions
from hubbub.protocols.mqtt.window import DeliveryWindow


class UnreleasedMessage:
    """A QoS 2 message from the client between PUBLISH and PUBREL."""

    __slots__ = ("key", "of_this_connection", "received")

    def __init__(self, key: str | None, received: bool = False) -> None:
        self.key = key
        """The idempotency key under which it is published."""
        self.received = received
        """The hub has it."""
        self.of_this_connection = True


class _Encoded(msgspec.Struct, frozen=True, array_like=True):
    filters: dict[str, FilterOptions]
    places: tuple[Position, ...]
    received: tuple[int, ...]
    releasing: tuple[int, ...]
    saved_at: int


class DeviceState:
    def __init__(self, window: DeliveryWindow, saved_at: int = 0) -> None:
        self.filters = DeviceFilters()
        self.window = window
        self.incoming: dict[int, UnreleasedMessage] = {}
        self.places: dict[str, tuple[str, int]] = {}
        """By channel, the epoch and serial up to which messages were given to the window."""
        self.saved_at = saved_at
        """When the connection was last alive, in milliseconds since 1970."""

    @property
    def in_flight(self) -> int:
        unpublished = sum(not known.received for known in self.incoming.values())
        return self.window.in_flight + unpublished

    def encode(self) -> bytes:
        """Messages in flight are not part of it: what the device has not acknowledged is read again
        from the channel's history."""
        places = dict(self.places)
        for unit in self.window.unacknowledged():
            place = places.get(unit.channel)
            if place is not None and place[0] == unit.epoch and unit.serial:
                places[unit.channel] = unit.epoch, min(place[1], unit.serial - 1)
        return msgspec.msgpack.encode(
            _Encoded(
                self.filters.all(),
                tuple(Position(name, serial, epoch) for name, (epoch, serial) in places.items()),
                tuple(each for each, known in self.incoming.items() if known.received),
                self.window.releasing(),
                self.saved_at,
            )
        )

    @classmethod
    def decode(cls, data: bytes, window: DeliveryWindow) -> DeviceState:
        found = msgspec.msgpack.decode(data, type=_Encoded)
        state = cls(window, found.saved_at)
        for topic_filter, options in found.filters.items():
            state.filters.put(topic_filter, options)
        state.places = {each.channel: (each.epoch, each.serial) for each in found.places}
        state.incoming = {each: UnreleasedMessage(None, received=True) for each in found.received}
        window.release_again(found.releasing)
        return state
