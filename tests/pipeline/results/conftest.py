"""A small warehouse with something in each table that the report shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.warehouse import durations, write_warehouse

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
NASTY = '<script>alert("x")</script>&\'"'


def slot(minutes: int, hub: str = "acme", **counts: int) -> dict[str, Any]:
    return {
        "hub": hub,
        "time": NOON + timedelta(minutes=minutes),
        "messages_in": 0,
        "bytes_in": 0,
        "messages_out": 0,
        "bytes_out": 0,
        "dropped": 0,
        **counts,
        **durations("latency", 1024, 1100),
    }


def forecast(hours: int, held_back: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "hub": "*",
        "time": NOON + timedelta(hours=hours),
        "held_back": held_back,
        "nodes": 3,
    }
    for name in ("messages_in", "messages_out"):
        row |= {
            name: 100.0,
            f"{name}_low": 90.0,
            f"{name}_high": 110.0,
            f"{name}_actual": 105 if held_back else None,
            f"{name}_yesterday": 80,
        }
    return row


TABLES: dict[str, dict[str, list[dict[str, Any]]]] = {
    "traffic": {
        "2026-11-02T11": [slot(-5, messages_in=7, bytes_in=70), slot(-5, "other", messages_in=1)],
        "2026-11-02T12": [
            slot(0, messages_in=1000, bytes_in=2500, messages_out=4321, dropped=2),
            slot(5, messages_in=234),
        ],
    },
    "sessions_hourly": {
        "2026-11-02T12": [
            {
                "hub": "acme",
                "time": NOON,
                "sessions": 3,
                "still_open": 1,
                **durations("duration", 2**27, 2**27),
            }
        ]
    },
    "activity": {
        "": [
            {
                "hub": hub,
                "time": NOON,
                "active_sessions": 3,
                "active_subscriptions": 2,
                "active_channels": 1,
                "active_hubs": 1,
            }
            for hub in ("*", "acme")
        ]
    },
    "latency_overall": {
        "": [
            {
                "hub": "acme",
                "channel": channel,
                "technology": "websocket",
                "deliveries": 2,
                "bytes": 20,
                **durations("latency", 1024, 1100),
            }
            for channel in (None, NASTY)
        ]
    },
    "threads": {
        "": [
            {
                "hub": "acme",
                "thread": NASTY,
                "started_by": NASTY,
                "first_at": NOON,
                "last_at": NOON,
                "duration": 5_000_000,
                "messages": 4,
                "participants": 2,
                "crosses": True,
                "response_mean": 2e6,
            }
        ]
    },
    "peers": {
        "": [
            {
                "hub": "acme",
                "peer": NASTY,
                "messages": 4,
                "answers": 2,
                "last_at": NOON,
                **durations("response", 2_000_000),
            }
        ]
    },
    "trending": {
        "": [
            {
                "hub": "acme",
                "kind": kind,
                "name": NASTY,
                "time": NOON,
                "messages": 12,
                "usual": 1.5,
                "score": 7.5,
                "rank": 1,
            }
            for kind in ("channel", "type", "term")
        ]
    },
    "audit": {
        "": [
            {
                "kind": "producer",
                "hub": "acme",
                "channel": "news",
                "name": NASTY if lost else "good",
                "verdict": "lost" if lost else "exactly once",
                "messages": 10,
                "lost": lost,
                "doubled": 0,
                "out_of_order": 0,
                "since": NOON,
            }
            for lost in (0, 3)
        ]
    },
    "adapter_success": {
        "2026-11-02": [
            {
                "hub": "acme",
                "adapter": "mail",
                "policy": None,
                "deliveries": 4,
                "success": 0.75,
                "attempts": 6,
                "usual_failure": NASTY,
                "duration_p90": 3000.0,
            }
        ]
    },
    "policy_success": {
        "2026-11-02": [{"hub": "acme", "policy": "PREFERRED", "deliveries": 4, "success": 0.5}]
    },
    "forecast": {"": [forecast(-1, True), forecast(0, False), forecast(1, False)]},
    "forecast_errors": {
        "": [
            {
                "hub": "*",
                "measure": "messages_in",
                "hours": 168,
                "error_share": 0.12,
                "yesterday_error_share": 0.25,
                "verdict": "better than the same hour yesterday",
            }
        ]
    },
}


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "warehouse"
    write_warehouse(folder, TABLES)
    return folder
