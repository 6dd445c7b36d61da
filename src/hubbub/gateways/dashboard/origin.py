"""The origin of the dashboard: the hub's, or one of its own.

Its own origin serves nothing else that a browser could load as a document or a script. The page's
requests for a tenant's data go there, too, but only scripts get responses."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.domain.errors import NotFound
from hubbub.gateways.http import ReceivedRequest
from hubbub.gateways.settings import DashboardOrigin

SEGMENT = "dashboard"


class DashboardPlace:
    """Decides which requests belong to the dashboard's origin."""

    def __init__(self, settings: DashboardOrigin) -> None:
        self._host = settings.host.lower() if settings.host is not None else None
        self._port = settings.port
        self._shared = settings.host is None and settings.port is None

    def check(
        self,
        request: ReceivedRequest,
        segments: Sequence[str],
        at_port: bool,
        upgrade: bool = False,
    ) -> None:
        """`at_port`: the request arrived at the dashboard's own port. Raises `NotFound` for the
        dashboard at another origin, and for other paths at the dashboard's."""
        if self._shared:
            return
        here = at_port or self._port is None
        if self._host is not None:
            here = here and self._is_named(request)
        if segments[:1] == (SEGMENT,):
            if not here:
                raise NotFound("the dashboard has an origin of its own; see `listener.dashboard`")
        elif (at_port or here) and not (here and _for_page(request, segments, upgrade)):
            raise NotFound("only the dashboard is served here; use the hub's own address")

    def _is_named(self, request: ReceivedRequest) -> bool:
        named = (request.header(b"host") or "").lower()
        if self._host != named and ":" not in (self._host or ""):
            named = named.partition(":")[0]
        return named == self._host


def _for_page(request: ReceivedRequest, segments: Sequence[str], upgrade: bool) -> bool:
    """Whether a script of the page requests data of a hub. A socket cannot become a document, and
    its origin is checked elsewhere."""
    if tuple(segments[:2]) != ("v1", "hubs"):
        return False
    return upgrade or (
        request.header(b"sec-fetch-site") == "same-origin"
        and request.header(b"sec-fetch-dest") == "empty"
    )
