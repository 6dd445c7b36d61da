"""Turns against a plain model: one delivery after the other, whatever fails, hangs or restarts."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.communication.steps import ARRIVED, DUE, FAILED, WAITING, DeliveryRow
from hubbub.domain.communication.turns import DeliveryTurns

pytestmark = pytest.mark.spec("COMM-13")
TURN = 10


def row(peer: str, number: int, state: int = WAITING, at: int = 0) -> DeliveryRow:
    key = f"{peer}{number}"
    return DeliveryRow(key, "m", 1, number, "r", peer, "mail", (key,), state, "", at)


def always(peer: str) -> bool:
    return True


@given(st.lists(st.sampled_from(["fails", "hangs"]), min_size=1, max_size=8), st.booleans())
def test_addresses_begin_in_order_at_the_failure_of_the_last_or_after_its_turn(
    fates: list[str], restarts: bool
) -> None:
    rows = {f"a{n}": row("a", n) for n in range(len(fates))}
    turns = DeliveryTurns(rows.values(), {"a": TURN}, 0)
    now, begun = 0, []
    for number, fate in enumerate(fates):
        assert turns.begin(now, always) == [f"a{number}"]
        begun.append(f"a{number}")
        rows[f"a{number}"] = msgspec.structs.replace(rows[f"a{number}"], state=DUE, at=now)
        last = number + 1 == len(fates)
        assert turns.next_at == (float("inf") if last else now + TURN)
        assert turns.begin(now + TURN - 1, always) == []
        now += TURN
        if fate == "fails":
            now -= 5
            turns.ended(rows[f"a{number}"], FAILED, now)
            rows[f"a{number}"] = msgspec.structs.replace(rows[f"a{number}"], state=FAILED, at=now)
        if restarts:
            turns = DeliveryTurns(rows.values(), {"a": TURN}, 0)
    assert turns.begin(now + 100 * TURN, always) == []
    assert turns.waiting() == []
    hung = [key for key, fate in zip(begun, fates, strict=True) if fate == "hangs"]
    assert turns.unfinished(["a"]) == hung


def test_members_begin_in_order_each_with_all_its_addresses_or_with_the_first() -> None:
    rows = [row("a", 0), row("a", 1), row("b", 2), row("b", 3), row("c", 4)]
    turns = DeliveryTurns(rows, {"b": TURN}, 3 * TURN)
    assert turns.begin(0, always) == ["a0", "a1"]
    assert turns.next_at == 3 * TURN
    for each in rows[:2]:
        turns.ended(each, FAILED, 5)
    assert turns.begin(5, always) == ["b2"]
    assert turns.next_at == 5 + TURN
    assert turns.begin(5 + TURN, always) == ["b3"]
    assert turns.begin(5 + 4 * TURN, always) == ["c4"]
    assert turns.unfinished(["b", "c"]) == ["b2", "b3", "c4"]


def test_a_member_that_needs_nothing_is_passed_over_and_one_that_was_reached_has_its_time() -> None:
    rows = [row("a", 0, FAILED), row("b", 1), row("c", 2)]
    turns = DeliveryTurns(rows, {}, TURN)
    assert turns.begin(0, lambda peer: peer != "a") == ["b1"]
    turns.ended(rows[1], ARRIVED, 4)
    assert turns.begin(4 + TURN - 1, always) == []
    assert turns.next_at == 4 + TURN
    assert turns.begin(4 + TURN, always) == ["c2"]
    turns.end(["c2"])
    assert turns.unfinished(["b", "c"]) == []
