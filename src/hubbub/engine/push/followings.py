"""Followings: users who receive pushes for a channel, subscribed or not, while they may read it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Protocol

import msgspec
from msgspec import UNSET

from hubbub.domain.audit import Audit
from hubbub.domain.errors import HubbubError, NotPermitted, QuotaExceeded, WrongChannelKind
from hubbub.domain.names import ChannelKind, check_name, kind_of
from hubbub.domain.permissions import Grant, Identity, Reader
from hubbub.engine.access.registry import AccessRegistry, Subscriber
from hubbub.engine.rooms import Room
from hubbub.ports.clock import Clock
from hubbub.ports.storage.push import PushFollowing, PushStore
from hubbub.tasks import TaskSet

MAX_FOLLOWINGS_PER_USER = 1000
_PAGE = 500
_GATHER_SECONDS = 0.2
"""How long authenticated users are batched before their followings are read."""
_MOST_GATHERED = 100_000


class Follower(Subscriber):
    """One following as a subscriber for the access registry. It exists only during a check: a hub
    may have millions of followings."""

    __slots__ = ("_reader", "channel", "lost")

    def __init__(self, reader: Reader, channel: str) -> None:
        self._reader = reader
        self.channel = channel
        self.lost = False

    @property
    def reader(self) -> Reader:
        return self._reader

    def followed(self) -> Collection[str]:
        return (self.channel,)

    def lose(self, channels: Sequence[str], error: NotPermitted) -> None:
        self.lost = True

    def end(self, error: HubbubError) -> None:
        self.lost = True


class ArrivingHub(Protocol):
    name: str
    pushes: bool


class ArrivingSession(Protocol):
    """The part of a session that followings use."""

    hub: ArrivingHub
    identity: Identity


class PushFollowings(Room):
    """The followings of one node. Pushes to followers must read them through `pages`, which checks
    access."""

    def __init__(self, store: PushStore, access: AccessRegistry, clock: Clock) -> None:
        self._store = store
        self._access = access
        self._clock = clock
        self._arrived: dict[str, dict[str, Identity]] = {}
        """Authenticated users whose followings are still to be checked, by hub."""
        self._reviewing: dict[str, bool] = {}
        """Hubs under review, and whether another change arrived meanwhile."""
        self._tasks = TaskSet()

    async def follow(
        self, hub: str, channel: str, user_id: str, by: Identity, audit: Audit = UNSET
    ) -> PushFollowing:
        """`by` is the user, or a service, which thereby grants the user access to the channel.
        Raises `NotPermitted`, `InvalidName`, `WrongChannelKind`, `QuotaExceeded`."""
        check_name(channel, "channel")
        if kind_of(channel) is ChannelKind.NOTIFICATION:
            raise WrongChannelKind(f"{channel!r} is a notification channel, which never pushes")
        acting = Reader(_acting(channel, user_id, by))
        self._access.check(hub, acting, channel)
        now = int(self._clock.now() * 1000)
        following = PushFollowing(hub, channel, user_id, acting, now)
        if not await self._store.audited(audit).save_following(following, MAX_FOLLOWINGS_PER_USER):
            raise QuotaExceeded(f"a user may follow {MAX_FOLLOWINGS_PER_USER} channels")
        return following

    async def unfollow(self, hub: str, channel: str, user_id: str, audit: Audit = UNSET) -> bool:
        """Returns whether the user followed the channel."""
        return await self._store.audited(audit).delete_following(hub, channel, user_id)

    async def of_user(self, hub: str, user_id: str) -> list[PushFollowing]:
        """The user's followings that still have access."""
        return await self._held(await self._store.read_followings_of(hub, [user_id]))

    async def pages(self, hub: str, channel: str) -> AsyncIterator[list[str]]:
        """The followers of a channel who may read it now, ordered by user."""
        after = ""
        while True:
            page = await self._store.read_followings(hub, channel, after, _PAGE)
            if page:
                yield [each.user_id for each in await self._held(page)]
                after = page[-1].user_id
            if len(page) < _PAGE:
                return

    async def _held(self, followings: Sequence[PushFollowing]) -> list[PushFollowing]:
        """Ends followings without access, and returns the others."""
        held = []
        for each in followings:
            if self._may_follow(each, each.acting):
                held.append(each)
            else:
                await self._end(each)
        return held

    def _may_follow(self, following: PushFollowing, reader: Reader) -> bool:
        follower = Follower(reader, following.channel)
        with self._access.adding(following.hub, follower):
            return not follower.lost

    async def _end(self, following: PushFollowing) -> None:
        await self._store.delete_following(following.hub, following.channel, following.user_id)

    # -- access that is taken away --------------------------------------------------------------

    def review(self, hub: str, concerns: Callable[[str, str], bool]) -> None:
        """Ends followings that lost access after a change of the hub's settings or revocations.
        `concerns` says, by hub and channel, whether this node is responsible."""
        if hub in self._reviewing:
            self._reviewing[hub] = True
        else:
            self._reviewing[hub] = False
            self._tasks.start(self._review(hub, concerns))

    def review_channel(self, hub: str, channel: str) -> None:
        """Ends followings of the channel that lost access."""
        self._tasks.start(self._review_channel(hub, channel))

    async def _review_channel(self, hub: str, channel: str) -> None:
        try:
            async for _ in self.pages(hub, channel):
                pass
        except HubbubError:  # asked for again before each push
            pass

    async def _review(self, hub: str, concerns: Callable[[str, str], bool]) -> None:
        try:
            again = True
            while again:
                self._reviewing[hub] = False
                await self._walk(hub, concerns)
                again = self._reviewing[hub]
        except HubbubError:  # asked for again at the next change, and before each push
            pass
        finally:
            del self._reviewing[hub]

    async def _walk(self, hub: str, concerns: Callable[[str, str], bool]) -> None:
        after = ("", "")
        while page := await self._store.list_followings(hub, after, _PAGE):
            await self._held([each for each in page if concerns(hub, each.channel)])
            after = (page[-1].channel, page[-1].user_id)

    async def authenticated(self, session: ArrivingSession) -> None:
        """The user authenticated again: ends followings that the new identity may not read. Never
        waits."""
        identity, hub = session.identity, session.hub.name
        if not session.hub.pushes or identity.user_id is None or identity.trusted:
            return
        users = self._arrived.get(hub)
        if users is None:
            users = self._arrived[hub] = {}
            self._tasks.start(self._check_arrived(hub))
        if len(users) < _MOST_GATHERED:
            users[identity.user_id] = identity

    async def _check_arrived(self, hub: str) -> None:
        await asyncio.sleep(_GATHER_SECONDS)
        arrived = self._arrived.pop(hub)
        names = sorted(arrived)
        for start in range(0, len(names), _PAGE):
            users = names[start : start + _PAGE]
            try:
                for each in await self._store.read_followings_of(hub, users):
                    lasting = Reader(_lasting(arrived[each.user_id]))
                    if not self._may_follow(each, lasting):
                        await self._end(each)
            except HubbubError:
                return

    async def stop(self) -> None:
        await self._tasks.end()


def _acting(channel: str, user_id: str, by: Identity) -> Identity:
    if not by.trusted:
        return _lasting(by)
    permitted = (Grant(channel, subscribe=True),)
    return Identity(user_id=user_id, grants=permitted, issued_at=by.issued_at)


def _lasting(identity: Identity) -> Identity:
    """The identity without permissions that end with the token."""
    return msgspec.structs.replace(identity, expires_at=None, extra={}, rpcs=())
