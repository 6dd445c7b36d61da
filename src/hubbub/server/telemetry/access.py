"""Who may read the metrics, which name all hubs and tell how much each of them is used."""

from __future__ import annotations

import hmac

from hubbub.domain.errors import NotAuthenticated
from hubbub.engine.access.credentials import Credentials
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.gateways.credentials import bearer_of
from hubbub.gateways.http import Request


class MetricsAccess:
    """Lets administrators of all hubs in, and whoever has the token that is for metrics only."""

    def __init__(self, credentials: Credentials, token: str | None, everyone: bool) -> None:
        """`token` opens nothing else; None: there is none. `everyone`: in developer mode."""
        self._credentials = credentials
        self._token = token.encode() if token is not None else None
        self._everyone = everyone

    def check(self, request: Request) -> None:
        """Raises `NotAuthenticated`, `InvalidToken`, `RateLimited`."""
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
            self._credentials.verify(token, ANY_HUB, request.address)
