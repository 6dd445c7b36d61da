"""Traffic and latency, against figures that were worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from harness.views import clock, records, rows, silver, view
from hubbub.pipeline import spreads
from hubbub.pipeline.models.evaluating import connected

pytestmark = pytest.mark.timeout(300)


def bucket(microseconds: float) -> int:
    return math.floor(8 * math.log2(microseconds))


def delivered(at: str, *latencies: int, **more: object) -> dict[str, object]:
    """One record of deliveries that took so long."""
    buckets: dict[int, int] = {}
    for latency in latencies:
        buckets[bucket(latency)] = buckets.get(bucket(latency), 0) + 1
    return {
        "at": clock(at),
        "messages": 1,
        "count": len(latencies),
        "size": 100 * len(latencies),
        "latency_min": min(latencies),
        "latency_max": max(latencies),
        "latency_sum": sum(latencies),
        "latency_squares": float(sum(each * each for each in latencies)),
        "latency_buckets": buckets,
        **more,
    }


def fetched(at: str, *latencies: int, **more: object) -> dict[str, object]:
    found = delivered(at, *latencies, **more)
    del found["messages"]
    return found


@pytest.mark.spec("PIPE-03")
def test_traffic_is_counted_in_slots_of_five_minutes() -> None:
    sources = silver(
        messages=[
            {"at": clock("10:00:00"), "size": 10},
            {"at": clock("10:04:59.999999"), "size": 20},
            {"at": clock("10:05:00"), "size": None},
            {"at": clock("11:00:00"), "size": 40, "hub": "other"},
        ],
        deliveries=[
            delivered("10:01:00", 1000, 1000, 1000),
            delivered("10:06:00", 1000, 2000, 4000, 8000),
        ],
        drops=[
            {"at": clock("10:06:00"), "count": 5},
            {"at": clock("10:06:00"), "count": 7, "kind": "journal.lost"},
        ],
    )
    found = rows(
        view("traffic", sources),
        "hub", "time", "messages_in", "bytes_in", "messages_out", "bytes_out", "dropped", "hour",
    )  # fmt: skip
    assert found == [
        ("acme", clock("10:00"), 2, 30, 3, 300, 0, "2026-11-02T10"),
        ("acme", clock("10:05"), 1, 0, 4, 400, 5, "2026-11-02T10"),
        ("other", clock("11:00"), 1, 40, 0, 0, 0, "2026-11-02T11"),
    ]


@pytest.mark.spec("PIPE-03")
def test_latency_is_exact_but_for_percentiles_which_are_within_five_percent() -> None:
    fast, slow = [1000] * 89, [50_000] * 11
    sources = silver(
        deliveries=[
            delivered("10:01:00", *fast),
            delivered("10:59:00", *slow),
            delivered("10:01:00", 300, technology="sse"),
        ],
    )
    found = {row.technology: row for row in records(view("latency", sources), channel="news")}
    websocket, sse = found["websocket"], found["sse"]
    mean = (89 * 1000 + 11 * 50_000) / 100
    assert websocket.deliveries == websocket.latency_count == 100
    assert (websocket.latency_min, websocket.latency_max) == (1000, 50_000)
    assert websocket.latency_mean == pytest.approx(mean)
    squares = (89 * 1000**2 + 11 * 50_000**2) / 100
    assert websocket.latency_stddev == pytest.approx(math.sqrt(squares - mean**2))
    assert websocket.latency_p50 == pytest.approx(1000, rel=0.05)
    assert websocket.latency_p90 == pytest.approx(50_000, rel=0.05)
    assert websocket.latency_p99 == pytest.approx(50_000, rel=0.05)
    assert (sse.latency_p50, sse.latency_p99, sse.latency_stddev) == (300, 300, 0)


@pytest.mark.spec("PIPE-03")
def test_gets_of_durable_subscriptions_have_a_latency_by_technology() -> None:
    """Handed out once more, to a webhook, or acknowledged: no delivery. A replay has no latency."""
    got = {"kind": "message.received", "delivery": 1}
    replay = {**dict.fromkeys(delivered("10:01", 1), None), "at": clock("10:03"), "count": 4}
    sources = silver(
        deliveries=[delivered("10:02", 700), replay],
        receipts=[
            fetched("10:01", 1000, 3000, **got, technology="http"),
            fetched("10:02", 9000, **got, technology="zeromq"),
            fetched("10:03", 1000, **{**got, "delivery": 2}, technology="http"),
            {**got, "at": clock("10:04"), "count": 1},
            {"kind": "message.acknowledged", "at": clock("10:05"), "count": 1},
        ],
    )
    columns = ("technology", "deliveries", "latency_min", "latency_mean", "latency_max")
    assert rows(view("latency", sources), *columns) == [
        ("http", 2, 1000, 2000, 3000),
        ("websocket", 5, 700, 700, 700),
        ("zeromq", 1, 9000, 9000, 9000),
    ]


@pytest.mark.spec("PIPE-03")
def test_hours_add_up_to_what_all_deliveries_at_once_would_give() -> None:
    latencies = [100 + 37 * step for step in range(500)]
    parts = [
        delivered(f"{10 + place}:01:00", *latencies[place::5], channel=f"c{place % 2}")
        for place in range(5)
    ]
    apart = view("latency_overall", silver(deliveries=parts))
    whole = view("latency_overall", silver(deliveries=[delivered("10:01:00", *latencies)]))
    columns = [
        "deliveries", "bytes", "latency_min", "latency_mean", "latency_stddev", "latency_p50",
        "latency_p90", "latency_p99", "latency_max", "latency_count",
    ]  # fmt: skip
    assert _of_hub(apart, columns) == _of_hub(whole, columns)
    assert rows(apart, "channel", "deliveries") == [(None, 500), ("c0", 300), ("c1", 200)]
    (row,) = records(whole, channel=None)
    assert row.latency_p90 == pytest.approx(sorted(latencies)[449], rel=0.05)


def _of_hub(overall: pa.Table, columns: list[str]) -> list[tuple[Any, ...]]:
    return rows(overall.filter(pc.is_null(overall["channel"])), *columns)


def test_deliveries_without_latency_count_all_the_same() -> None:
    plain = {"at": clock("10:01"), "count": 3, "size": 30}
    (row,) = records(view("traffic", silver(deliveries=[plain])))
    assert (row.messages_out, row.bytes_out, row.latency_p50) == (3, 30, None)


@pytest.mark.parametrize("value", [0, 1, 2, 255, 256, 257, 1_000_000, 86_400_000_000])
def test_a_duration_lies_in_its_bucket(value: int) -> None:
    each = spreads.of_each(pa.table({"took": [value]}), "took", "took")
    (((found, count),),) = each["took_buckets"].to_pylist()
    assert 2 ** (found / 8) <= max(value, 1) < 2 ** ((found + 1) / 8)
    assert count == 1


def test_a_bucket_in_sql_is_the_one_of_the_journal() -> None:
    values = [0, 3, 999, *(2**power + off for power in range(1, 50) for off in (-1, 0, 1))]
    each = spreads.of_each(pa.table({"took": values}), "took", "took")
    with connected() as connection:
        connection.register("durations", pa.table({"took": values}))
        sql = "SELECT took, bucket_of(took) AS bucket FROM durations"
        found = dict(connection.sql(sql).fetchall())
    assert [found[value] for value in values] == [
        pairs[0][0] for pairs in each["took_buckets"].to_pylist()
    ]


@pytest.mark.spec("PIPE-03")
def test_webhooks_have_latencies_by_technology_from_publishing_to_the_callbacks_answer() -> None:
    def notified(technology: str, milliseconds: int, **more: object) -> dict[str, object]:
        return {
            "kind": "webhook.attempt",
            "channel": "orders",
            "technology": technology,
            "at": clock(f"10:00:{milliseconds / 1000}"),
            "published_at": clock("10:00"),
            **more,
        }

    attempts = [
        notified("light", 20),
        notified("light", 40),
        notified("websub", 100),
        notified("webhook", 7),
        notified("webhook", 9000, outcome="status"),
        notified("webhook", 30, published_at=None),
    ]
    found = view("latency_overall", silver(attempts=attempts))
    rows_found = [
        (row.technology, row.deliveries, row.latency_min, row.latency_mean, row.latency_max)
        for row in records(found, channel="orders")
    ]
    assert sorted(rows_found) == [
        ("light", 2, 20_000, 30_000, 40_000),
        ("webhook", 1, 7_000, 7_000, 7_000),
        ("websub", 1, 100_000, 100_000, 100_000),
    ]
