"""`python -m attack`: attacks a hub in every way there is, and says what it stood and what not."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from attack import report
from attack.arena import ATTACKS, DRILLS
from attack.cores import session_ahead
from attack.limits import sum_of_limits
from attack.run import Plan, Result, run, run_drill
from benchmarks.load.processes import Bystanders


def main() -> int:
    """1 when something did not hold."""
    options = _options()
    plan = Plan(source=options.source.resolve() if options.source else None)
    if options.quick:
        plan = replace(plan, quiet_seconds=2.0, attack_seconds=3.0, after_seconds=1.0)
    bystanders = Bystanders()
    results = []
    with session_ahead():
        for name in options.only or [*ATTACKS, *DRILLS]:
            result = _attack(name, plan)
            results.append(result)
            print(report.line(result), flush=True)
    limits = sum_of_limits()
    text = report.markdown(results, limits)
    print(f"\n{limits}\nother programs used {bystanders.cores():.1f} cores meanwhile")
    not_held = [result.attack.name for result in results if not result.held]
    print(f"{len(results) - len(not_held)} of {len(results)} held")
    if options.report:
        options.report.write_text(text)
    return 1 if not_held else 0


def _attack(name: str, plan: Plan) -> Result:
    Path("data").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="attack-", dir="data") as folder:
        place = Path(folder).resolve()
        if name in DRILLS:
            return asyncio.run(run_drill(DRILLS[name], place, plan))
        return asyncio.run(run(ATTACKS[name], place, plan))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m attack", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter attacks")
    parser.add_argument(
        "--only", action="append", choices=[*ATTACKS, *DRILLS], metavar="NAME", help="(repeatable)"
    )
    parser.add_argument("--source", type=Path, help="the folder of another version's package")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", default=Path("data/attack.md"), help="Markdown"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
