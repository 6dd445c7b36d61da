"""The parts of an owner from which its rooms are constructed."""

from __future__ import annotations

from collections.abc import Callable

from hubbub.engine.channels.announcements import Announcements
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.producers import Producers
from hubbub.engine.channels.stored_bytes import StoredBytes
from hubbub.engine.channels.terms import Terms
from hubbub.engine.directory import ConfigurationOf
from hubbub.engine.limits import EngineLimits
from hubbub.ports.bus import OwnerBus
from hubbub.ports.clock import Clock
from hubbub.ports.storage import Store

ChannelQuota = Callable[[str, int], int]
"""How many channels of a hub with this quota may be open on this node."""


class OwnerParts:
    """The parts of one owner that know no room. The wiring makes the rooms from them, and the
    `ChannelOwner` from them and the rooms."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        configuration_of: ConfigurationOf,
        limits: EngineLimits,
        quota: ChannelQuota,
        bus: OwnerBus,
    ) -> None:
        self.store = store
        self.clock = clock
        self.configuration_of = configuration_of
        self.limits = limits
        self.quota = quota
        self.bus = bus
        self.terms = Terms()
        self.channels: dict[tuple[str, str], Channel] = {}
        """The open ones, by hub and name."""
        self.announcements = Announcements(bus.emit)
        self.stored_bytes = StoredBytes(store, configuration_of)
        store.bound_by(self.stored_bytes.quota_of)
        self.producers = Producers(store, self.terms, self.channels)
