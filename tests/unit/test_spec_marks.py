"""The marks of tests name behaviours that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_ID = re.compile(r"\b[A-Z]{2,7}-\d\d\b")


def test_marks_name_behaviours_of_the_list() -> None:
    lines = (ROOT / "spec" / "behaviours.txt").read_text().splitlines()
    known = {line.partition("\t")[0] for line in lines if not line.startswith("#")}
    named: dict[str, str] = {}
    for file in (ROOT / "tests").rglob("*.py"):
        for mark in re.findall(r"mark\.spec\(([^)]*)\)", file.read_text()):
            named |= dict.fromkeys(_ID.findall(mark), file.name)
    assert {spec_id: file for spec_id, file in named.items() if spec_id not in known} == {}
