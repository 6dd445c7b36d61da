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


@pytest.mark.spec("PIPE-03")
def test_policies_are_met_as_they_say() -> None:
    def tried(policy: str, message: str, mail: str, chat: str) -> list[dict[str, Any]]:
        return [
            attempt("10:00", message, mail, policy=policy),
            attempt("10:01", message, chat, policy=policy, adapter="chat"),
        ]

    attempts = [
        each
        for policy in ("TO_ALL_CHANNELS", "AT_LEAST_ONE", "PREFERRED")
        for message, mail, chat in (
            ("both", "ok", "ok"),
            ("mail", "ok", "refused"),
            ("chat", "refused", "ok"),
            ("none", "refused", "refused"),
        )
        for each in tried(policy, message, mail, chat)
    ]
    again = attempt("10:02", "chat", policy="TO_ALL_CHANNELS", attempt=2)
    sources = silver(attempts=[*attempts, again])
    columns = ("policy", "deliveries", "met", "failed", "success")
    assert rows(view("policy_success", sources), *columns) == [
        ("AT_LEAST_ONE", 4, 3, 1, 0.75),
        ("PREFERRED", 4, 2, 2, 0.5),
        ("TO_ALL_CHANNELS", 4, 2, 2, 0.5),
    ]
