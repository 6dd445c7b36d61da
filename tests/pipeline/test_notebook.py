"""The notebook among the examples does what it says, cell by cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.documentation import ROOT
from harness.pipeline_runs import write_journal
from harness.segments import Pipeline

pytestmark = [pytest.mark.spec("PIPE-04", "PIPE-07"), pytest.mark.timeout(600)]
NOTEBOOK = ROOT / "examples" / "replies.ipynb"


def cells() -> list[str]:
    return [
        "".join(cell["source"])
        for cell in json.loads(NOTEBOOK.read_text())["cells"]
        if cell["cell_type"] == "code"
    ]


def test_five_cells_lead_from_an_installation_to_a_plot_of_replies(
    spark: SparkSession, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_journal(pipeline.journal, range(4))
    pipeline.run()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("WAREHOUSE", str(pipeline.warehouse))
    install, *rest = cells()
    assert install.startswith("%pip install")
    assert len(rest) == 4
    names: dict[str, Any] = {}
    for cell in rest:
        exec(compile(cell, str(NOTEBOOK), "exec"), names)
    assert names["spark"] is spark, "one that runs already is used"
    replies = pipeline.snapshot.read("replies")
    assert names["by_hour"]["replies"].sum() == replies.num_rows > 0
    assert (tmp_path / "replies.png").read_bytes().startswith(b"\x89PNG")
