"""Endpoints by URL or by subject: whichever way an auth provider or a service is reached."""

from __future__ import annotations

from hubbub.domain.errors import AuthProviderFailed, ServiceUnavailable
from hubbub.domain.permissions import Identity
from hubbub.domain.rules import NATS_SCHEME, AuthProvider, RpcRoute
from hubbub.domain.services import ServiceAnswer, ServiceCall
from hubbub.ports.authenticator import Authenticator
from hubbub.ports.services import ServiceCaller

_NO_NATS = "this hub is not connected to NATS; set broker.host, or use a URL"


class Authenticators:
    """Implements `ports.authenticator.Authenticator`."""

    def __init__(self, http: Authenticator, over_nats: Authenticator | None) -> None:
        self._http = http
        self._over_nats = over_nats

    async def authenticate(
        self, provider: AuthProvider, hub: str, session_id: str, credentials: bytes
    ) -> Identity:
        chosen = self._http
        if provider.url.startswith(NATS_SCHEME):
            if self._over_nats is None:
                raise AuthProviderFailed(
                    f"the auth provider of hub {hub!r} cannot be asked: {_NO_NATS}"
                )
            chosen = self._over_nats
        return await chosen.authenticate(provider, hub, session_id, credentials)


class ServiceCallers:
    """Implements `ports.services.ServiceCaller`. A method without a route is asked for on NATS,
    where there is one."""

    def __init__(self, http: ServiceCaller, over_nats: ServiceCaller | None) -> None:
        self._http = http
        self._over_nats = over_nats

    async def call(
        self, route: RpcRoute | None, call: ServiceCall, seconds: float, max_bytes: int
    ) -> ServiceAnswer:
        if route is not None and not route.url.startswith(NATS_SCHEME):
            return await self._http.call(route, call, seconds, max_bytes)
        if self._over_nats is not None:
            return await self._over_nats.call(route, call, seconds, max_bytes)
        if route is not None:
            raise ServiceUnavailable(f"the service for {call.method!r} is away: {_NO_NATS}")
        return await self._http.call(None, call, seconds, max_bytes)
