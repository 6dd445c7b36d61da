"""The audience of a push: the users of a channel, page by page, each once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence

import msgspec

from hubbub.domain.names import USER_NAMESPACE, namespace_of
from hubbub.domain.push.content import PushNote
from hubbub.domain.push.tokens import PushToken, is_over
from hubbub.engine.directory import ConfigurationOf
from hubbub.engine.push.devices import PushDevices
from hubbub.engine.push.followings import PushFollowings
from hubbub.ports.clock import Clock

_USERS = 10
"""Users whose devices are read at once; a user has at most 50 devices."""

Subscribed = Callable[[str, str], Awaitable[Collection[str]]]
"""The users with a subscribed session on any node, by hub and channel."""


class PendingPush(msgspec.Struct, frozen=True):
    """A push that waits for its audience: the users of its channel, or the given ones."""

    note: PushNote
    users: tuple[str, ...] | None = None


class PushAudience:
    def __init__(
        self,
        devices: PushDevices,
        followings: PushFollowings,
        configuration_of: ConfigurationOf,
        subscribed: Subscribed,
        clock: Clock,
    ) -> None:
        self._devices = devices
        self._followings = followings
        self._configuration_of = configuration_of
        self._subscribed = subscribed
        self._clock = clock

    async def reach(
        self, pushed: Sequence[PendingPush]
    ) -> AsyncIterator[tuple[PushToken, list[PushNote]]]:
        """The devices to push to, each with its content. All of `pushed` belong to one channel, or
        are one push to given users. Raises `HubNotFound`, `StoreUnavailable`."""
        note = pushed[0].note
        notes = [each.note for each in pushed]
        if pushed[0].users is not None:
            async for token in self._tokens(note.hub, pushed[0].users):
                yield token, notes
            return
        settings = self._configuration_of(note.hub).settings
        present = frozenset(await self._subscribed(note.hub, note.channel))
        only_absent = settings.push_audience == "absent"
        async for users in self._users(note.hub, note.channel, settings.user_channel, present):
            async for token in self._tokens(note.hub, users):
                told = [
                    each
                    for each in notes
                    if not _is_left_out(each, token.user_id, present, only_absent)
                ]
                if told:
                    yield token, told

    async def still_reaches(self, token: PushToken, note: PushNote) -> bool:
        """Whether the device may still receive the push after settings or revocations changed.
        Raises the errors of `reach`."""
        hub, user = note.hub, token.user_id
        devices = [each.id async for each in self._tokens(hub, (user,))]
        if token.id not in devices or not note.channel:
            return token.id in devices
        settings = self._configuration_of(hub).settings
        if settings.user_channel and namespace_of(note.channel) == USER_NAMESPACE:
            return True
        followed = await self._followings.of_user(hub, user)
        if any(each.channel == note.channel for each in followed):
            return True
        return user in await self._subscribed(hub, note.channel)

    async def _users(
        self, hub: str, channel: str, user_channels: bool, present: frozenset[str]
    ) -> AsyncIterator[Sequence[str]]:
        if user_channels and namespace_of(channel) == USER_NAMESPACE:
            yield (channel.partition(":")[2],)
            return
        yield sorted(present)
        async for users in self._followings.pages(hub, channel):
            yield [user for user in users if user not in present]

    async def _tokens(self, hub: str, users: Sequence[str]) -> AsyncIterator[PushToken]:
        now = int(self._clock.now() * 1000)
        for start in range(0, len(users), _USERS):
            for token in await self._devices.of(hub, users[start : start + _USERS]):
                if not is_over(token, now):
                    yield token


def _is_left_out(note: PushNote, user: str, present: frozenset[str], only_absent: bool) -> bool:
    options = note.options
    if user in present and (only_absent or options.only_absent):
        return True
    return options.skip_publisher and user == note.publisher
