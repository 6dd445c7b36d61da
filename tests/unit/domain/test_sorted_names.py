"""Names in order, compared with a plain sorted list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain import sorted_names
from hubbub.domain.sorted_names import SortedItems, SortedNames, holding

NAMES = st.lists(st.text("abz:\u00e9\U0001f600", min_size=1, max_size=4), max_size=60)
TEXT = st.text("abz:", max_size=2)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_names, "_BLOCK", 3)


def kept(added: list[str], removed: list[str]) -> tuple[SortedNames, list[str]]:
    names, plain = SortedNames(), set[str]()
    for name in added:
        if name not in plain:
            names.add(name)
            plain.add(name)
    for name in removed:
        names.remove(name)
        plain.discard(name)
    return names, sorted(plain)


def in_lines(names: SortedNames, start: str) -> list[str]:
    """All from the block with the first name that is not before `start`."""
    found: list[str] = []
    while (block := names.lines(start)) is not None:
        lines, start = block
        found += lines.split("\n")
    return found


@pytest.mark.spec("ADMIN-01")
@given(NAMES, NAMES, TEXT, TEXT)
def test_pages_counts_and_orders_are_those_of_a_sorted_list(
    added: list[str], removed: list[str], after: str, prefix: str
) -> None:
    names, plain = kept(added, removed)
    assert len(names) == len(plain)
    assert in_lines(names, "") == plain
    wanted = [name for name in plain if name > after and name.startswith(prefix)]
    for limit in (1, 4, 100):
        assert names.behind(after, prefix, limit) == wanted[:limit]
    assert names.count(prefix) == sum(name.startswith(prefix) for name in plain)
    assert names.rank(after) == sum(name < after for name in plain)
    assert list(names.backwards(None)) == plain[::-1]
    assert list(names.backwards(after)) == [name for name in plain if name < after][::-1]
    later = in_lines(names, after)
    assert later == plain[len(plain) - len(later) :]
    assert set(later) >= {name for name in plain if name >= after}


@given(NAMES, NAMES)
def test_lines_are_those_of_now_also_where_names_changed_since_they_were_asked_for(
    added: list[str], changed: list[str]
) -> None:
    names, plain = kept(added, [])
    for name in dict.fromkeys(changed):
        assert in_lines(names, "") == plain
        if name in plain:
            names.remove(name)
            plain.remove(name)
        else:
            names.add(name)
            plain = sorted([*plain, name])
    assert in_lines(names, "") == plain


@given(NAMES.filter(bool), TEXT.filter(bool))
def test_searching_finds_every_name_that_holds_the_text(names: list[str], text: str) -> None:
    assert holding("\n".join(names), text) == [name for name in names if text in name]


@pytest.mark.spec("ADMIN-01")
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=80), st.integers(-1, 21))
def test_items_are_in_the_order_of_their_keys_however_they_come_and_go(
    changes: list[tuple[bool, int]], before: int
) -> None:
    items, plain = SortedItems[list[int]](key=lambda item: item[0]), dict[int, list[int]]()
    for there, key in changes:
        if there and key not in plain:
            plain[key] = [key]
            items.add(plain[key])
        elif not there:
            items.remove(plain.pop(key, [key]))
    in_order = [plain[key] for key in sorted(plain, reverse=True)]
    assert len(items) == len(plain)
    assert list(items.backwards(None)) == in_order
    assert list(items.backwards(before)) == [item for item in in_order if item[0] < before]
