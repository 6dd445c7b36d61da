"""Which segments hold what others held."""

from __future__ import annotations

import pytest

from hubbub.domain.replacements import Lineage, Replacement

pytestmark = pytest.mark.spec("PIPE-07")

LINEAGE = Lineage(
    [
        Replacement(replaced=("a.parquet", "b.parquet"), by=("ab.parquet",)),
        Replacement(replaced=("ab.parquet", "c.parquet"), by=("x.parquet", "y.parquet")),
        Replacement(replaced=("d.parquet",), by=()),
    ],
    ".parquet",
)


@pytest.mark.parametrize(
    ("read", "name", "covered"),
    [
        ("a b", "ab", True),
        ("a", "ab", False),
        ("a b c", "x", True),
        ("ab c", "y", True),
        ("ab", "y", False),
        ("x", "ab", False),
        ("", "new", False),
        ("new", "new", True),
    ],
)
def test_a_segment_is_covered_by_all_that_it_took_the_place_of(
    read: str, name: str, covered: bool
) -> None:
    assert LINEAGE.covers(read.split(), name) is covered


@pytest.mark.parametrize(
    ("name", "successors"), [("a", {"x", "y"}), ("c", {"x", "y"}), ("d", set()), ("new", {"new"})]
)
def test_what_is_left_of_a_segment_is_in_its_last_successors(
    name: str, successors: set[str]
) -> None:
    assert LINEAGE.successors(name) == successors
