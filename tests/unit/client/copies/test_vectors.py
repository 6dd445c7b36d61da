"""The state machine of local copies does what `spec/document-copies.json` says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.copy_vectors import VectorRun

VECTORS = json.loads((Path(__file__).parents[4] / "spec" / "document-copies.json").read_text())


@pytest.mark.spec("DOC-03", "local copies: the shared test vectors")
@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: str(case["name"]))
def test_each_step_of_the_shared_vectors(case: dict[str, Any]) -> None:
    run = VectorRun(case)
    for step in case["steps"]:
        assert {"do": step["do"], **run.step(step["do"])} == step


def test_every_rule_has_a_vector() -> None:
    assert {case["point"] for case in VECTORS["cases"]} == {1, 2, 3, 5, 6, 7, 8, 9, 10, 11}
