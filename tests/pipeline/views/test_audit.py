"""The exactly-once audit finds what was put wrong on purpose, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from harness.views import clock, rows, silver, view

pytestmark = pytest.mark.timeout(300)
COLUMNS = ("name", "verdict", "messages", "lost", "doubled", "out_of_order")


def put(producer: str, sequences: Sequence[int], hour: int = 10) -> list[dict[str, Any]]:
    """Stored in this order."""
    return [
        {
            "at": clock(f"{hour}:00:{place}"),
            "message_id": f"{producer}-{hour}-{place}",
            "producer": producer,
            "sequence": sequence,
            "serial": 1000 * hour + place,
            "epoch": "e",
            "user": "ann",
        }
        for place, sequence in enumerate(sequences)
    ]


@pytest.mark.spec("PIPE-03")
def test_producers() -> None:
    messages = [
        *put("good", [1, 2, 3]),
        *put("good", [4, 5], hour=11),
        *put("gap", [1, 2, 5]),
        *put("gap", [6, 9], hour=11),
        *put("twice", [1, 2]),
        *put("twice", [2, 3], hour=11),
        *put("mixed", [1, 2, 4, 3, 5]),
        {"at": clock("10:00"), "message_id": "no producer"},
    ]
    found = view("audit", silver(messages=messages))
    assert rows(found, *COLUMNS) == [
        ("gap", "lost", 5, 4, 0, 0),
        ("good", "exactly once", 5, 0, 0, 0),
        ("mixed", "out of order", 5, 0, 0, 1),
        ("twice", "doubled", 3, 0, 1, 0),
    ]
    # Little is left to read: an unbroken month is one row.
    puts = [*put("good", range(1, 60)), *put("good", range(60, 70), hour=11)]
    runs = view("audit_totals", silver(messages=puts))
    assert rows(runs, "name", "first", "last", "count") == [("good", 1, 69, 69)]


def receipt(
    subscription: str, kind: str, at: str, first: int, last: int, delivery: int = 1
) -> dict[str, Any]:
    return {
        "kind": f"message.{kind}",
        "subscription": subscription,
        "user": "ann",
        "at": clock(at),
        "first_serial": first,
        "serial": last,
        "delivery": delivery,
    }


@pytest.mark.spec("PIPE-03")
def test_subscriptions() -> None:
    receipts = [
        receipt("good", "received", "10:00", 1, 10),
        receipt("good", "acknowledged", "10:01", 1, 10),
        receipt("good", "received", "11:00", 11, 20),
        receipt("good", "acknowledged", "11:01", 11, 20),
        # Handed out again after a crash, and finished once: all is well.
        receipt("again", "received", "10:00", 1, 4),
        receipt("again", "acknowledged", "10:01", 1, 2),
        receipt("again", "received", "11:00", 3, 4, delivery=2),
        receipt("again", "acknowledged", "11:01", 3, 4),
        receipt("gap", "received", "10:00", 1, 4),
        receipt("gap", "received", "10:01", 7, 9),
        receipt("gap", "acknowledged", "10:02", 1, 9),
        receipt("twice", "received", "10:00", 1, 2),
        receipt("twice", "acknowledged", "10:01", 1, 2),
        receipt("twice", "acknowledged", "10:02", 2, 2),
        receipt("mixed", "received", "10:00", 5, 6),
        receipt("mixed", "received", "10:01", 1, 4),
        receipt("mixed", "acknowledged", "10:02", 1, 6),
        receipt("waiting", "received", "10:00", 1, 5),
        receipt("waiting", "acknowledged", "10:01", 1, 2),
        receipt("waiting", "dead", "10:02", 3, 3),
    ]
    found = view("audit", silver(receipts=receipts))
    assert rows(found, *COLUMNS, "redelivered", "waiting", "dead") == [
        ("again", "exactly once", 4, 0, 0, 0, 2, 0, 0),
        ("gap", "lost", 7, 2, 0, 0, 0, 0, 0),
        ("good", "exactly once", 20, 0, 0, 0, 0, 0, 0),
        ("mixed", "out of order", 6, 0, 0, 4, 0, 0, 0),
        ("twice", "doubled", 2, 0, 1, 0, 0, 0, 0),
        ("waiting", "waiting", 5, 0, 0, 0, 0, 2, 1),
    ]


@pytest.mark.spec("PIPE-03")
def test_what_was_dropped_from_live_sessions() -> None:
    drops = [
        {"at": clock("10:00"), "session": "slow", "count": 4, "reason": "slow_consumer"},
        {"at": clock("11:00"), "session": "slow", "count": None, "reason": "slow_consumer"},
        {"at": clock("11:00"), "kind": "journal.lost", "count": 9},
    ]
    found = view("audit", silver(drops=drops))
    assert rows(found, "kind", *COLUMNS) == [("session", "slow", "lost", 0, 5, 0, 0)]


@pytest.mark.spec("PIPE-03")
def test_a_message_that_expired_before_it_was_handed_out_is_not_lost() -> None:
    receipts = [
        receipt("s", "received", "10:00", 1, 3),
        receipt("s", "expired", "10:01", 4, 6),
        receipt("s", "received", "10:02", 8, 9),
        receipt("s", "expired", "10:03", 10, 12),
        receipt("s", "acknowledged", "10:04", 1, 3),
        receipt("s", "acknowledged", "10:04", 8, 9),
    ]
    found = view("audit", silver(receipts=receipts))
    assert rows(found, "verdict", "messages", "lost", "expired") == [("lost", 5, 1, 6)]
