"""Delivery success by adapter and by policy, on attempts as the journal will have them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.views import clock, rows, silver, view

pytestmark = pytest.mark.timeout(300)


def attempt(at: str, message: str, outcome: str = "ok", **more: Any) -> dict[str, Any]:
    return {
        "at": clock(at),
        "message_id": message,
        "outcome": outcome,
        "attempt": 1,
        "peer": "ann",
        "adapter": "mail",
        "policy": "AT_LEAST_ONE",
        "duration": 1000,
        **more,
    }


@pytest.mark.spec("PIPE-03")
def test_success_of_adapters() -> None:
    sources = silver(
        attempts=[
            attempt("10:00", "m1"),
            attempt("10:01", "m2", "timeout"),
            attempt("10:02", "m2", "timeout", attempt=2),
            attempt("11:03", "m2", attempt=3, duration=3000),
            attempt("10:00", "m3", "refused", reason="550 no such mailbox"),
            attempt("10:00", "m3", peer="bob"),
            {
                "kind": "webhook.attempt",
                "at": clock("10:00"),
                "message_id": "m1",
                "subscription": "hook",
                "outcome": "status",
                "status": 500,
            },
        ],
    )
    columns = (
        "adapter", "policy", "day", "attempts", "attempts_ok", "deliveries", "delivered",
        "delivered_at_once", "success", "usual_failure", "duration_mean",
    )  # fmt: skip
    assert rows(view("adapter_success", sources), *columns) == [
        (
            "mail",
            "AT_LEAST_ONE",
            "2026-11-02",
            6,
            3,
            4,
            3,
            2,
            0.75,
            "550 no such mailbox",
            1333.333,
        ),
        ("webhook", None, "2026-11-02", 1, 0, 1, 0, 0, 0.0, "status", None),
    ]


@pytest.mark.spec("PIPE-03", "COMM-05")
def test_success_of_policies_is_that_of_verdicts() -> None:
    def told(message: str, receiver: str, policy: str, outcome: str, at: str = "10:00") -> Any:
        return {"at": clock(at), "message_id": message, "receiver": receiver, "policy": policy,
                "outcome": outcome}  # fmt: skip

    sources = silver(
        verdicts=[
            told("m1", "ann", "TO_ALL_CHANNELS", "met"),
            told("m2", "ann", "TO_ALL_CHANNELS", "failed"),
            told("m3", "bob", "TO_ALL_CHANNELS", "timed_out"),
            told("m3", "collective:ops", "TO_ANY", "met"),
            told("m4", "collective:ops", "TO_ANY", "failed", "10:01"),
            told("m4", "collective:ops", "TO_ANY", "met", "10:02"),  # decided again after a crash
        ],
        attempts=[attempt("10:00", "m1", "refused"), attempt("10:00", "m1", adapter="chat")],
    )
    columns = ("policy", "day", "deliveries", "met", "failed", "timed_out", "success")
    assert rows(view("policy_success", sources), *columns) == [
        ("TO_ALL_CHANNELS", "2026-11-02", 3, 1, 1, 1, 0.333),
        ("TO_ANY", "2026-11-02", 2, 2, 0, 0, 1.0),
    ]
