"""The notebook among the examples does what it says, cell by cell."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from harness.documentation import ROOT
from harness.pipeline_runs import write_journal
from harness.segments import Pipeline
from harness.warehouse import write_warehouse
from harness.warehouse_rows import published

pytestmark = [pytest.mark.spec("PIPE-04", "PIPE-07"), pytest.mark.timeout(600)]
NOTEBOOK = ROOT / "examples" / "replies.ipynb"


def cells() -> list[str]:
    return [
        "".join(cell["source"])
        for cell in json.loads(NOTEBOOK.read_text())["cells"]
        if cell["cell_type"] == "code"
    ]


def test_five_cells_lead_from_an_installation_to_a_plot_of_replies(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    """In a process of its own whose path does not lead to its Python, as that of a notebook, and
    beside tables that lie where `make pipeline` puts them."""
    write_journal(pipeline.journal, range(4))
    pipeline.run()
    examples = tmp_path / "examples"
    examples.mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "warehouse").symlink_to(str(pipeline.warehouse))
    _, *rest = cells()
    assert len(rest) == 4
    path = os.environ["PATH"].split(os.pathsep)
    elsewhere = [each for each in path if Path(each) != Path(sys.executable).parent]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([*rest, 'print(by_hour["replies"].sum())'])],
        cwd=examples,
        env={**os.environ, "PATH": os.pathsep.join(elsewhere), "MPLBACKEND": "Agg"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    replies = pipeline.snapshot.read("replies")
    assert int(done.stdout.split()[-1]) == replies.num_rows > 0
    assert (examples / "replies.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("named", [True, False])
def test_the_example_runs_with_or_without_a_setting_that_names_its_python(
    tmp_path: Path, named: bool
) -> None:
    write_warehouse(tmp_path / "warehouse", {"messages": [published(0, 7)]})
    path = os.environ["PATH"].split(os.pathsep)
    elsewhere = [each for each in path if Path(each) != Path(sys.executable).parent]
    example = (ROOT / "examples" / "analytics.py").read_text()
    if named:
        setting = '.config("spark.pyspark.python", sys.executable)'
        example = example.replace(".getOrCreate()", f"{setting}.getOrCreate()")
    done = subprocess.run(
        [sys.executable, "-", str(tmp_path / "warehouse")],
        input=example,
        env={**os.environ, "PATH": os.pathsep.join(elsewhere)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert "|acme|2026-11-02T12|7          |0           |NULL     |" in done.stdout


def test_the_first_cell_installs_hubbub_from_the_checkout_that_holds_the_notebook() -> None:
    install = shlex.split(cells()[0])
    assert install[:2] == ["%pip", "install"]
    offline = ["--dry-run", "--no-deps", "--no-build-isolation", "--report", "-"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *offline, *install[2:]],
        cwd=NOTEBOOK.parent,
        stdout=subprocess.PIPE,
        check=True,
    )
    (found,) = json.loads(done.stdout)["install"]
    assert found["metadata"]["name"] == "hubbub"
    assert found["requested_extras"] == ["pipeline"]
    assert found["download_info"]["url"] == ROOT.as_uri()
