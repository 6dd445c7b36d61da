"""Print which behaviours of the specification the tests prove, from their `spec` marks."""

from __future__ import annotations

import sys
from collections import defaultdict
from contextlib import redirect_stdout
from io import StringIO

import pytest


class Collector:
    """Gathers the SPEC IDs of the collected tests."""

    def __init__(self) -> None:
        self.proofs: dict[str, list[str]] = defaultdict(list)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("spec"):
                for spec_id in mark.args:
                    self.proofs[spec_id].append(item.nodeid)


def main() -> int:
    collector = Collector()
    with redirect_stdout(StringIO()) as said:
        code = pytest.main(["--collect-only", "-qq"], [collector])
    if code:
        print(said.getvalue())
    verbose = "-v" in sys.argv[1:]
    for spec_id in sorted(collector.proofs):
        tests = collector.proofs[spec_id]
        print(f"{spec_id:10} {len(tests):4} tests")
        if verbose:
            for test in tests:
                print(f"           {test}")
    print(f"{len(collector.proofs)} behaviours are proven; make spec ARGS=-v names the tests")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
