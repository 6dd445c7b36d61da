"""How long a client waits before it connects again."""

from __future__ import annotations

import pytest

from hubbub.client import ConnectionLost
from hubbub.client.connection.backoff import ReconnectBackoff
from hubbub.domain.errors import Overloaded

LOST = ConnectionLost("gone")


@pytest.mark.spec("UI-02")
def test_the_first_attempt_is_at_once_and_the_others_later_and_later() -> None:
    backoff = ReconnectBackoff(first_seconds=1, longest_seconds=5)
    waits = [backoff.next(LOST) for _ in range(6)]
    assert waits[0] == 0
    for wait, longest in zip(waits[1:], (1, 2, 4, 5, 5), strict=True):
        assert longest / 2 <= wait <= longest


@pytest.mark.spec("UI-02")
def test_clients_do_not_come_back_all_together() -> None:
    waits = set()
    for _ in range(20):
        backoff = ReconnectBackoff(attempts=3)
        waits.add(backoff.next(LOST))
    assert len(waits) > 10


@pytest.mark.spec("LIVE-16")
def test_an_overloaded_hub_is_given_a_moment() -> None:
    assert ReconnectBackoff().next(Overloaded("full")) > 0


def test_a_new_loss_begins_anew() -> None:
    backoff = ReconnectBackoff()
    backoff.next(LOST)
    backoff.next(LOST)
    backoff.reset()
    assert backoff.next(LOST) == 0
