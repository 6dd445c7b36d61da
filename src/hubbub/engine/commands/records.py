"""Records of channels with an owner: reads them on demand and checks them."""

from __future__ import annotations

from hubbub.domain.commands.jids import channel_id
from hubbub.domain.commands.objects import HChannel
from hubbub.domain.commands.status import not_authorized, not_available
from hubbub.domain.rules import Binding
from hubbub.engine.commands.asking import Asker
from hubbub.engine.hub import Hub
from hubbub.ports.storage.commands import CommandStore

_CACHED = 4096


class ChannelRecords:
    """Channel records of one node's hubs."""

    def __init__(self, store: CommandStore) -> None:
        self._store = store
        self._cache: dict[tuple[str, str], tuple[Binding, HChannel]] = {}
        """An entry is valid while the directory holds the same binding."""

    def existing(self, hub: Hub, channel: str) -> Binding:
        """The record of a channel. Raises `CommandRefused` (9)."""
        binding = hub.configuration.bindings.get(channel)
        if binding is None:
            raise not_available(f"there is no channel {channel_id(channel, hub.name)}")
        return binding

    def check(self, asker: Asker, channel: str) -> Binding:
        """Raises `CommandRefused` if the channel does not exist (9), is inactive (5), or the sender
        is no participant (5)."""
        binding = self.existing(asker.hub, channel)
        check_active(binding, channel)
        check_participant(binding, asker, channel)
        return binding

    async def read(self, hub: Hub, channel: str) -> HChannel | None:
        """The whole record; None if the channel has no owner."""
        binding = hub.configuration.bindings.get(channel)
        if binding is None:
            return None
        key = hub.name, channel
        known = self._cache.get(key)
        if known is not None and known[0] is binding:
            return known[1]
        record = await self._store.read_channel_record(hub.name, channel)
        if record is not None:
            if len(self._cache) >= _CACHED:
                self._cache.clear()
            self._cache[key] = binding, record
        return record


def check_active(binding: Binding, channel: str) -> None:
    if not binding.active:
        raise not_authorized(f"the channel {channel!r} is inactive")


def check_participant(binding: Binding, asker: Asker, channel: str) -> None:
    if not binding.admits(asker.user_id):
        raise not_authorized(f"{asker.jid.bare} is no participant of the channel {channel!r}")
