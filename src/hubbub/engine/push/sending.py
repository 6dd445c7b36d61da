"""One attempt: sends a push to one device, from its content to the service's response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from hubbub.domain.callbacks import Reach, check_callback
from hubbub.domain.encryption import SALT_BYTES
from hubbub.domain.errors import BadRequest
from hubbub.domain.push.content import PushNote, render
from hubbub.domain.push.outcomes import Outcome, judge
from hubbub.domain.push.requests import (
    PushRequest,
    apns_request,
    encrypt_for,
    fcm_request,
    origin_of,
    web_push_request,
)
from hubbub.domain.push.tokens import Platform, PushToken
from hubbub.engine.directory import ConfigurationOf
from hubbub.engine.outward.gate import Destination, OutgoingGate
from hubbub.engine.outward.retrying import retry_after_seconds
from hubbub.engine.push.authorizing import Authorizations, NotAuthorized
from hubbub.engine.push.credentials import HubCredentials, PushCredentials
from hubbub.engine.push.limits import PushSettings
from hubbub.ports import randomness
from hubbub.ports.clock import Clock
from hubbub.ports.outgoing import HttpRequest, HttpResponse, HttpSender, SendFailed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

_ANSWER_BYTES = 16 * 1024
_BUSY_SECONDS = 0.0003
"""A turn of the event loop that takes longer than this has work besides pushes."""
_LONGEST_PAUSE_SECONDS = 0.01
_OWN_FAULTS = ("refused_address", "too_large")
"""Failures that do not show whether the service is available."""


class Content:
    """The content of a push, rendered once per platform."""

    __slots__ = ("_drawn", "note")

    def __init__(self, note: PushNote) -> None:
        self.note = note
        self._drawn: dict[Platform, bytes] = {}

    def of(self, platform: Platform) -> bytes:
        drawn = self._drawn.get(platform)
        if drawn is None:
            drawn = self._drawn[platform] = render(platform, self.note)
        return drawn


class Attempt(msgspec.Struct, frozen=True):
    """The result of one request."""

    outcome: Outcome
    reason: str = ""
    status: int | None = None
    seconds: float | None = None
    retry_after_seconds: float = 0.0
    size: int = 0


class NoCredentials(Exception):
    """The hub has no credentials for the platform; names the missing one."""


class PushSender:
    """Sends the pushes of all hubs of one node."""

    def __init__(
        self,
        *,
        gate: OutgoingGate,
        http2: HttpSender,
        credentials: PushCredentials,
        authorizations: Authorizations,
        configuration_of: ConfigurationOf,
        settings: PushSettings,
        clock: Clock,
    ) -> None:
        self._gate = gate
        self._http2 = http2
        self._credentials = credentials
        self._authorizations = authorizations
        self._configuration_of = configuration_of
        self._settings = settings
        self._clock = clock
        self._turn = asyncio.Lock()
        """Pushes are encrypted one at a time, with other tasks of the loop in between."""

    def destination(self, token: PushToken) -> Destination:
        """Where the token's pushes are sent, with a circuit breaker per hub. Raises
        `BadRequest`."""
        parts = check_callback(self._address(token))
        name = f"{parts.host}:{parts.port}"
        return self._gate.destination(token.hub, "push", name, self._settings.in_flight)

    def _address(self, token: PushToken) -> str:
        if token.platform == "webpush":
            return token.token
        if token.platform == "fcm":
            return self._settings.fcm_url
        sandbox = token.environment == "sandbox"
        return self._settings.apns_sandbox_url if sandbox else self._settings.apns_url

    async def attempt(
        self, token: PushToken, destination: Destination, content: Content
    ) -> Attempt:
        """Sends one push. Raises `NoCredentials`, `HubNotFound`, `StoreUnavailable`."""
        if self._gate.is_left_alone(destination):
            return Attempt("retry", "breaker")
        try:
            request = await self._prepared(token, content)
        except NotAuthorized as error:
            return Attempt("credentials", str(error))
        except SendFailed as error:
            return Attempt("retry", error.word, error.status)
        except BadRequest as error:
            return Attempt("refused", error.message[:100])
        if not await self._gate.enter(destination, self._settings.timeout_seconds):
            return Attempt("retry", "busy")
        well: bool | None = None
        try:
            answer = await self._transmit(token, request)
            well = answer.status < 500
        except SendFailed as error:
            well = None if error.word in _OWN_FAULTS else False
            outcome: Outcome = "refused" if error.word == "refused_address" else "retry"
            return Attempt(outcome, error.word, error.status, size=len(request.body))
        finally:
            self._gate.leave(destination, well)
        async with self._turn:  # many answers may have come at once
            await asyncio.sleep(0)
        return self._judged(token, request, answer)

    def _judged(self, token: PushToken, request: PushRequest, answer: HttpResponse) -> Attempt:
        verdict = judge(token, answer.status, answer.body)
        if verdict.outcome == "renew":
            self._authorizations.renew(token.hub, token.platform)
        return Attempt(
            verdict.outcome,
            verdict.reason,
            answer.status,
            answer.duration_seconds,
            retry_after_seconds(answer, self._clock.now()),
            len(request.body),
        )

    async def _transmit(self, token: PushToken, request: PushRequest) -> HttpResponse:
        asked = HttpRequest(
            token.hub,
            "POST",
            request.url,
            request.headers,
            request.body,
            self._settings.timeout_seconds,
            _ANSWER_BYTES,
            repeatable=False,
        )
        reach: Reach = "private"  # an operator named the services of phones
        if token.platform == "webpush":
            reach = self._configuration_of(token.hub).settings.callback_addresses
        if token.platform == "apns":
            return await self._http2.send(asked, reach)
        return await self._gate.transmit(asked, reach)

    async def _yield(self) -> None:
        """Yields to other tasks, for longer if the loop is busy."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(0)
        busy = loop.time() - began
        if busy > _BUSY_SECONDS:
            await asyncio.sleep(min(4 * busy, _LONGEST_PAUSE_SECONDS))

    # -- requests -------------------------------------------------------------------------------

    async def _prepared(self, token: PushToken, content: Content) -> PushRequest:
        credentials = await self._credentials.of(token.hub)
        now = int(self._clock.now() * 1000)
        left = content.note.seconds_left(now)
        return await _PREPARING[token.platform](self, token, content, credentials, left)

    async def _web_push(
        self, token: PushToken, content: Content, credentials: HubCredentials, left: int
    ) -> PushRequest:
        key = credentials.vapid_key(token.vapid_key)
        if key is None or token.p256dh is None or token.auth is None:
            raise NoCredentials("the VAPID key that the subscription was made with is gone")
        async with self._turn:
            sender, salt = _fresh_key(), randomness.token_bytes(SALT_BYTES)
            encrypted = encrypt_for(content.of("webpush"), token.p256dh, token.auth, sender, salt)
            origin, contact = origin_of(token.token), self._contact(token.hub)
            signature = self._authorizations.vapid(token.hub, key, origin, contact)
            await self._yield()
        return web_push_request(token, content.note, encrypted, signature, left)

    async def _fcm(
        self, token: PushToken, content: Content, credentials: HubCredentials, left: int
    ) -> PushRequest:
        account = credentials.fcm
        if account is None:
            raise NoCredentials("the hub has no service account for FCM")
        access = await self._authorizations.fcm(token.hub, account)
        return fcm_request(
            self._settings.fcm_url,
            account.project_id,
            token,
            content.note,
            content.of("fcm"),
            access,
            left,
        )

    async def _apns(
        self, token: PushToken, content: Content, credentials: HubCredentials, left: int
    ) -> PushRequest:
        key = credentials.apns
        if key is None:
            raise NoCredentials("the hub has no key for APNs")
        topic = token.topic or key.topic
        if topic is None:
            raise NoCredentials("neither the token nor the hub's key for APNs names a topic")
        if token.environment is None:
            token = msgspec.structs.replace(token, environment=key.environment)
        bearer = self._authorizations.apns(token.hub, key)
        base = self._address(token)
        return apns_request(base, topic, token, content.note, content.of("apns"), bearer)

    def _contact(self, hub: str) -> str:
        given = self._configuration_of(hub).settings.push_contact or self._settings.contact
        return given or "mailto:nobody@invalid.example"


_Preparing = Callable[[PushSender, PushToken, Content, HubCredentials, int], Awaitable[PushRequest]]
_PREPARING: dict[Platform, _Preparing] = {
    "webpush": PushSender._web_push,
    "fcm": PushSender._fcm,
    "apns": PushSender._apns,
}


def _fresh_key() -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())
