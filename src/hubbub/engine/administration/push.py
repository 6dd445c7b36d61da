"""Push as its users see it: devices, followings, keys and accounts, pushes by services."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hubbub.domain.errors import BadRequest, NotFound, QuotaExceeded
from hubbub.domain.names import user_id_problem
from hubbub.domain.push.options import PushOptions
from hubbub.domain.push.requests import VapidKey
from hubbub.domain.push.tokens import (
    MAX_TOKENS_PER_USER,
    Environment,
    PushSubscription,
    PushToken,
    read_platform,
    read_token,
)
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.node import Node
from hubbub.engine.push.counting import HubPushCounters
from hubbub.engine.push.credentials import (
    APNS,
    FCM,
    ApnsKey,
    PushCredentials,
    ServiceAccount,
    check_apns_key,
)
from hubbub.engine.push.driver import PushDriver
from hubbub.engine.push.sending import Attempt
from hubbub.ports.storage.push import PushCredential, PushFollowing, PushStore


class GivenToken(msgspec.Struct, frozen=True):
    """A token as it comes from outside."""

    platform: str
    token: str | PushSubscription
    topic: str | None = None
    environment: Environment | None = None
    vapid_key: str | None = None


class PushAdministration:
    """A user handles their own devices and followings; services and administrators those of anybody
    in the hub, and everything else."""

    def __init__(
        self,
        node: Node,
        store: PushStore,
        audit: AuditLog,
        credentials: PushCredentials,
        driver: PushDriver,
    ) -> None:
        self._node = node
        self._store = store
        self._audit = audit
        self._credentials = credentials
        self._driver = driver

    # -- devices --------------------------------------------------------------------------------

    async def tokens(self, hub: str, user_id: str) -> list[PushToken]:
        self._node.directory.get(hub)
        return await self._node.devices.of(hub, [_checked(user_id)])

    async def register(self, actor: Actor, hub: str, user_id: str, given: GivenToken) -> PushToken:
        """Doing it again refreshes the token; a device that another user had moves to this one.
        Raises `BadRequest`, `QuotaExceeded`."""
        platform = read_platform(given.platform)
        settings = self._node.directory.get(hub).settings
        token = read_token(
            hub,
            _checked(user_id),
            platform,
            given.token,
            self._now(),
            topic=given.topic,
            environment=given.environment,
            reach=settings.callback_addresses,
        )
        if platform == "webpush":
            key = await self._vapid_key(hub, given.vapid_key)
            token = msgspec.structs.replace(token, vapid_key=key.id)
        known = await self.tokens(hub, user_id)
        before = next((each for each in known if each.id == token.id), None)
        if before is None and len(known) >= MAX_TOKENS_PER_USER:
            raise QuotaExceeded(f"a user may register {MAX_TOKENS_PER_USER} push tokens")
        if before is not None:
            token = msgspec.structs.replace(token, succeeded_at=before.succeeded_at)
        await self._store.save_push_token(token)
        if before is None:
            await self._note(actor, "push_token.put", token)
        return token

    async def _vapid_key(self, hub: str, identifier: str | None) -> VapidKey:
        newest = await self._credentials.vapid_key(hub)
        if identifier is None:
            return newest
        found = (await self._credentials.of(hub)).vapid_key(identifier)
        if found is None:
            raise BadRequest(f"`vapidKey` is {identifier[:40]!r}, which is no key of the hub")
        return found

    async def unregister(
        self, actor: Actor, hub: str, user_id: str, platform: str, token: str
    ) -> None:
        """`token` is the token, the endpoint, or the id that lists show. Raises `NotFound` where
        this user has no such token."""
        for known in await self.tokens(hub, user_id):
            if known.platform == platform and token in (known.token, known.id):
                await self._store.delete_push_token(hub, platform, known.token)
                await self._note(actor, "push_token.delete", known)
                return
        raise NotFound(f"user {user_id!r} has no such push token")

    async def _note(self, actor: Actor, action: str, token: PushToken) -> None:
        """What users do with their own devices is not administration."""
        if actor.identity.user_id != token.user_id or actor.is_admin:
            about = {"platform": token.platform, "token": token.id}
            await self._audit.note(actor, action, token.hub, token.user_id, after=about)

    # -- followings -----------------------------------------------------------------------------

    async def followings(self, hub: str, user_id: str) -> list[PushFollowing]:
        self._node.directory.get(hub)
        return await self._node.followings.of_user(hub, _checked(user_id))

    async def follow(self, actor: Actor, hub: str, user_id: str, channel: str) -> PushFollowing:
        """Raises `NotPermitted`, `InvalidName`, `WrongChannelKind`, `QuotaExceeded`."""
        await self._node.hub(hub).consent(actor.identity, channel)
        return await self._node.followings.follow(hub, channel, _checked(user_id), actor.identity)

    async def unfollow(self, hub: str, user_id: str, channel: str) -> None:
        """Raises `NotFound`."""
        self._node.directory.get(hub)
        if not await self._node.followings.unfollow(hub, channel, _checked(user_id)):
            raise NotFound(f"user {user_id!r} does not follow {channel!r}")

    # -- keys and accounts ----------------------------------------------------------------------

    async def public_key(self, hub: str) -> VapidKey:
        """What browsers subscribe with. Raises `HubNotFound`."""
        self._node.directory.get(hub)
        return await self._credentials.vapid_key(hub)

    async def rotate(self, actor: Actor, hub: str) -> VapidKey:
        self._node.directory.get(hub)
        key = await self._credentials.rotate(hub)
        await self._changed(actor, "push_key.rotate", hub, key.id)
        return key

    async def credentials(self, hub: str) -> list[PushCredential]:
        self._node.directory.get(hub)
        return await self._credentials.described(hub)

    async def put_account(
        self, actor: Actor, hub: str, value: ServiceAccount | ApnsKey
    ) -> PushCredential:
        """Raises `BadRequest`."""
        self._node.directory.get(hub)
        name = APNS if isinstance(value, ApnsKey) else FCM
        if isinstance(value, ApnsKey):
            check_apns_key(value)
        await self._credentials.put(hub, name, value)
        await self._changed(actor, "push_credentials.put", hub, name)
        return next(each for each in await self.credentials(hub) if each.name == name)

    async def delete_credentials(self, actor: Actor, hub: str, name: str) -> None:
        """Raises `NotFound`."""
        self._node.directory.get(hub)
        await self._credentials.delete(hub, name)
        await self._changed(actor, "push_credentials.delete", hub, name)

    async def _changed(self, actor: Actor, action: str, hub: str, name: str) -> None:
        await self._audit.note(actor, action, hub, name)
        await self._node.directory.changed(hub)

    # -- pushing --------------------------------------------------------------------------------

    async def push(self, hub: str, users: Sequence[str], options: PushOptions) -> str:
        """To the devices of these users, as far as there is room in the queue; returns the id that
        the push has in the journal."""
        self._node.directory.get(hub)
        return self._driver.push(hub, [_checked(user) for user in users], options)

    async def test(
        self, hub: str, user_id: str, options: PushOptions
    ) -> list[tuple[PushToken, Attempt]]:
        """One attempt for each device of the user, and what became of it."""
        tokens = await self.tokens(hub, user_id)
        return list(zip(tokens, await self._driver.test(hub, tokens, options), strict=True))

    def status(self, hub: str) -> tuple[HubPushCounters, int]:
        """The figures of this node, and how many messages and deliveries wait."""
        self._node.directory.get(hub)
        queue = self._driver.queues.get(hub)
        waiting = 0 if queue is None else len(queue.waiting) + queue.held
        return self._driver.counters.get(hub) or HubPushCounters(), waiting

    def _now(self) -> int:
        return int(self._node.clock.now() * 1000)


def _checked(user_id: str) -> str:
    problem = user_id_problem(user_id)
    if problem is not None:
        raise BadRequest(f"the user id {problem}")
    return user_id
