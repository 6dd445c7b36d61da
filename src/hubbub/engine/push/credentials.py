"""Keys and accounts of hubs for push services: encrypted in the store, cached in memory."""

from __future__ import annotations

import hashlib
import logging
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta

from hubbub.domain.audit import Audit, AuditEntry
from hubbub.domain.errors import BadRequest, NotFound, Unavailable
from hubbub.domain.fields import wire_name
from hubbub.domain.push.requests import VapidKey, make_vapid_key
from hubbub.domain.push.tokens import Environment, b64url
from hubbub.engine.push.sealing import Vault
from hubbub.ports.clock import Clock
from hubbub.ports.storage.push import PushCredential, PushStore

logger = logging.getLogger(__name__)

VAPID: Final = "vapid:"
FCM: Final = "fcm"
APNS: Final = "apns"

_Short = Annotated[str, Meta(min_length=1, max_length=255, pattern="^[!-~]+$")]
_Pem = Annotated[str, Meta(min_length=1, max_length=16_384)]


class ServiceAccount(msgspec.Struct, frozen=True):
    """The fields of Google's service account file that FCM needs; the others are ignored."""

    project_id: Annotated[str, Meta(pattern="^[a-z0-9.:-]{1,100}$")]
    client_email: _Short
    private_key: _Pem
    private_key_id: _Short | None = None

    def __repr__(self) -> str:
        return f"ServiceAccount({self.client_email!r}, key hidden)"


class ApnsKey(msgspec.Struct, frozen=True, rename=wire_name, forbid_unknown_fields=True):
    """A key for Apple's push service; `topic` and `environment` are defaults for device tokens
    without their own."""

    key_id: _Short
    team_id: _Short
    key: _Pem
    topic: _Short | None = None
    environment: Environment = "production"

    def __repr__(self) -> str:
        return f"ApnsKey({self.key_id!r}, key hidden)"


class HubCredentials(msgspec.Struct, frozen=True):
    """`vapid` is ordered from the newest key to the oldest."""

    vapid: tuple[VapidKey, ...] = ()
    fcm: ServiceAccount | None = None
    apns: ApnsKey | None = None

    def vapid_key(self, identifier: str | None) -> VapidKey | None:
        """The key with the id; without an id, the newest."""
        for key in self.vapid:
            if identifier in (None, key.id):
                return key
        return None


_TYPES: Final[dict[str, Any]] = {FCM: ServiceAccount, APNS: ApnsKey}


