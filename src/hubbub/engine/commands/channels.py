"""Commands that create, replace and list channels, subscribe and unsubscribe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import UNSET

from hubbub.domain.commands.attributes import read_text
from hubbub.domain.commands.jids import HUB_USER, channel_id, parse_channel
from hubbub.domain.commands.objects import HChannel, read_channel, write_channel
from hubbub.domain.commands.routed import UserFollows
from hubbub.domain.commands.status import CommandRefused, Status, invalid, not_authorized
from hubbub.domain.limits import share_of
from hubbub.domain.permissions import Level, granted
from hubbub.domain.rules import Binding
from hubbub.engine.commands.asking import Asker
from hubbub.engine.commands.history import ANSWER_BYTES
from hubbub.engine.commands.parameters import channel_in, required_object, valid_object
from hubbub.engine.commands.records import ChannelRecords, check_active
from hubbub.engine.directory import Directory
from hubbub.engine.storing.hooks import StoringHooks
from hubbub.ports.bus import Bus
from hubbub.ports.storage import Store

DEFAULT_QUOTA = 10_000
MAX_RECORD_BYTES = 64 * 1024
"""Maximum size of an hChannel as JSON."""
_PAGE = 100
_CHANNELS = ("hChannels",)
_SUBSCRIPTIONS = ("hSubscriptions",)
_CHANNELS_IN_A_TURN = 200


class ChannelCommands:
    def __init__(
        self,
        store: Store,
        bus: Bus,
        directory: Directory,
        records: ChannelRecords,
        hooks: StoringHooks,
        session_channels: int,
    ) -> None:
        """`session_channels`: the maximum number of channels to which a user may be subscribed, as
        for a session."""
        self._store = store
        self._bus = bus
        self._directory = directory
        self._records = records
        self._hooks = hooks
        self._session_channels = session_channels

    # -- channels -------------------------------------------------------------------------------

    async def create_or_update(self, asker: Asker, params: Any) -> Any:
        hub = asker.hub
        record = read_channel(valid_object(params), asker.jid)
        known = hub.configuration.bindings.get(record.channel)
        if known is None:
            await self._check_takeable(asker, record.channel)
        elif not _may_replace(asker, known):
            raise not_authorized(f"owner of {record.channel!r} is somebody else, and stays it")
        encoded = _encoded(write_channel(record, hub.name))
        sender, hooks = str(asker.jid.bare), self._hooks
        await hooks.validate(hub.name, _CHANNELS, encoded, sender)
        await self._save(asker, record)
        await hooks.saved(hub.name, _CHANNELS, encoded, sender)
        return UNSET

    async def _save(self, asker: Asker, record: HChannel) -> None:
        hub = asker.hub
        most = hub.configuration.settings.quotas.owned_channels or DEFAULT_QUOTA
        share = share_of(most) if asker.identity.level is Level.CLIENT else most
        await self._directory.settle(hub.name)
        saved = await self._store.save_channel_record(hub.name, record, most, share)
        if saved == "owned":
            raise not_authorized(f"owner of {record.channel!r} is somebody else, and stays it")
        if saved == "full":
            raise CommandRefused(Status.TECHNICAL, f"the hub has {most} such channels, its quota")
        if saved == "share":
            raise CommandRefused(
                Status.TECHNICAL,
                f"{asker.jid.bare} owns {share} channels, all that a user may have of the hub's "
                f"{most}",
            )
        await asyncio.shield(self._directory.binding_changed(hub.name, record.channel))

    async def _check_takeable(self, asker: Asker, channel: str) -> None:
        """Raises `CommandRefused` (5) if the channel is in use or an administrator configured it:
        nobody may take it over."""
        identity, configuration = asker.identity, asker.hub.configuration
        if identity.trusted or (
            granted(identity.grants, "publish", channel)
            and granted(identity.grants, "subscribe", channel)
        ):
            return
        if (
            configuration.is_decided(channel)
            or channel in configuration.channels
            or channel in configuration.topic_keys
            or await self._store.read_head(asker.hub.name, channel) is not None
        ):
            raise not_authorized(
                f"chid {channel!r} is in use without an owner; only who has the permissions to "
                "publish and subscribe to it may own it"
            )

    async def visible(self, asker: Asker, params: Any) -> Any:
        """The visible channels after `after`, as many as fit into a result."""
        after = read_text(params, "after") if isinstance(params, dict) else None
        behind = "" if after is None else parse_channel(after, asker.hub.name)
        names = [name async for name in _visible(asker) if name > behind]
        found: list[dict[str, Any]] = []
        room = ANSWER_BYTES
        for start in range(0, len(names), _PAGE):
            part = names[start : start + _PAGE]
            records = await self._store.read_channel_records(asker.hub.name, part)
            for record in records:
                written = write_channel(record, asker.hub.name)
                room -= len(msgspec.json.encode(written))
                if room < 0:
                    return found
                found.append(written)
            await asyncio.sleep(0)
        return found

    # -- subscriptions --------------------------------------------------------------------------

    async def subscribe(self, asker: Asker, params: Any) -> Any:
        hub, channel = asker.hub, channel_in(asker, required_object(params))
        self._records.check(asker, channel)
        held = await self._store.read_user_subscriptions(hub.name, asker.user_id)
        if channel in held:
            raise not_authorized(f"{asker.jid.bare} is already subscribed to {channel!r}")
        if len(held) >= self._session_channels:
            raise CommandRefused(
                Status.TECHNICAL, f"a user may subscribe to {self._session_channels} channels"
            )
        sender, hooks = str(asker.jid.bare), self._hooks
        value = {"chid": channel_id(channel, hub.name), "subscriber": sender}
        encoded = msgspec.json.encode(value)
        await hooks.validate(hub.name, _SUBSCRIPTIONS, encoded, sender)
        if not await self._store.add_user_subscription(hub.name, channel, asker.user_id):
            raise not_authorized(f"{asker.jid.bare} is already subscribed to {channel!r}")
        await self._bus.broadcast(UserFollows(hub.name, asker.user_id, channel, True))
        await hooks.saved(hub.name, _SUBSCRIPTIONS, encoded, sender)
        return UNSET

    async def unsubscribe(self, asker: Asker, params: Any) -> Any:
        hub, channel = asker.hub, channel_in(asker, required_object(params))
        binding = hub.configuration.bindings.get(channel)
        if binding is None:
            raise not_authorized(f"there is no channel {channel_id(channel, hub.name)}")
        check_active(binding, channel)
        if not await self._store.delete_user_subscription(hub.name, channel, asker.user_id):
            raise not_authorized(f"{asker.jid.bare} is not subscribed to {channel!r}")
        await self._bus.broadcast(UserFollows(hub.name, asker.user_id, channel, False))
        return UNSET

    async def subscriptions(self, asker: Asker, params: Any) -> Any:
        bindings = asker.hub.configuration.bindings
        held = await self._store.read_user_subscriptions(asker.hub.name, asker.user_id)
        return [
            channel_id(channel, asker.hub.name)
            for channel in held
            if channel in bindings and bindings[channel].active
        ]


def _encoded(channel: dict[str, Any]) -> bytes:
    """Raises `CommandRefused` (7)."""
    encoded = msgspec.json.encode(channel)
    if len(encoded) > MAX_RECORD_BYTES:
        raise invalid(
            f"the hChannel takes {len(encoded)} bytes; at most {MAX_RECORD_BYTES} are allowed"
        )
    return encoded


def _may_replace(asker: Asker, known: Binding) -> bool:
    """Whether the asker may replace the channel. Services may assign a channel without an owner to
    a user."""
    return known.owner == asker.user_id or (known.owner == HUB_USER and asker.speaks_for_others)


async def _visible(asker: Asker) -> AsyncIterator[str]:
    """The channels visible to the asker, in order."""
    hub, user_id = asker.hub, asker.user_id
    everything = asker.identity.level is Level.ADMIN
    for number, (channel, binding) in enumerate(sorted(hub.configuration.bindings.items()), 1):
        if number % _CHANNELS_IN_A_TURN == 0:
            await asyncio.sleep(0)
        if (
            everything
            or binding.owner == user_id
            or binding.admits(user_id)
            or hub.rules_for(channel).public
        ):
            yield channel
