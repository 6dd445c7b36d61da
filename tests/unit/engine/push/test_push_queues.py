"""What waits to be pushed: marks of erased users."""

from __future__ import annotations

import pytest

from hubbub.domain.push.content import PushNote
from hubbub.domain.push.tokens import PushToken
from hubbub.engine.push.queues import MOST_ERASED, HubQueue


def note(published_at: int, publisher: str | None = None) -> PushNote:
    return PushNote("acme", "news", "", "m", 1, published_at, publisher=publisher)


def device(user: str) -> PushToken:
    return PushToken("acme", user, "fcm", "token")


@pytest.mark.spec("SEC-01")
def test_marks_of_erased_users_are_bounded_and_none_is_forgotten() -> None:
    queue = HubQueue()
    for number in range(MOST_ERASED + 10):
        queue.erase(f"user-{number}", now=100 + number)
    assert len(queue.erased) == MOST_ERASED
    assert queue.is_erased(device("user-0"), note(100))
    assert queue.is_erased(device("ann"), note(100, publisher="user-0"))
    newest = f"user-{MOST_ERASED + 9}"
    assert queue.is_erased(device(newest), note(100 + MOST_ERASED))
    assert not queue.is_erased(device("ann"), note(100 + MOST_ERASED, publisher="bob"))
    assert not queue.is_erased(device("user-0"), note(100 + MOST_ERASED)), "registered again"


@pytest.mark.spec("SEC-01")
def test_none_is_forgotten_where_the_clock_was_set_back() -> None:
    queue = HubQueue()
    queue.erase("ann", now=5000)
    for number in range(MOST_ERASED + 1):
        queue.erase(f"user-{number}", now=100 + number)
    assert queue.is_erased(device("ann"), note(4000))


def test_who_is_erased_again_is_marked_anew() -> None:
    queue = HubQueue()
    queue.erase("ann", now=100)
    queue.erase("ann", now=200)
    assert queue.is_erased(device("ann"), note(150))
    assert queue.erased == {"ann": 200}
