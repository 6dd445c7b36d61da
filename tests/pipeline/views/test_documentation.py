"""docs/analytics.md says of every table what it answers, and of every column what it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hubbub.domain.analytics import LISTED
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.models import MODELS
from hubbub.pipeline.views import VIEWS

PAGE = (Path(__file__).parents[3] / "docs" / "analytics.md").read_text("utf-8")
PARTS = {
    part.split("\n", 1)[0].strip(): part for part in re.split(r"^### ", PAGE, flags=re.MULTILINE)
}
COLUMNS = {
    name: each.schema.names for known in (TABLES, MODELS, VIEWS) for name, each in known.items()
}
_OF_DURATIONS = ("min", "mean", "stddev", "p50", "p90", "p99", "max", "count", "sum", "squares")


@pytest.mark.spec("PIPE-03", "PIPE-04")
@pytest.mark.parametrize("table", LISTED, ids=lambda table: table.name)
def test_every_table_is_explained(table: object) -> None:
    name, question = getattr(table, "name", ""), getattr(table, "question", "")
    part = " ".join(PARTS[name].split())
    assert question in part
    for column in COLUMNS[name]:
        family, _, last = column.rpartition("_")
        of_durations = last in (*_OF_DURATIONS, "buckets") and f"durations of `{family}`" in part
        assert of_durations or f"`{column}`" in part, column
