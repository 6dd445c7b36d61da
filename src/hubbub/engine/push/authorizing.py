"""Authorization for push services: tokens, created once and used until they expire."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from hubbub.domain.push.requests import (
    VAPID_SECONDS,
    VapidKey,
    apns_provider_token,
    fcm_assertion,
    vapid_signature,
)
from hubbub.engine.push.credentials import ApnsKey, ServiceAccount, load_pem
from hubbub.engine.push.limits import PushSettings
from hubbub.ports.clock import Clock
from hubbub.ports.outgoing import HttpRequest, HttpResponse, Outgoing, SendFailed

_EARLY_SECONDS: Final = 300
"""How long before its expiry a token is replaced."""
_APNS_SECONDS: Final = 40 * 60
"""Apple refuses tokens older than an hour, and new ones more often than every 20 minutes."""
_MOST_KEPT: Final = 4096
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class NotAuthorized(Exception):
    """The token service refuses the hub's account; holds the service's error code."""


class _AccessToken(msgspec.Struct, frozen=True):
    access_token: str
    expires_in: float = 3600.0


class _Kept(msgspec.Struct, frozen=True):
    value: str
    made_for: Any
    until: float


class Authorizations:
    """Tokens for the hubs of one node."""

    def __init__(self, outgoing: Outgoing, settings: PushSettings, clock: Clock) -> None:
        self._outgoing = outgoing
        self._settings = settings
        self._clock = clock
        self._kept: dict[tuple[str, ...], _Kept] = {}
        self._fetching: dict[str, asyncio.Lock] = {}

    def vapid(self, hub: str, key: VapidKey, origin: str, contact: str) -> str:
        now = self._clock.now()
        place = (hub, "webpush", key.id, origin, contact)
        known = self._find(place, key, now)
        if known is None:
            known = vapid_signature(key, origin, contact, int(now) + VAPID_SECONDS)
            self._keep(place, _Kept(known, key, now + VAPID_SECONDS / 2))
        return known

    def apns(self, hub: str, key: ApnsKey) -> str:
        now = self._clock.now()
        known = self._find((hub, "apns"), key, now)
        if known is None:
            private = load_pem(key.key, "key")
            known = apns_provider_token(key.team_id, key.key_id, private, int(now))
            self._keep((hub, "apns"), _Kept(known, key, now + _APNS_SECONDS))
        return known

    async def fcm(self, hub: str, account: ServiceAccount) -> str:
        """Returns an access token for FCM. Raises `NotAuthorized`, `SendFailed`."""
        known = self._find((hub, "fcm"), account, self._clock.now())
        if known is not None:
            return known
        async with self._fetching.setdefault(hub, asyncio.Lock()):
            known = self._find((hub, "fcm"), account, self._clock.now())
            return known or await self._fetch(hub, account)

    async def _fetch(self, hub: str, account: ServiceAccount) -> str:
        url, now = self._settings.fcm_token_url, self._clock.now()
        private = load_pem(account.private_key, "private_key")
        assertion = fcm_assertion(
            account.client_email, private, account.private_key_id, url, int(now)
        )
        request = HttpRequest(
            hub,
            "POST",
            url,
            (("Content-Type", "application/x-www-form-urlencoded"),),
            urlencode({"grant_type": _GRANT, "assertion": assertion}).encode(),
            self._settings.timeout_seconds,
        )
        given = _access_token(await self._outgoing.send("push", request, "private"))
        seconds = max(60.0, given.expires_in - _EARLY_SECONDS)
        self._keep((hub, "fcm"), _Kept(given.access_token, account, now + seconds))
        return given.access_token

    def renew(self, hub: str, platform: str) -> None:
        """Discards a token that the service reported as expired."""
        self._kept.pop((hub, platform), None)

    def _find(self, place: tuple[str, ...], made_for: object, now: float) -> str | None:
        known = self._kept.get(place)
        if known is None or known.until <= now or known.made_for != made_for:
            return None
        return known.value

    def _keep(self, place: tuple[str, ...], kept: _Kept) -> None:
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[place] = kept


def _access_token(answer: HttpResponse) -> _AccessToken:
    if answer.status >= 500 or answer.status == 429:
        raise SendFailed("closed", f"no access token: status {answer.status}", answer.status)
    try:
        if answer.status == 200:
            return msgspec.json.decode(answer.body, type=_AccessToken)
        said = msgspec.json.decode(answer.body, type=dict[str, Any]).get("error")
    except (msgspec.MsgspecError, UnicodeError):
        said = None
    word = said if isinstance(said, str) and said.isprintable() else f"status {answer.status}"
    raise NotAuthorized(f"no access token: {word[:60]}")
