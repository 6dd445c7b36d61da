"""What a run of the tests says of itself: what it proves, and what it left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments: str, folder: Path = ROOT, **variables: str) -> str:
    """A program of Python; what it says."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_make_spec_names_what_tests_prove_and_behaviours_without_a_test(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser): parser.addoption('--long', action='store_true')\n"
        "def pytest_configure(config): config.addinivalue_line('markers', 'spec(*ids): proof')\n"
    )
    (tmp_path / "test_one.py").write_text(
        "import pytest\n@pytest.mark.spec('LIVE-07')\n@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_messages_come_in_order(n): pass\n"
    )
    said = run(str(ROOT / "scripts" / "spec_coverage.py"), "LIVE-07", folder=tmp_path)
    assert "\nLIVE-07  " in said
    assert said.count("    messages come in order\n") == 1
    lines = (ROOT / "spec" / "behaviours.txt").read_text().splitlines()
    known = [line.partition("\t")[0] for line in lines if not line.startswith("#")]
    assert f"\n1 of {len(known)} behaviours are named by a test\n" in said
    without = ", ".join(each for each in known if each != "LIVE-07")
    assert f"no test names: {without}\n" in said


def test_make_spec_installs_what_collecting_the_tests_needs(tmp_path: Path) -> None:
    """On a fresh clone: also the packages of the pipeline."""
    command = ["make", "--dry-run", "spec", f"VENV={tmp_path / 'fresh'}"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in ("run", "dev", "pipeline"):
        assert f"requirements/{name}.txt" in said


def test_the_end_of_a_run_says_what_was_not_tested(tmp_path: Path) -> None:
    """As on a machine without Java."""
    test = "tests/integration/test_zeromq_clients.py"
    said = run("-m", "pytest", "-q", test, "-k", "jeromq", PATH=str(tmp_path))
    _, _, told = said.partition("= not tested here =")
    assert "    1 tests: JeroMQ or a JDK is missing; run: apt-get install" in told
