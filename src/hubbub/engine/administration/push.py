"""Administration of push: devices, followings, keys and accounts, and pushes by services."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hubbub.domain.audit import AuditEntry
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
from hubbub.engine.push.devices import PushDevices
from hubbub.engine.push.followings import PushFollowings
from hubbub.engine.push.pusher import Pusher
from hubbub.engine.push.sending import Attempt
from hubbub.ports.storage.push import PushCredential, PushFollowing, PushStore


class GivenToken(msgspec.Struct, frozen=True):
    """A push token as given in a request."""

    platform: str
    token: str | PushSubscription
    topic: str | None = None
    environment: Environment | None = None
    vapid_key: str | None = None


class PushAdministration:
    """Users manage their own devices and followings; services and administrators those of all
    users, and everything else."""

    def __init__(
        self,
        node: Node,
        store: PushStore,
        audit: AuditLog,
        credentials: PushCredentials,
        driver: Pusher,
    ) -> None:
        self._node = node
        self._devices = node.feature(PushDevices)
        self._followings = node.feature(PushFollowings)
        self._store = store
        self._audit = audit
        self._credentials = credentials
        self._driver = driver

    # -- devices --------------------------------------------------------------------------------

    async def tokens(self, hub: str, user_id: str) -> list[PushToken]:
        self._node.directory.get(hub)
        return await self._devices.of(hub, [_checked(user_id)])

    async def register(self, actor: Actor, hub: str, user_id: str, given: GivenToken) -> PushToken:
        """Registering again refreshes the token; a device registered by another user moves to this
        one. Raises `BadRequest`, `QuotaExceeded`."""
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
        known = await self.tokens(hub, user_id)
        before = next((each for each in known if each.id == token.id), None)
        if platform == "webpush":
            key = await self._vapid_key(hub, given.vapid_key, before)
            token = msgspec.structs.replace(token, vapid_key=key.id)
        if before is None and len(known) >= MAX_TOKENS_PER_USER:
            raise QuotaExceeded(f"a user may register {MAX_TOKENS_PER_USER} push tokens")
        if before is not None:
            token = msgspec.structs.replace(token, succeeded_at=before.succeeded_at)
        audit = self._entry(actor, "push_token.put", token) if before is None else None
        await self._store.audited(audit).save_push_token(token)
        return token

    async def _vapid_key(
        self, hub: str, identifier: str | None, before: PushToken | None
    ) -> VapidKey:
        """The key with which the browser subscribed: its push service accepts no other. Without an
        id, the key of the previous registration, or the newest."""
        newest = await self._credentials.vapid_key(hub)
        credentials = await self._credentials.of(hub)
        if identifier is None:
            known = before.vapid_key if before is not None else None
            return credentials.vapid_key(known) or newest
        found = credentials.vapid_key(identifier)
        if found is None:
            raise BadRequest(f"`vapidKey` is {identifier[:40]!r}, which is no key of the hub")
        return found

    async def unregister(
        self, actor: Actor, hub: str, user_id: str, platform: str, token: str
    ) -> None:
        """`token` is the token, the endpoint, or the id shown in lists. Raises `NotFound` if the
        user has no such token."""
        for known in await self.tokens(hub, user_id):
            if known.platform == platform and token in (known.token, known.id):
                store = self._store.audited(self._entry(actor, "push_token.delete", known))
                await store.delete_push_token(hub, platform, known.token)
                return
        raise NotFound(f"user {user_id!r} has no such push token")

    def _entry(self, actor: Actor, action: str, token: PushToken) -> AuditEntry | None:
        about = {"platform": token.platform, "token": token.id}
        return self._about_user(actor, action, token.hub, token.user_id, about)

    def _about_user(
        self, actor: Actor, action: str, hub: str, user_id: str, about: object
    ) -> AuditEntry | None:
        """An audit entry, unless users manage their own devices and followings."""
        if actor.identity.user_id == user_id and not actor.is_admin:
            return None
        return self._audit.entry(actor, action, hub, user_id, after=about)

    # -- followings -----------------------------------------------------------------------------

    async def followings(self, hub: str, user_id: str) -> list[PushFollowing]:
        self._node.directory.get(hub)
        return await self._followings.of_user(hub, _checked(user_id))

    async def follow(self, actor: Actor, hub: str, user_id: str, channel: str) -> PushFollowing:
        """Raises `NotPermitted`, `InvalidName`, `WrongChannelKind`, `QuotaExceeded`."""
        await self._node.hub(hub).consent(actor.identity, channel)
        audit = self._about_user(actor, "push.follow", hub, user_id, {"channel": channel})
        return await self._followings.follow(hub, channel, _checked(user_id), actor.identity, audit)

    async def unfollow(self, actor: Actor, hub: str, user_id: str, channel: str) -> None:
        """Raises `NotFound`."""
        self._node.directory.get(hub)
        audit = self._about_user(actor, "push.unfollow", hub, user_id, {"channel": channel})
        if not await self._followings.unfollow(hub, channel, _checked(user_id), audit):
            raise NotFound(f"user {user_id!r} does not follow {channel!r}")

    # -- keys and accounts ----------------------------------------------------------------------

    async def public_key(self, hub: str) -> VapidKey:
        """The public key for subscriptions of browsers. Raises `HubNotFound`."""
        self._node.directory.get(hub)
        return await self._credentials.vapid_key(hub)

    async def rotate(self, actor: Actor, hub: str) -> VapidKey:
        self._node.directory.get(hub)
        key = await self._credentials.rotate(hub, self._audit.entry(actor, "push_key.rotate", hub))
        await self._node.directory.changed(hub)
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
        audit = self._audit.entry(actor, "push_credentials.put", hub, name)
        await self._credentials.put(hub, name, value, audit)
        await self._node.directory.changed(hub)
        return next(each for each in await self.credentials(hub) if each.name == name)

    async def delete_credentials(self, actor: Actor, hub: str, name: str) -> None:
        """Raises `NotFound`."""
        self._node.directory.get(hub)
        audit = self._audit.entry(actor, "push_credentials.delete", hub, name)
        await self._credentials.delete(hub, name, audit)
        await self._node.directory.changed(hub)

    # -- pushing --------------------------------------------------------------------------------

    async def push(self, hub: str, users: Sequence[str], options: PushOptions) -> str:
        """Pushes to the devices of these users, as far as the queue has room; returns the push's id
        in the journal."""
        self._node.directory.get(hub)
        return self._driver.push(hub, [_checked(user) for user in users], options)

    async def test(
        self, hub: str, user_id: str, options: PushOptions
    ) -> list[tuple[PushToken, Attempt]]:
        """Makes one attempt per device of the user, and returns the results."""
        tokens = await self.tokens(hub, user_id)
        return list(zip(tokens, await self._driver.test(hub, tokens, options), strict=True))

    def status(self, hub: str) -> tuple[HubPushCounters, int]:
        """The counters of this node, and the numbers of queued messages and deliveries."""
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
