"""`python -m benchmarks`: measures, prints one table, says honestly what was missed."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks import peers
from benchmarks.findings import Effort, Finding, as_json, table
from benchmarks.scenarios import SCENARIOS


def main() -> int:
    """0 when everything was measured, whether or not it was reached."""
    options = _options()
    effort = _effort(options.quick, options.rounds)
    print(f"side by side with {', '.join(effort.peers)}")
    findings: list[Finding] = []
    complete = True
    for name in options.only or SCENARIOS:
        started = time.monotonic()
        try:
            found = SCENARIOS[name](effort)
        except Exception as error:
            complete = False
            print(f"\n{name}: {error}")
            found = [Finding(name, "to be measured", "not measured, see above", False)]
        findings += found
        print(f"\n{name} ({time.monotonic() - started:.0f} s)\n{table(found)}", flush=True)
    promised = [finding for finding in findings if finding.reach]
    missed = sum(finding.met is False for finding in promised)
    print(f"\nWhat was to be reached\n{table(promised)}\n{missed} of {len(promised)} missed")
    if options.json:
        options.json.write_text(as_json(findings))
    return 0 if complete else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, fewer clients")
    parser.add_argument(
        "--only", action="append", choices=list(SCENARIOS), metavar="NAME", help="(repeatable)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="repetitions (default 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure there")
    return parser.parse_args()


def _effort(quick: bool, rounds: int) -> Effort:
    found = peers.installed()
    if quick:
        return Effort(rounds=1, seconds=2.0, warm_seconds=1.0, scale=0.25, peers=found)
    return Effort(rounds=rounds, seconds=6.0, warm_seconds=2.0, scale=1.0, peers=found)


if __name__ == "__main__":
    sys.exit(main())
