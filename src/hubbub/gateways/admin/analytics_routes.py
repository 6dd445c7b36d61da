"""Routes of what the data pipeline found out."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.analytics import Rows, RowsQuery
from hubbub.domain.errors import NotFound, Unavailable
from hubbub.engine.administration import Administration
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.paging import given
from hubbub.gateways.admin.routes import Access, Answer, AnyRoute, Call, NoQuery, Route

_ALL = "/v1/admin/analytics"
_HUB = "/v1/admin/hubs/{hub}/analytics"


class HubRowsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    since: Annotated[datetime, Meta(tz=True, description="Only from this time on.")] | UnsetType = (
        UNSET
    )
    until: Annotated[datetime, Meta(tz=True, description="Only before this time.")] | UnsetType = (
        UNSET
    )
    limit: Annotated[int, Meta(ge=1, le=1000, description="Rows at most.")] = 100


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
    """What can be asked for."""

    tables: list[AnalyticsTable]


class AnalyticsRows(shapes.Shape, frozen=True):
    """Rows of a table, as the pipeline last wrote them. `computedAt` is in milliseconds, and null
    if it never ran. With `more` there are further rows: ask for another time, or for more."""

    table: str
    columns: list[str]
    rows: list[dict[str, Any]]
    more: bool
    computed_at: int | None


async def list_analytics(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    tables = admin.analytics.tables(call.path.get("hub"))
    return Answer(
        AnalyticsTables(
            tables=[AnalyticsTable(table=each.name, question=each.question) for each in tables]
        )
    )


async def get_analytics(admin: Administration, call: Call[AllRowsQuery, None]) -> Answer:
    found = await admin.analytics.rows(_query(call, given(call.query.hub)))
    return Answer(_shown(found))


async def get_hub_analytics(admin: Administration, call: Call[HubRowsQuery, None]) -> Answer:
    found = await admin.analytics.rows_of_hub(_query(call, call.hub))
    return Answer(_shown(found))


def _query(call: Call[Any, None], hub: str | None) -> RowsQuery:
    since, until = given(call.query.since), given(call.query.until)
    return RowsQuery(
        table=call.path["table"],
        hub=hub,
        since=since.timestamp() if since is not None else None,
        until=until.timestamp() if until is not None else None,
        limit=call.query.limit,
    )


def _shown(found: Rows) -> AnalyticsRows:
    at = found.computed_at
    return AnalyticsRows(
        table=found.table,
        columns=found.columns,
        rows=found.rows,
        more=found.more,
        computed_at=int(at * 1000) if at is not None else None,
    )


ANALYTICS_ROUTES: list[AnyRoute] = [
    Route(
        method="GET", path=_ALL, operation_id="listAnalytics", tag="Analytics",
        summary="List the tables of the data pipeline", access=Access.ADMIN,
        handler=list_analytics, query=NoQuery, answers={200: AnalyticsTables},
    ),
    Route(
        method="GET", path=f"{_ALL}/{{table}}", operation_id="getAnalytics", tag="Analytics",
        summary="Read rows of a table, of all hubs or of one", access=Access.ADMIN,
        handler=get_analytics, query=AllRowsQuery, answers={200: AnalyticsRows},
        errors=(NotFound, Unavailable),
    ),
    Route(
        method="GET", path=_HUB, operation_id="listHubAnalytics", tag="Analytics",
        summary="List the tables of the data pipeline, for a hub", access=Access.SERVICE,
        handler=list_analytics, query=NoQuery, answers={200: AnalyticsTables},
        errors=(NotFound,),
    ),
    Route(
        method="GET", path=f"{_HUB}/{{table}}", operation_id="getHubAnalytics", tag="Analytics",
        summary="Read rows of a table, of one hub", access=Access.SERVICE,
        handler=get_hub_analytics, query=HubRowsQuery, answers={200: AnalyticsRows},
        errors=(NotFound, Unavailable),
    ),
]  # fmt: skip
