"""Rows of a small warehouse with something in each view that the report shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from harness.warehouse import latency

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
NASTY = '<script>alert("x")</script>&\'"'
MINUTE = timedelta(minutes=1)


def published(minutes: int, messages: int, hub: str = "acme", **more: Any) -> dict[str, Any]:
    """So many messages (`times`), for `write_warehouse`."""
    return {
        "hub": hub,
        "channel": NASTY,
        "event": NASTY,
        "user": NASTY,
        "at": NOON + minutes * MINUTE,
        "times": messages,
        "size": 10,
        "segment": "one",
        **more,
    }


def session(number: int, seconds: int | None) -> dict[str, Any]:
    closed = None if seconds is None else NOON + timedelta(seconds=seconds)
    return {
        "hub": "acme",
        "session": f"s{number}",
        "user": NASTY,
        "opened_at": NOON,
        "closed_at": closed,
        "duration": None if seconds is None else seconds * 1_000_000,
        "events": [],
    }


def linked(position: int, peer: str, **more: Any) -> dict[str, Any]:
    at = NOON + timedelta(seconds=position)
    return {
        "hub": "acme",
        "thread": NASTY,
        "thread_began": NOON + timedelta(seconds=1),
        "position": position,
        "message_id": NASTY if position == 1 else f"m{position}",
        "at": at,
        "channel": f"c{position % 2}",
        "peer": peer,
        "segment": "one",
        **more,
    }


def answer(position: int, peer: str, asker: str) -> dict[str, Any]:
    asked = NOON + timedelta(seconds=position - 2)
    return linked(
        position,
        peer,
        refers_to=NASTY,
        how="reference",
        question_id=NASTY,
        asker=asker,
        asked_at=asked,
        response_time=2_000_000,
    )


def put(name: str, first: int, last: int) -> dict[str, Any]:
    return {
        "kind": "message.published",
        "hub": "acme",
        "channel": "news",
        "name": name,
        "again": False,
        "month": f"{NOON:%Y-%m}",
        "first": first,
        "last": last,
        "count": last - first + 1,
        "began": NOON + timedelta(seconds=first),
        "place": first,
    }


def attempt(number: int, outcome: str) -> dict[str, Any]:
    return {
        "kind": "adapter.attempt",
        "hub": "acme",
        "adapter": "mail",
        "policy": "PREFERRED",
        "message_id": f"m{number}",
        "peer": "ann",
        "attempt": 1,
        "outcome": outcome,
        "reason": None if outcome == "ok" else NASTY,
        "duration": 3000,
        "at": NOON,
        "segment": "one",
        "offset": number,
    }


TABLES: dict[str, list[dict[str, Any]]] = {
    "messages": [
        published(-5, 7),
        published(-5, 1, "other"),
        published(0, 1000),
        published(5, 234),
    ],
    "deliveries": [
        {
            "hub": "acme",
            "channel": NASTY,
            "technology": "websocket",
            "at": NOON,
            "count": 4321,
            "size": 43_210,
            "segment": "one",
            **latency(1024, 1100),
        }
    ],
    "drops": [{"kind": "message.dropped", "hub": "acme", "count": 2, "at": NOON, "segment": "one"}],
    "sessions": [session(1, 134), session(2, 134), session(3, None)],
    "linked_messages": [
        linked(1, NASTY),
        linked(2, "bob", conversation_id="c"),
        answer(3, "bob", NASTY),
        answer(4, "bob", NASTY),
    ],
    "term_facts": [{"hub": "acme", "term": NASTY, "time": NOON, "messages": 12, "segment": "one"}],
    "audit_totals": [put("good", 1, 10), put(NASTY, 1, 5), put(NASTY, 9, 13)],
    "attempts": [attempt(1, "ok"), attempt(2, "ok"), attempt(3, "ok"), attempt(4, "failed")],
}
