"""`hubbub adapter check`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hubbub.cli.main import main

SOURCE = """
import msgspec
from hubbub.ports.adapters import adapter

class Settings(msgspec.Struct):
    host: str

@adapter(name="fax", settings=Settings, stateful=True)
class Fax:
    pass
"""


@pytest.mark.spec("COMM-02")
def test_a_check_says_what_each_file_gives_or_why_it_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "fax.py").write_text(SOURCE)
    good = CliRunner().invoke(main, ["adapter", "check", str(tmp_path)])
    assert (good.exit_code, good.output) == (0, "fax: out, one for each peer; settings: host\n")
    (tmp_path / "worse.py").write_text("import no_such_module")
    bad = CliRunner().invoke(main, ["adapter", "check", str(tmp_path)])
    assert bad.exit_code == 1
    assert "worse.py: line 1: ModuleNotFoundError" in bad.output