def read_service_account(given: dict[str, Any]) -> ServiceAccount:
    """Raises `BadRequest`; its message contains no part of the key."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    try:
        account = msgspec.convert(given, ServiceAccount)
    except msgspec.ValidationError as error:
        raise BadRequest(f"this is no service account: {error}") from None
    if not isinstance(load_pem(account.private_key, "private_key"), rsa.RSAPrivateKey):
        raise BadRequest("`private_key` is no RSA key")
    return account


def check_apns_key(given: ApnsKey) -> None:
    """Raises `BadRequest`."""
    from cryptography.hazmat.primitives.asymmetric import ec

    key = load_pem(given.key, "key")
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
        raise BadRequest("`key` is no key of the curve P-256")


def load_pem(text: str, name: str) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(text.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadRequest(f"`{name}` is no private key in PEM without a password") from None


class PushCredentials:
    """The credentials of all hubs, on one node. Changes on other nodes invalidate the cache
    (`forget`)."""

    def __init__(self, store: PushStore, vault: Vault, clock: Clock) -> None:
        self._store = store
        self._vault = vault
        self._clock = clock
        self._known: dict[str, HubCredentials] = {}
        self._changes = 0

    def forget(self, hub: str) -> None:
        self._changes += 1
        self._known.pop(hub, None)

    async def of(self, hub: str) -> HubCredentials:
        """The credentials of a hub. Those that cannot be decrypted are logged and left out. Raises
        `StoreUnavailable`."""
        known = self._known.get(hub)
        if known is None:
            changes = self._changes
            known = self._opened(await self._store.read_push_credentials(hub))
            if changes == self._changes:
                self._known[hub] = known
        return known

    async def vapid_key(self, hub: str) -> VapidKey:
        """The newest key, created at first use. Raises `StoreUnavailable`."""
        found = (await self.of(hub)).vapid_key(None)
        if found is None:
            key = self._new_key()
            await self._store.add_first_credential(self._sealed_key(hub, key), VAPID)
            self.forget(hub)
            found = (await self.of(hub)).vapid_key(None)
        return found if found is not None else key

    async def rotate(self, hub: str, audit: Audit = UNSET) -> VapidKey:
        """Creates a key for new subscriptions; existing ones keep their older keys. The new key
        sorts after all others even if the clock was set back. The audit entry is named after the
        key."""
        self.forget(hub)
        newest = (await self.of(hub)).vapid_key(None)
        key = self._new_key(after=newest.created_at if newest is not None else 0)
        named = (
            msgspec.structs.replace(audit, name=key.id) if isinstance(audit, AuditEntry) else None
        )
        await self._store.audited(named).put_push_credential(self._sealed_key(hub, key))
        self.forget(hub)
        return key

    async def put(
        self, hub: str, name: str, value: ServiceAccount | ApnsKey, audit: AuditEntry
    ) -> None:
        about = _about(value)
        await self._store.audited(audit).put_push_credential(
            self._sealed(hub, name, msgspec.json.encode(value), about, self._now())
        )
        self.forget(hub)

    async def delete(self, hub: str, name: str, audit: AuditEntry) -> None:
        """Raises `NotFound`."""
        if not await self._store.audited(audit).delete_push_credential(hub, name):
            raise NotFound(f"hub {hub!r} has no push credentials {name!r}")
        self.forget(hub)

    async def described(self, hub: str) -> list[PushCredential]:
        return await self._store.read_push_credentials(hub)

    async def seal_again(self) -> None:
        """Encrypts credentials again that were encrypted with an older key."""
        for each in await self._store.read_push_credentials():
            if not self._vault.is_current(each.sealed):
                try:
                    data = self._vault.open(each.sealed, _place(each.hub, each.name))
                except Unavailable:
                    continue
                await self._store.put_push_credential(
                    self._sealed(each.hub, each.name, data, each.about, each.created_at)
                )

    # -- forms ----------------------------------------------------------------------------------

    def _opened(self, stored: list[PushCredential]) -> HubCredentials:
        keys: list[VapidKey] = []
        accounts: dict[str, Any] = {}
        for each in stored:
            try:
                data = self._vault.open(each.sealed, _place(each.hub, each.name))
            except Unavailable as error:
                logger.warning("push credentials %s of hub %r: %s", each.name, each.hub, error)
                continue
            if each.name.startswith(VAPID):
                keys.append(msgspec.msgpack.decode(data, type=VapidKey))
            elif each.name in _TYPES:
                accounts[each.name] = msgspec.json.decode(data, type=_TYPES[each.name])
        return HubCredentials(tuple(keys), **accounts)

    def _sealed_key(self, hub: str, key: VapidKey) -> PushCredential:
        data = msgspec.msgpack.encode(key)
        about = msgspec.json.encode({"key": b64url(key.public)}).decode()
        return self._sealed(hub, VAPID + key.id, data, about, key.created_at)

    def _sealed(
        self, hub: str, name: str, data: bytes, about: str, created_at: int
    ) -> PushCredential:
        sealed = self._vault.seal(data, _place(hub, name))
        return PushCredential(hub, name, sealed, about, created_at)

    def _new_key(self, after: int = 0) -> VapidKey:
        from cryptography.hazmat.primitives.asymmetric import ec

        return make_vapid_key(ec.generate_private_key(ec.SECP256R1()), max(self._now(), after + 1))

    def _now(self) -> int:
        return int(self._clock.now() * 1000)


def _place(hub: str, name: str) -> str:
    return f"push\x00{hub}\x00{name}"


def _about(value: ServiceAccount | ApnsKey) -> str:
    """The public description of a credential; of the key only a hash, to identify it."""
    if isinstance(value, ServiceAccount):
        told = {"projectID": value.project_id, "clientEmail": value.client_email}
        secret = value.private_key
    else:
        told = {"keyID": value.key_id, "teamID": value.team_id, "environment": value.environment}
        told |= {} if value.topic is None else {"topic": value.topic}
        secret = value.key
    fingerprint = hashlib.sha256(secret.encode()).hexdigest()[:16]
    return msgspec.json.encode({**told, "fingerprint": fingerprint}).decode()
