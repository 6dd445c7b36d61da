"""docs/requirements.md names tests that exist, and leaves no requirement out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "requirements.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))


def test_every_requirement_has_a_proof_or_says_that_it_is_missing() -> None:
    rows = re.findall(r"^\| (RF\d\d) \| [^|]+ \| ([^|]+) \|$", TEXT, re.MULTILINE)
    assert [number for number, _ in rows] == [f"RF{number:02}" for number in range(1, 39)]
    for number, shown in rows:
        assert shown == "not in this version" or re.search(r"`tests/.+::.+`", shown), number


@pytest.mark.parametrize(("file", "name"), NAMED, ids=lambda part: str(part).rpartition("/")[2])
def test_a_test_that_is_named_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text())
    functions = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert name in functions
