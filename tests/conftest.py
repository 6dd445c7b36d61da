"""What all tests share."""

from __future__ import annotations

import asyncio
import faulthandler
from collections import Counter
from collections.abc import Callable, Generator, Mapping

import pytest
import pytest_timeout
import uvloop
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from harness import scratch, time_limits, worker_forks

_SPARK = "tests/pipeline/spark/"
pytest_plugins = ["harness.postgres", "harness.spark"]
scratch.keep_in_memory()

# The same examples every time, however busy the machine is. `--hypothesis-profile=explore`: others.
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    worker_forks.install()
    if not hasattr(config, "workerinput"):
        time_limits.mark_processes()


def pytest_unconfigure(config: pytest.Config) -> None:
    """With xdist: the workers have ended, and so has everything that their tests started."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        for line in time_limits.kill_what_is_left():
            print(f"killed, since tests left it running: {line}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--mqtt-sequences",
        help="the folder test/broker/data of Eclipse Mosquitto, whose byte sequences are played",
    )
    parser.addoption("--long", action="store_true", help="also run the long campaigns")


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """The tests of a file share its fixtures and servers, so that one worker runs them; so do
    those of a folder that share a Spark."""

    def _split_scope(self, nodeid: str) -> str:
        return _SPARK if nodeid.startswith(_SPARK) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Scheduling:
    return _Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # First what one worker runs alone, and takes longest.
    items.sort(key=lambda item: not item.nodeid.startswith(_SPARK))
    for item in items:
        time_limits.cancel_when_late(item)
    if config.getoption("--long"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> None:
    time_limits.end_when_late(item.config, settings.timeout)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer() -> None:
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """For the sake of debuggers, pytest and pytest-timeout take the time limit off a test that
    failed. What it leaves behind may wait for ever."""
    if isinstance(node, pytest.Item):
        time_limits.end_when_late(node.config, time_limits.seconds_of(node))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """At the end of what people read: failures that a repetition hid, and what was not tested."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"failed, then repeated: {report.nodeid}", red=True)
        terminalreporter.line(report.longreprtext)
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        told = report.longrepr
        text = told[2] if isinstance(told, tuple) else str(told)
        reasons[text.removeprefix("Skipped: ")] += 1
    if reasons:
        terminalreporter.section("not tested here", yellow=True)
        for reason, count in sorted(reasons.items()):
            terminalreporter.line(f"{count:5} tests: {reason}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test printed or logged may hold halves of characters, which xdist cannot send."""
    report = yield
    report.sections = [(name, _sendable(text)) for name, text in report.sections]
    if report.failed and _sendable(report.longreprtext) != report.longreprtext:
        report.longrepr = _sendable(report.longreprtext)
    return report


def _sendable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests run on the loop that production runs on."""
    return {"uvloop": uvloop.new_event_loop}
