"""Sessions and what is active over time, against figures that were worked out by hand."""

from __future__ import annotations

import pytest

from harness.views import clock, records, rows, silver, view

pytestmark = pytest.mark.timeout(300)
SECOND = 1_000_000


def session(name: str, opened: str, closed: str | None = None, **more: object) -> dict[str, object]:
    row: dict[str, object] = {"session": name, "opened_at": clock(opened), **more}
    if closed is not None:
        row["closed_at"] = clock(closed)
        row["duration"] = int((clock(closed) - clock(opened)).total_seconds() * SECOND)
    return row


@pytest.mark.spec("PIPE-03")
def test_sessions_per_hour_and_day_with_their_durations() -> None:
    sources = silver(
        sessions=[
            session("a", "09:00:00", "09:02:00"),
            session("b", "09:30:00", "09:34:00"),
            session("c", "09:59:00", "12:59:00"),
            session("d", "10:00:00"),
            session("e", "10:00:00", "10:01:00", hub="other"),
        ],
    )
    found = rows(
        view("sessions_hourly", sources),
        "hub", "time", "sessions", "still_open", "duration_min", "duration_mean", "duration_max",
    )  # fmt: skip
    assert found == [
        ("acme", clock("09:00"), 3, 0, 120 * SECOND, 62 * 60.0 * SECOND, 180 * 60 * SECOND),
        ("acme", clock("10:00"), 1, 1, None, None, None),
        ("other", clock("10:00"), 1, 0, 60 * SECOND, 60.0 * SECOND, 60 * SECOND),
    ]
    daily = records(view("sessions_daily", sources), hub="acme")
    assert [(row.day, row.sessions, row.still_open) for row in daily] == [("2026-11-02", 4, 1)]
    assert daily[0].duration_p50 == pytest.approx(240 * SECOND, rel=0.05)
    assert daily[0].duration_p90 == pytest.approx(180 * 60 * SECOND, rel=0.05)


@pytest.mark.spec("PIPE-03")
def test_what_is_active_is_counted_in_every_slot_that_it_touches() -> None:
    sources = silver(
        sessions=[
            session("a", "10:01:00", "10:11:00"),  # 10:00, 10:05, 10:10
            session("b", "10:06:00", "10:07:00"),  # 10:05
            session("c", "10:16:00"),  # from 10:15 on
            session("d", "10:12:00", "10:13:00", hub="other"),
        ],
        subscriptions=[{"started_at": clock("10:02"), "ended_at": clock("10:06"), "session": "a"}],
        messages=[
            {"at": clock("10:03"), "channel": "x"},
            {"at": clock("10:04"), "channel": "x"},
            {"at": clock("10:04"), "channel": "y"},
            {"at": clock("10:21"), "channel": "y", "hub": "other"},
        ],
        deliveries=[
            {"at": clock("10:04"), "channel": "z", "count": 1},
            {"at": clock("10:04"), "channel": "y", "count": 1},
        ],
    )
    columns = (
        "hub", "time", "active_sessions", "active_subscriptions", "active_channels", "active_hubs",
    )  # fmt: skip
    assert rows(view("activity", sources), *columns) == [
        ("*", clock("10:00"), 1, 1, 3, 1),
        ("*", clock("10:05"), 2, 1, 0, 1),
        ("*", clock("10:10"), 2, 0, 0, 2),
        ("*", clock("10:15"), 1, 0, 0, 1),
        ("*", clock("10:20"), 1, 0, 1, 2),
        ("acme", clock("10:00"), 1, 1, 3, 1),
        ("acme", clock("10:05"), 2, 1, 0, 1),
        ("acme", clock("10:10"), 1, 0, 0, 1),
        ("acme", clock("10:15"), 1, 0, 0, 1),
        ("acme", clock("10:20"), 1, 0, 0, 1),
        ("other", clock("10:10"), 1, 0, 0, 1),
        ("other", clock("10:15"), 0, 0, 0, 0),
        ("other", clock("10:20"), 0, 0, 1, 1),
    ]


def test_a_session_that_outlives_what_is_shown_still_counts() -> None:
    long_ago = {"session": "a", "opened_at": clock("10:00", days=-40)}
    ended = {
        "session": "b",
        "opened_at": clock("10:00", days=-40),
        "closed_at": clock("11:00", days=-39),
    }
    sources = silver(sessions=[long_ago, ended, session("c", "10:00", "10:01")])
    found = records(view("activity", sources).sort_by("time"), hub="acme")
    assert (found[-1].active_sessions, found[1].active_sessions) == (2, 1)
    assert len(found) == 31 * 288 + 1
