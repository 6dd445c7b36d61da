"""Routes of the counters that survive a restart."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import NotFound
from hubbub.domain.metering import ALL_HUBS, KeptFigures
from hubbub.engine.administration import Administration
from hubbub.engine.metering.service import KeptCounters
from hubbub.gateways.routes import Access, AdminRequest, Routes

_LATEST = 1 << 40


class FiguresQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    since: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=_LATEST,
                description="Seconds since 1970; without it, 24 hours before `until`.",
            ),
        ]
        | UnsetType
    ) = UNSET
    until: (
        Annotated[int, Meta(ge=0, le=_LATEST, description="Seconds since 1970; without it, now.")]
        | UnsetType
    ) = UNSET
    step: Annotated[
        int,
        Meta(
            ge=300,
            le=31_536_000,
            multiple_of=300,
            description="Seconds of each step, a multiple of 300.",
        ),
    ] = 300


ROUTES = Routes("/v1/admin", "Figures", Access.ADMIN)


@ROUTES.serve("GET", "/kept-counters")
async def get_all_kept_counters(
    admin: Administration, request: AdminRequest[FiguresQuery, None]
) -> KeptFigures:
    """Read the counters of all hubs together that survive restarts."""
    return await _read(admin, ALL_HUBS, request.query)


@ROUTES.serve("GET", "/hubs/{hub}/kept-counters", access=Access.SERVICE, errors=(NotFound,))
async def get_kept_counters(
    admin: Administration, request: AdminRequest[FiguresQuery, None]
) -> KeptFigures:
    """Read the counters of a hub that survive restarts."""
    admin.node.directory.get(request.hub)
    return await _read(admin, request.hub, request.query)


async def _read(admin: Administration, hub: str, query: FiguresQuery) -> KeptFigures:
    counters = admin.node.feature(KeptCounters)
    since = None if query.since is UNSET else query.since
    until = None if query.until is UNSET else query.until
    return await counters.read(hub, since, until, query.step)
