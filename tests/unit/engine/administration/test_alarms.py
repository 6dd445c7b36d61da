"""Alarms that an operator sees without searching."""

from __future__ import annotations

import pytest

from harness.clock import FakeClock
from hubbub.engine.administration.alarms import Alarms
from hubbub.engine.administration.survey import Glance


def glance(refused: int = 0, known: bool = True) -> Glance:
    return Glance("n1", 0, [], {}, 0, 0, refused, 0.0, False, known)


@pytest.mark.spec("UI-01")
def test_an_occurrence_is_told_for_a_minute_with_its_beginning() -> None:
    clock = FakeClock()
    alarms = Alarms(clock)
    assert alarms.of("acme", [glance()], []) == []
    (told,) = alarms.of("acme", [glance(refused=3)], [])
    assert (told.hub, told.text) == ("acme", "3 messages refused")
    clock.advance(30)
    assert alarms.of("acme", [glance(refused=3)], []) == [told]
    clock.advance(31)
    assert alarms.of("acme", [glance(refused=3)], []) == []


@pytest.mark.spec("SEC-01")
def test_nothing_is_remembered_of_hubs_that_do_not_exist() -> None:
    alarms = Alarms(FakeClock())
    alarms.of("acme", [glance(), glance(known=False)], [])
    for number in range(100):
        assert alarms.of(f"invented {number}", [glance(known=False)], []) == []
    assert list(alarms._hubs) == ["acme"]
    alarms.of("acme", [glance(known=False)], [])
    assert not alarms._hubs
