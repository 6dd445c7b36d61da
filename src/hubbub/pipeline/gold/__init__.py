"""The gold tables: each answers one question, in a module of its own name.

Tables by the hour come first. They are small, can be added up, and cost only the hours that
changed; tables by the day and over all time are made from them. `docs/analytics.md` says what each
one answers.
"""

from __future__ import annotations

from hubbub.pipeline.gold import (
    activity,
    adapter_success,
    audit,
    changes,
    channels,
    forecast,
    forecast_errors,
    latency,
    latency_overall,
    links,
    peer_hours,
    peer_sessions,
    peers,
    policy_success,
    replies,
    responses,
    runs,
    sessions_daily,
    sessions_hourly,
    terms,
    thread_messages,
    threads,
    traffic,
    trending,
)
from hubbub.pipeline.gold_tables import GoldTable

TABLES: tuple[GoldTable, ...] = tuple(
    module.TABLE
    for module in (
        traffic,
        latency,
        channels,
        changes,
        sessions_hourly,
        links,
        peer_hours,
        peer_sessions,
        terms,
        runs,
        sessions_daily,
        adapter_success,
        policy_success,
        latency_overall,
        activity,
        replies,
        responses,
        peers,
        thread_messages,
        threads,
        trending,
        audit,
        forecast,
        forecast_errors,
    )
)
"""In an order in which each comes after those that it reads."""
