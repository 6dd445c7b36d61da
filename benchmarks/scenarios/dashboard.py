"""An open dashboard: what it costs the hub with 10,000 sessions, and what a tick costs its page.

A real browser looks on (scripts/browser.sh). For the page, the ticks of an hour are sent in a
minute, in place of those of the hub: all figures change with each.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from random import Random
from statistics import median
from typing import Any

from benchmarks.browser import address, browser, logged_in
from benchmarks.findings import Effort, Finding, spread
from benchmarks.hub import HUB, Hubbub, hubbub
from benchmarks.load.residents import residents
from benchmarks.load.stamp import INDEX
from benchmarks.load.subscribers import Audience

_SESSIONS = 10_000
_CHANNEL = f"user-{INDEX.decode()}"
_WINDOW_SECONDS = 15.0
_REACH_CORE = 0.01
_FULL = 900
"""Ticks until the charts are full, and then as many as a measurement takes."""
_HOUR = 3600
_HUBS = 20
_REACH_MILLISECONDS = 4.0
_REACH_PAINT = 300.0
_REACH_LARGEST = 1000.0
_SLOWER = 4
_PAINTS = """() => new Promise((done) => {
  const paints = Object.fromEntries(
    performance.getEntriesByType("paint").map((each) => [each.name, each.startTime]));
  new PerformanceObserver((list) =>
    done({ ...paints, largest: list.getEntries().at(-1).startTime })
  ).observe({ type: "largest-contentful-paint", buffered: true });
})"""
_REACH_GROWTH = 0.05
_LISTED = 100_000
_CHANNELS_EACH = 200
_SCROLLS = 15
_REACH_PAGE = 10.0
_WORK = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")
_FIGURES = ("sessions", "subscriptions", "messagesIn", "messagesOut", "bytesIn", "bytesOut")


def dashboard(effort: Effort) -> list[Finding]:
    with hubbub() as server, browser() as started:
        context = logged_in(started, server)
        return [
            *_first_paint(context, server, effort),
            *_long_list(context, server, effort),
            _hub_cost(context, server, effort),
            *_tick_cost(context, server, effort),
        ]


def _first_paint(context: Any, server: Hubbub, effort: Effort) -> list[Finding]:
    """Of the overview, for somebody who is logged in: with nothing in the browser's cache, and on
    a processor of a quarter of the speed."""
    findings = []
    for slower, name, of, most in (
        (1, "first paint", "first-contentful-paint", _REACH_PAINT),
        (_SLOWER, f"largest paint, processor {_SLOWER} times slower", "largest", _REACH_LARGEST),
    ):
        seen = [_painted(context, server, slower)[of] for _ in range(5 * effort.rounds)]
        findings.append(
            Finding(
                f"{name} of the dashboard on loopback: ms",
                f"below {most:g}",
                spread(seen, digits=0),
                median(seen) < most,
                {"milliseconds": seen},
            )
        )
    return findings


def _painted(context: Any, server: Hubbub, slower: int) -> dict[str, float]:
    """Milliseconds from the navigation on, when the page has shown its data."""
    page = context.new_page()
    tools = context.new_cdp_session(page)
    tools.send("Network.enable")
    tools.send("Network.setCacheDisabled", {"cacheDisabled": True})
    tools.send("Emulation.setCPUThrottlingRate", {"rate": slower})
    page.goto(address(server))
    page.get_by_role("table", name="Nodes").wait_for()
    page.wait_for_timeout(500)
    seen: dict[str, float] = page.evaluate(_PAINTS)
    page.close()
    return seen


def _long_list(context: Any, server: Hubbub, effort: Effort) -> list[Finding]:
    """The page of channels of a hub with 100,000: opened, searched, sorted and scrolled."""
    sessions = effort.scaled(_LISTED // _CHANNELS_EACH)
    names = [f"room:{INDEX.decode()}:{number:03}" for number in range(_CHANNELS_EACH)]
    with residents([Audience(server.subscription(*names), sessions)]):
        page = context.new_page()
        page.goto(address(server, f"channels?hub={HUB}"))
        total = f"{sessions * _CHANNELS_EACH:,} rows"
        page.locator(".table-foot", has_text=total).wait_for()
        tools = context.new_cdp_session(page)
        tools.send("Performance.enable", {"timeDomain": "threadTicks"})
        loaded: list[str] = []
        page.on("response", lambda each: loaded.append(each.url) if "/channels?" in each.url else 0)
        before, hub_before = _measured(tools), server.process.cpu_seconds()
        _use_list(page, total)
        after, hub_after = _measured(tools), server.process.cpu_seconds()
        page.close()
    pages = len(loaded)
    hub = 1000 * (hub_after - hub_before) / pages
    spent = {name: 1000 * (after[name] - before[name]) / pages for name in _WORK}
    return [
        Finding(
            f"a page of {total} of channels, as the browser loads it: ms of CPU of the hub",
            f"below {_REACH_PAGE:g}",
            f"{hub:.1f} ({pages} pages of 200, JSON and HTTP included)",
            hub < _REACH_PAGE,
            {"pages": pages},
        ),
        Finding(
            "the same: ms of CPU of the page for script, style and layout",
            "",
            f"{sum(spent.values()):.1f}",
            None,
            spent,
        ),
    ]


def _use_list(page: Any, total: str) -> None:
    table = page.get_by_role("table", name="Channels")
    find = page.get_by_label("Search names")
    for text in ("7:1", "99:49", "room:1"):
        with page.expect_response("**/channels?*"):
            find.fill(text)
    with page.expect_response("**/channels?*"):
        find.fill("")
    page.locator(".table-foot", has_text=total).wait_for()
    with page.expect_response("**/channels?*"):
        table.get_by_role("button", name="sessions").click()
    for _ in range(_SCROLLS):
        with page.expect_response("**/channels?*"):
            table.evaluate("(box) => box.scrollTo(0, box.scrollHeight)")
        page.wait_for_timeout(50)


def _hub_cost(context: Any, server: Hubbub, effort: Effort) -> Finding:
    count = effort.scaled(_SESSIONS)
    with residents([Audience(server.subscription(_CHANNEL), count)]):
        time.sleep(2)
        before = _cores(server)
        page = context.new_page()
        page.goto(address(server))
        page.locator(".link-state.live").wait_for()
        time.sleep(2)
        watched = _cores(server)
        page.close()
        time.sleep(2)
        after = _cores(server)
    alone = min(before, after)
    return Finding(
        f"an open dashboard with {count:,} sessions: of a core of the hub (nobody looks)",
        f"below {_REACH_CORE:.0%}",
        f"{watched - alone:.2%} ({before:.2%} before, {after:.2%} after)",
        watched - alone < _REACH_CORE,
        {"before": before, "watched": watched, "after": after},
    )


def _cores(server: Hubbub) -> float:
    began, cpu = time.monotonic(), server.process.cpu_seconds()
    time.sleep(_WINDOW_SECONDS)
    return (server.process.cpu_seconds() - cpu) / (time.monotonic() - began)


class _Ticks:
    """Answers the page's socket in place of the hub."""

    def __init__(self, page: Any) -> None:
        self._random = Random(1)
        self._at = int(time.time())
        self._channels: set[str] = set()
        self._socket: Any = None
        page.route_web_socket("**/dashboard/socket", self._accept)

    def _accept(self, socket: Any) -> None:
        self._socket = socket
        socket.on_message(self._received)
        self._say("SessionInfo", {"hubID": "*", "sessionID": "s", "authenticated": True})

    def _received(self, text: str) -> None:
        said = json.loads(text)
        if said["event"] == "Subscribe":
            self._channels |= {each["channel"] for each in said["payload"]["channels"]}

    def _say(self, event: str, payload: Mapping[str, object]) -> None:
        self._socket.send(json.dumps({"event": event, "payload": payload}))

    def _figures(self) -> dict[str, int]:
        return {name: self._random.randrange(1000, 100_000) for name in _FIGURES}

    def tick(self) -> None:
        self._at += 1
        hubs = {
            f"hub{number:02}": {**self._figures(), "sessions": 1000 - number}
            for number in range(_HUBS)
        }
        counted = {"at": 1000 * self._at, "nodes": 1, "silent": [], **self._figures(), "hubs": hubs}
        assert "counters" in self._channels
        self._say("Publish", {"channel": "counters", "payload": {"json": counted}})


