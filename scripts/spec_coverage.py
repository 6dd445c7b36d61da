"""Print what the tests prove of each behaviour of the specification, from their `spec` marks, and
which behaviours no test names. `-v` names the tests by their files, an ID shows that one alone."""

from __future__ import annotations

import sys
from collections import defaultdict
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

_COLLECTING = ("--collect-only", "-qq", "--continue-on-collection-errors")
BEHAVIOURS = Path(__file__).parents[1] / "spec" / "behaviours.txt"


class Collector:
    """Gathers the marks of the collected tests, also of the long ones."""

    def __init__(self) -> None:
        self.proofs: dict[str, dict[str, str]] = defaultdict(dict)
        """Test functions, with the file of each, by ID."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            name = getattr(item, "originalname", None) or item.name
            for mark in item.iter_markers("spec"):
                for spec_id in mark.args:
                    self.proofs[spec_id][name] = item.nodeid.partition("::")[0]


def behaviours() -> dict[str, str]:
    lines = [line for line in BEHAVIOURS.read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("\t", 1) for line in lines)


def main() -> int:
    collector = Collector()
    with redirect_stdout(StringIO()) as said:
        code = pytest.main([*_COLLECTING, "--long"], [collector])
    verbose, wanted = "-v" in sys.argv[1:], [each for each in sys.argv[1:] if each != "-v"]
    known = behaviours()
    for spec_id, title in known.items():
        if not wanted or spec_id in wanted:
            _show(spec_id, title, collector.proofs.get(spec_id, {}), verbose)
    without = [spec_id for spec_id in known if spec_id not in collector.proofs]
    print(f"\n{len(known) - len(without)} of {len(known)} behaviours are named by a test")
    if without:
        print(f"no test names: {', '.join(without)}")
    if code:
        print(f"\nnot all tests could be read:\n{said.getvalue()}")
    return int(code)


def _show(spec_id: str, title: str, tests: dict[str, str], verbose: bool) -> None:
    print(f"\n{spec_id}  {title}" + ("" if tests else "  -- NO TEST"))
    for name, file in sorted(tests.items()):
        sentence = name.removeprefix("test_").replace("_", " ")
        print(f"    {sentence}" + (f"  ({file})" if verbose else ""))


if __name__ == "__main__":
    sys.exit(main())
