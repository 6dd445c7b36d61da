"""The catalogue of analytics tables, and the types of queries and results.

The pipeline writes the tables; the command line and the admin API show them. This module holds what
all three share, and imports no library that reads tables.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from hubbub.domain.errors import NotFound

WHOLE_TABLE_ROWS: Final = 1_000_000
"""The most rows that are read at once. Larger tables need Spark."""


class Table(msgspec.Struct, frozen=True):
    """A table that the pipeline writes."""

    name: str
    question: str
    """The question that the table answers, in one sentence."""
    time: str | None
    """The time column: a timestamp, or an hour or day as text."""
    order: tuple[str, ...]
    """The columns by which rows are sorted; a leading minus means descending."""
    counts: tuple[str, ...] = ()
    """Columns that are summed when rows of one time step are merged."""
    levels: tuple[str, ...] = ()
    """Columns whose maximum is taken when rows of one time step are merged."""


def _table(
    name: str, question: str, time: str | None, order: str, counts: str = "", levels: str = ""
) -> Table:
    columns = (tuple(names.split()) for names in (order, counts, levels))
    return Table(name, question, time, *columns)


TABLES: Final = (
    _table(
        "traffic",
        "How many messages and bytes went in and out of each hub, and how fast?",
        "time",
        "-time hub",
        counts="messages_in bytes_in messages_out bytes_out dropped",
    ),
    _table(
        "latency",
        "How long do messages take to reach subscribers, by channel, technology and hour?",
        "hour",
        "-hour -deliveries",
    ),
    _table(
        "channels",
        "What was published to which channel, and of which type, in each hour?",
        "hour",
        "-hour -messages",
    ),
    _table(
        "changes",
        "How many sessions and subscriptions began and ended, in slots of five minutes?",
        "time",
        "-time hub",
    ),
    _table(
        "sessions_hourly",
        "How many sessions were opened in each hour, and how long did they last?",
        "time",
        "-time hub",
    ),
    _table(
        "links", "Which messages belong to a conversation or answer another message?", "at", "-at"
    ),
    _table(
        "terms", "Which words are in how many messages, in each hour?", "hour", "-hour -messages"
    ),
    _table(
        "sessions_daily",
        "How many sessions were opened on each day, and how long did they last?",
        "day",
        "-day hub",
    ),
    _table(
        "adapter_success",
        "How often does each adapter get a message through, and what usually goes wrong?",
        "day",
        "-day hub adapter",
    ),
    _table("policy_success", "How often was each delivery policy met?", "day", "-day hub policy"),
    _table(
        "documents",
        "Which documents are changed most, by how many people, and how large are they?",
        "day",
        "-day -changes hub channel",
    ),
    _table(
        "notifications",
        "How many notifications were created, how many are read, and how soon?",
        "day",
        "-day hub",
    ),
    _table(
        "pushes",
        "How often does each push platform take a message, and what becomes of the rest?",
        "day",
        "-day hub platform",
    ),
    _table(
        "latency_overall",
        "Which technologies and channels are fast, and which are slow, over all time?",
        None,
        "-deliveries",
    ),
    _table(
        "activity",
        "How many sessions, channels and hubs were active at what time?",
        "time",
        "-time hub",
        levels="active_sessions active_channels active_hubs active_subscriptions",
    ),
    _table("replies", "Who answered what, and after how long?", "answered_at", "-answered_at"),
    _table("responses", "How fast does each peer answer, day by day?", "day", "-day -answers"),
    _table(
        "peers",
        "Who are the peers: how much do they write, when, and how fast do they answer?",
        "last_at",
        "-messages",
    ),
    _table(
        "thread_messages", "Which messages make up a thread, in order?", "at", "hub thread position"
    ),
    _table(
        "threads",
        "Which threads are there, who took part, and how did they go?",
        "last_at",
        "-last_at",
    ),
    _table(
        "trending",
        "Which channels, types of messages and words are used more than they usually are?",
        "time",
        "-time hub kind rank",
    ),
    _table(
        "audit",
        "Was every message put and received exactly once and in order? If not, by whom?",
        "since",
        "-lost -doubled -out_of_order kind hub name",
    ),
    _table(
        "forecast",
        "How much load will each hour of the coming week bring, and how many nodes?",
        "time",
        "held_back time hub",
    ),
    _table(
        "forecast_errors",
        "How good is the forecast, and does it beat the same hour yesterday?",
        None,
        "hub measure",
    ),
)
"""Ordered by dependency: each table comes after the tables that it is computed from. Columns are
explained in `docs/analytics.md`."""

QUARANTINE: Final = _table(
    "quarantine", "Which records of the journal could not be taken in, and why?", "hour", "-hour"
)
LISTED: Final = (*TABLES, QUARANTINE)
"""The tables that can be queried."""

_BY_NAME: Final = {table.name: table for table in LISTED}


def table_named(name: str) -> Table:
    """Raises `NotFound`, whose message lists the tables."""
    try:
        return _BY_NAME[name]
    except KeyError:
        known = ", ".join(sorted(_BY_NAME))
        raise NotFound(f"there is no table {name!r}; there are {known}") from None


class RowsQuery(msgspec.Struct, frozen=True):
    """Selects rows of a table. Times are seconds since 1970."""

    table: str
    hub: str | None = None
    since: float | None = None
    until: float | None = None
    """Exclusive."""
    limit: int = 100
    offset: int = 0
    """How many rows are skipped."""
    step_seconds: int = 0
    """Rows of all selected hubs within this many seconds are merged into one row; 0: no merging.
    Only for tables with `counts` or `levels`."""


class Rows(msgspec.Struct, frozen=True):
    """Rows of a table, in its order."""

    table: str
    columns: list[str]
    rows: list[dict[str, Any]]
    more: bool
    """Whether more rows follow."""
    computed_at: float | None
    """When the pipeline last wrote its tables, in seconds since 1970; None: it never ran."""