def _tick_cost(context: Any, server: Hubbub, effort: Effort) -> list[Finding]:
    page = context.new_page()
    ticks = _Ticks(page)
    page.goto(address(server))
    page.locator(".link-state.live").wait_for()
    page.get_by_role("table", name="Nodes").wait_for()
    page.wait_for_load_state("networkidle")  # the series of the hub would take the place of ticks
    for _ in range(_FULL):
        ticks.tick()
    page.locator("canvas").nth(2).wait_for()
    page.wait_for_timeout(1000)
    cdp = context.new_cdp_session(page)
    cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = _measured(cdp)
    count = effort.scaled(_HOUR)
    for _ in range(count):
        ticks.tick()
        page.wait_for_timeout(20)  # each is laid out and painted
    after = _measured(cdp)
    spent = {name: 1000 * (after[name] - before[name]) / count for name in after}
    milliseconds = sum(spent[name] for name in _WORK)
    growth = after["JSHeapUsedSize"] / before["JSHeapUsedSize"] - 1
    page.close()
    return [
        Finding(
            "a tick of the dashboard: ms of CPU for script, style and layout (with painting)",
            f"below {_REACH_MILLISECONDS:g}",
            f"{milliseconds:.1f} ({spent['TaskDuration']:.1f})",
            milliseconds < _REACH_MILLISECONDS,
            spent,
        ),
        Finding(
            f"growth of the dashboard's heap by {count:,} ticks",
            f"below {_REACH_GROWTH:.0%}",
            f"{growth:.1%} ({before['JSHeapUsedSize'] / 1e6:.1f} MB before)",
            growth < _REACH_GROWTH,
            {"before": before["JSHeapUsedSize"], "after": after["JSHeapUsedSize"]},
        ),
    ]


def _measured(cdp: Any) -> dict[str, float]:
    cdp.send("HeapProfiler.collectGarbage")
    return {each["name"]: each["value"] for each in cdp.send("Performance.getMetrics")["metrics"]}
