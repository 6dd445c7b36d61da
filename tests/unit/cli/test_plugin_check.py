"""`hubbub plugin check`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hubbub.cli.main import main

pytestmark = pytest.mark.spec("CMD-04")

GOOD = "timeout = 100\nasync def run(command, context):\n    return 1\n"


def test_says_file_line_rule_and_remedy(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("import os\n" + GOOD)
    result = CliRunner().invoke(main, ["plugin", "check", str(bad)])
    assert result.exit_code == 1
    assert result.output.startswith(f"{bad}:1: import: os\n    import one of ")


def test_says_what_a_good_file_offers(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(GOOD)
    (tmp_path / "check.py").write_text(
        "validates = ['hMessages']\nasync def validate(document, context):\n    pass\n"
    )
    result = CliRunner().invoke(main, ["plugin", "check", str(tmp_path)])
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"{tmp_path}/check.py: validates hMessages",
        f"{tmp_path}/count.py: command count, 100 ms",
    ]


def test_names_of_the_hub_are_taken_in_any_case(tmp_path: Path) -> None:
    (tmp_path / "hpublish.py").write_text(GOOD)
    result = CliRunner().invoke(main, ["plugin", "check", str(tmp_path / "hpublish.py")])
    assert result.exit_code == 1
    assert "name: hpublish is a command of the hub itself" in result.output
