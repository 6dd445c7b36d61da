"""Access control of metrics, which reveal the names and usage of all hubs."""

from __future__ import annotations

import hmac

from hubbub.domain.errors import NotAuthenticated, NotPermitted
from hubbub.domain.permissions import Level
from hubbub.engine.access.credentials import CredentialCheck
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.gateways.credentials import bearer_of
from hubbub.gateways.http import ReceivedRequest


class MetricsAccess:
    """Admits administrators of all hubs, and holders of the metrics token."""

    def __init__(self, credentials: CredentialCheck, token: str | None, everyone: bool) -> None:
        """`token` permits only metrics; None: there is none. `everyone`: in developer mode."""
        self._credentials = credentials
        self._token = token.encode() if token is not None else None
        self._everyone = everyone

    def check(self, request: ReceivedRequest) -> None:
        """Raises `NotAuthenticated`, `InvalidToken`, `NotPermitted`, `RateLimited`."""
        if self._everyone:
            return
        token = bearer_of(request)
        if token is None:
            raise NotAuthenticated(
                "metrics are for operators: send 'Authorization: Bearer …' with the token of "
                "admin.metricsToken, or of an administrator of all hubs"
            )
        given = token.encode("utf-8", "replace")
        if self._token is None or not hmac.compare_digest(given, self._token):
            identity = self._credentials.verify(token, ANY_HUB, request.address)
            if identity.level is Level.SERVICE:
                raise NotPermitted("metrics are not for services; use admin.metricsToken")
