"""`make soak-dashboard`: whether the heap of a dashboard that stays open grows in an hour.

A real hub with traffic, and one page in a real browser that goes from list to chart to inspector
and back. Every minute, on the overview, garbage is collected and what is left is counted. Charts
hold 15 minutes by the second, so the first quarter of the hour fills them and is not judged.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.browser import address, browser, logged_in
from benchmarks.findings import Finding, table
from benchmarks.hub import HUB, hubbub
from benchmarks.load.publishers import Steady
from benchmarks.load.residents import residents
from benchmarks.load.run import fan_out
from benchmarks.load.stamp import INDEX
from benchmarks.load.subscribers import Audience

_READERS = 100
_OTHERS = 200
_ROOM = "room"
_PER_SECOND = 5
_ROUTES = (f"channels?hub={HUB}", f"sessions?hub={HUB}", f"inspector?hub={HUB}", "overview")
_TURN_SECONDS = 60.0
_LEAST_MINUTES = 8
_REACH_GROWTH = 0.05


class Sample(NamedTuple):
    minute: float
    heap: int
    nodes: int
    listeners: int


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard_hour")
    parser.add_argument("--minutes", type=int, default=60, help=f"at least {_LEAST_MINUTES}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every sample there")
    options = parser.parse_args()
    samples = watch(max(_LEAST_MINUTES, options.minutes), options.json)
    found = findings(samples)
    print(table(found))
    return 0 if all(each.met for each in found) else 1


def watch(minutes: int, kept: Path | None) -> list[Sample]:
    samples: list[Sample] = []
    with (
        hubbub() as server,
        residents([Audience(server.subscription(f"user-{INDEX.decode()}"), _OTHERS)]),
        fan_out(
            Audience(server.subscription(_ROOM), _READERS),
            server.publication(_ROOM, 200),
            Steady(_PER_SECOND),
        ) as load,
        browser() as started,
    ):
        load.warm(1)
        page = logged_in(started, server).new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(address(server, f"inspector?hub={HUB}"))
        _inspect(page)
        tools = page.context.new_cdp_session(page)
        tools.send("Performance.enable")
        began = time.monotonic()
        for minute in range(1, minutes + 1):
            _look_around(page, began + _TURN_SECONDS * minute)
            samples.append(_sample(tools, (time.monotonic() - began) / 60))
            print(*samples[-1], flush=True)
            if kept:
                kept.write_text(json.dumps([each._asdict() for each in samples]))
        assert not wrong, wrong
    return samples


def _inspect(page: Any) -> None:
    """The inspector is a client that stays connected while other pages are shown."""
    page.get_by_role("button", name="Connect", exact=True).click()
    page.get_by_role("heading", name="Session").wait_for()
    page.get_by_label("Channel", exact=True).first.fill(_ROOM)
    page.get_by_role("button", name="Subscribe", exact=True).click()
    page.get_by_label("Messages").wait_for()


def _look_around(page: Any, until: float) -> None:
    """Each page in turn, for an equal part of the time that is left."""
    for left, route in zip(range(len(_ROUTES), 0, -1), _ROUTES, strict=True):
        page.evaluate("route => { location.hash = `#/${route}`; }", route)
        page.locator(".loading").first.wait_for(state="detached")
        page.wait_for_timeout(max(500.0, 1000 * (until - time.monotonic()) / left))


def _sample(tools: Any, minute: float) -> Sample:
    tools.send("HeapProfiler.collectGarbage")
    used = tools.send("Runtime.getHeapUsage")["usedSize"]
    metrics = {
        each["name"]: each["value"] for each in tools.send("Performance.getMetrics")["metrics"]
    }
    return Sample(
        round(minute, 2), int(used), int(metrics["Nodes"]), int(metrics["JSEventListeners"])
    )


def findings(samples: list[Sample]) -> list[Finding]:
    """The median of the last third against that of the first, of what came after the first
    quarter."""
    judged = samples[len(samples) // 4 :]
    third = len(judged) // 3
    minutes = round(samples[-1].minute)
    found = []
    for what, unit in (("heap", 1e6), ("nodes", 1), ("listeners", 1)):
        values = [getattr(each, what) / unit for each in judged]
        before, after = median(values[:third]), median(values[-third:])
        growth = after / before - 1
        found.append(
            Finding(
                f"growth in {minutes} minutes of an open dashboard: {what}",
                f"below {_REACH_GROWTH:.0%}",
                f"{growth:+.1%} ({before:,.2f} to {after:,.2f}, at most {max(values):,.2f})",
                growth < _REACH_GROWTH,
            )
        )
    return found


if __name__ == "__main__":
    sys.exit(main())
