"""What commands show on a terminal and nowhere else: colours, and how far a long job is."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from harness.command import on_terminal
from harness.invoking import at, invoke
from harness.journals import message, seal
from harness.running_hub import StartHub, open_hub
from harness.topics import STORED
from hubbub.cli import progress
from hubbub.cli.main import main
from hubbub.cli.pipeline.progress import Progress

pytestmark = pytest.mark.spec("UI-03")

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


async def test_colours_are_where_a_terminal_is(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=STORED))
    env = {name: value for name, value in at(hub).items() if value}
    for text in ("hi", "\x1b[2Jgone"):
        assert (await invoke("publish", "news", text, "--store", **at(hub))).code == 0
    code, shown = await on_terminal("history", "news", env=env)
    assert code == 0
    assert "\x1b[36mnews\x1b[0m" in shown
    assert "\\x1b[2Jgone" in shown, "what a message says to the terminal is shown, not obeyed"
    assert "\x1b[2J" not in shown
    plain = (await invoke("history", "news", **at(hub))).out
    assert not COLOUR.search(plain)
    assert plain.splitlines() == COLOUR.sub("", shown).splitlines()


@pytest.mark.parametrize(
    ("variables", "styled"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_that_wants_no_colours_gets_none(
    variables: dict[str, str], styled: bool
) -> None:
    env = {"NO_COLOR": None, "TERM": "xterm", "HUBBUB_CONFIG": None, **variables}
    runner = CliRunner(env=env)
    shown = runner.invoke(main, ["--help"], color=True).stdout
    assert ("\x1b[1mMessages\x1b[0m" in shown) is styled
    mistake = runner.invoke(main, ["token", "--hub", "no hub/"], color=True).stderr
    assert ("\x1b[31mhubbub:\x1b[0m" in mistake) is styled
    assert bool(COLOUR.search(shown + mistake)) is styled


# -- long jobs ------------------------------------------------------------------------------------


class Told:
    """Takes the place of the line that changes."""

    def __init__(self) -> None:
        self.shares: dict[str, list[float]] = {}

    def progress_of(self, work: str) -> progress.Progress:
        return self.shares.setdefault(work, []).append


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    told = Told()
    for name in ("importing", "erase", "upkeep", "replaying"):
        module = importlib.import_module(f"hubbub.cli.journal.{name}")
        monkeypatch.setattr(module, "progress_of", told.progress_of)
    return told


def log(path: Path, rows: int) -> Path:
    lines = [f"2026-01-01T10:{n // 60 % 60:02}:{n % 60:02}Z,old,cid,text {n}" for n in range(rows)]
    path.write_text("\n".join(["time,channel,user,text", *lines]))
    return path


def check(shares: list[float], between: int) -> None:
    """From the beginning to the end, never back, with so many steps in between."""
    assert shares == sorted(shares)
    assert shares[0] < 0.5
    assert shares[-1] == 1.0
    assert len({share for share in shares if 0 < share < 1}) >= between, shares


async def test_jobs_of_the_journal_tell_how_far_they_are(
    start_server: StartHub, tmp_path: Path, told: Told
) -> None:
    journal = ("--journal", str(tmp_path / "j"))
    file = log(tmp_path / "log.csv", 3000)
    ended = await invoke("journal", "import", str(file), "--hub", "demo", *journal)
    assert ended.code == 0, ended.err
    check(told.shares["importing log.csv"], 2)
    for number in range(4):
        said = [message(10 * number + each, "bob") for each in range(1, 9)]
        seal(tmp_path / "j", message(10 * number, "ann"), *said)
    ended = await invoke("journal", "erase", "--user", "ann", "--hub", "demo", *journal)
    assert ended.code == 0, ended.err
    check(told.shares["erasing"], 9)  # searching, rewriting, searching again
    ended = await invoke("journal", "compact", *journal)
    assert ended.code == 0, ended.err
    check(told.shares["compacting"], 0)
    hub = await start_server(open_hub("demo", rules=STORED))
    arguments = ("--hub", "demo", "--channel", "chat", "--into", "copy")
    ended = await invoke("journal", "replay", *arguments, *journal, **at(hub, name="demo"))
    assert ended.code == 0, ended.err
    check(told.shares["replaying into copy"], 1)


async def test_a_long_job_says_on_a_terminal_what_it_does(tmp_path: Path) -> None:
    log(tmp_path / "log.csv", 100)
    arguments = ("journal", "import", "log.csv", "--hub", "demo", "--journal", "j")
    code, shown = await on_terminal(*arguments, folder=tmp_path)
    assert code == 0
    assert "\rimporting log.csv" in shown
    assert "imported 100 messages" in shown


@pytest.mark.parametrize("terminal", [True, False])
def test_a_round_of_the_pipeline_says_what_remains_of_its_step(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr("hubbub.cli.pipeline.progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr("hubbub.cli.pipeline.progress._tasks", lambda: (4, 16))
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    line = Progress()
    line("taking in")
    now[0] = 130.0
    line._show_tasks()
    shown = click.unstyle(capsys.readouterr().err)
    wanted = "4/16 tasks, 1 min 30 s left" if terminal else "4 of 16 tasks done, 1 min 30 s left"
    assert wanted in shown
