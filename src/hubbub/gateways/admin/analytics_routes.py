"""Routes of what the data pipeline found out."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.analytics import Rows, RowsQuery
from hubbub.domain.errors import NotFound, Unavailable
from hubbub.engine.administration import Administration
from hubbub.engine.administration.views import DataState
from hubbub.gateways.admin import shapes
from hubbub.gateways.calls import NoQuery, given
from hubbub.gateways.routes import Access, AdminRequest, Routes

ANALYTICS_ROUTES = Routes("/v1/admin", "Analytics", Access.ADMIN, (NotFound, Unavailable))


class HubRowsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    since: Annotated[datetime, Meta(tz=True, description="Only from this time on.")] | UnsetType = (
        UNSET
    )
    until: Annotated[datetime, Meta(tz=True, description="Only before this time.")] | UnsetType = (
        UNSET
    )
    limit: Annotated[int, Meta(ge=1, le=1000, description="Rows at most.")] = 100
    cursor: Annotated[int, Meta(ge=0, le=1_000_000, description="`next` of the page before.")] = 0
    step: (
        Annotated[
            int,
            Meta(
                ge=300,
                le=86_400,
                description="Seconds of which the rows are joined into one, over all hubs asked "
                "for: counts are added up, of levels the highest counts, other columns are left "
                "out. For `traffic` and `activity`.",
            ),
        ]
        | UnsetType
    ) = UNSET


class AllRowsQuery(HubRowsQuery, frozen=True, forbid_unknown_fields=True):
    hub: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=255,
                description="Only this hub; `*` is the sum of all, where a table has one.",
            ),
        ]
        | UnsetType
    ) = UNSET


class AnalyticsTable(shapes.Shape, frozen=True):
    """A table that the data pipeline makes."""

    table: str
    question: str


class AnalyticsTables(shapes.Shape, frozen=True):
    """The tables and views that can be queried."""

    tables: list[AnalyticsTable]


class AnalyticsRows(shapes.Shape, frozen=True):
    """Rows of a table, as the pipeline last wrote them. `computedAt` is in milliseconds, and null
    if it never ran. With `more` there are further rows: send `next` as `cursor`. Rows that the
    pipeline writes between two pages shift them: compare `computedAt`."""

    table: str
    columns: list[str]
    rows: list[dict[str, Any]]
    more: bool
    computed_at: int | None
    next: int | None = None


@ANALYTICS_ROUTES.serve(
    "GET", "/hubs/{hub}/analytics", name="listHubAnalytics", access=Access.SERVICE,
    summary="List the tables of the data pipeline, for a hub", errors=(NotFound,),
)  # fmt: skip
@ANALYTICS_ROUTES.serve("GET", "/analytics", errors=())
async def list_analytics(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> AnalyticsTables:
    """List the tables of the data pipeline."""
    tables = admin.analytics.tables(request.path.get("hub"))
    return AnalyticsTables(
        tables=[AnalyticsTable(table=each.name, question=each.question) for each in tables]
    )


@ANALYTICS_ROUTES.serve("GET", "/data", errors=())
async def get_data_state(admin: Administration, request: AdminRequest[NoQuery, None]) -> DataState:
    """See how the journal and the data pipeline are doing."""
    return await admin.analytics.state()


@ANALYTICS_ROUTES.serve("GET", "/analytics/{table}")
async def get_analytics(
    admin: Administration, request: AdminRequest[AllRowsQuery, None]
) -> AnalyticsRows:
    """Read rows of a table, of all hubs or of one."""
    query = _query(request, given(request.query.hub))
    return _shown(await admin.analytics.rows(query), query)


@ANALYTICS_ROUTES.serve("GET", "/hubs/{hub}/analytics/{table}", access=Access.SERVICE)
async def get_hub_analytics(
    admin: Administration, request: AdminRequest[HubRowsQuery, None]
) -> AnalyticsRows:
    """Read rows of a table, of one hub."""
    query = _query(request, request.hub)
    return _shown(await admin.analytics.rows_of_hub(query), query)


def _query(request: AdminRequest[Any, None], hub: str | None) -> RowsQuery:
    since, until = given(request.query.since), given(request.query.until)
    return RowsQuery(
        table=request.path["table"],
        hub=hub,
        since=since.timestamp() if since is not None else None,
        until=until.timestamp() if until is not None else None,
        limit=request.query.limit,
        offset=request.query.cursor,
        step_seconds=given(request.query.step) or 0,
    )


def _shown(found: Rows, query: RowsQuery) -> AnalyticsRows:
    at = found.computed_at
    return AnalyticsRows(
        table=found.table,
        columns=found.columns,
        rows=found.rows,
        more=found.more,
        computed_at=int(at * 1000) if at is not None else None,
        next=query.offset + len(found.rows) if found.more else None,
    )
