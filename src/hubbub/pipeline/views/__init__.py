"""The views: each answers one question, in a module of its own name, from materialised tables.

`docs/analytics.md` says what each one answers. Nothing here needs Spark.
"""

from __future__ import annotations

from typing import Final

from hubbub.pipeline.views import (
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
from hubbub.pipeline.views.view import View

VIEWS: Final[dict[str, View]] = {
    module.VIEW.name: module.VIEW
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
}
"""By name, each after those that it reads."""
