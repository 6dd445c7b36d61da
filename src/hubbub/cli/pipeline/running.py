"""`hubbub pipeline run` and `start`: rounds, which bring the tables up to date."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hubbub.cli.failures import clear_failures, fail
from hubbub.cli.journal.options import existing
from hubbub.cli.numbers import FiniteRange
from hubbub.cli.pipeline.options import folders, journal_option, warehouse_option
from hubbub.cli.pipeline.progress import Progress
from hubbub.cli.server.serving import config_option
from hubbub.cli.tables import answer, json_option
from hubbub.pipeline import packaging
from hubbub.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from hubbub.cli.pipeline.rounds import Rounds
    from hubbub.pipeline.jobs.rounds import RoundReport
    from hubbub.pipeline.tables.location import Location

MINUTE_SECONDS = 60
_LOOK_SECONDS = 0.5


def _round_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option(
            "--conf",
            "conf",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of Spark, such as spark.executor.memory=4g. May be repeated.",
        ),
        click.option(
            "--memory",
            type=click.IntRange(512),
            metavar="MB",
            help="Heap of Spark's driver; without it, half of the machine's, at most 2048.",
        ),
        click.option(
            "--master",
            default="local[*]",
            show_default=True,
            help="Where Spark runs: this process, or a cluster such as spark://host:7077.",
        ),
        click.option(
            "--package",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            help="What the workers of a cluster need, as `hubbub pipeline package` wrote it.",
        ),
        config_option,
        warehouse_option,
        click.option(
            "--archive",
            metavar="URL",
            help="Pull new segments from there first, such as s3://bucket/journal.",
        ),
        journal_option,
    ):
        command = option(command)
    return command


_every_option = click.option(
    "--every",
    type=FiniteRange(0.1),
    default=MINUTE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How often to look for what is new, with --follow.",
)


@click.command("run")
@_round_options
@click.option("--full", is_flag=True, help="Make all tables again from the journal.")
@click.option("--follow", is_flag=True, help="Go on until Ctrl-C or SIGTERM, with a warm Spark.")
@_every_option
@json_option
def run_command(full: bool, follow: bool, every: float, as_json: bool, **options: Any) -> None:
    """Bring the tables up to date with the journal.

    May be killed at any time: the next run goes on from what was committed."""
    with (
        clear_failures(),
        _interruptible(follow) as interruption,
        _rounds(follow, **options) as rounds,
    ):
        with Progress() as progress:
            report = rounds.run(full=full, said=progress)
        answer(report, _summary(report, rounds.journal), as_json)
        if follow:
            _follow(rounds, every, interruption)


@click.command("start")
@_round_options
@_every_option
def start_command(every: float, **options: Any) -> None:
    """Does the same as `run --follow`. A failed round is reported and repeated."""
    with clear_failures(), _interruptible(True) as interruption, _rounds(True, **options) as rounds:
        _follow(rounds, every, interruption)


@dataclass
class _Interruption:
    """Whether SIGTERM or Ctrl-C arrived. The exceptions that they raise can get lost: PySpark
    replaces them by a connection error, and Python drops exceptions raised during finalization."""

    came: bool = False


def _follow(rounds: Rounds, every: float, interruption: _Interruption) -> None:
    click.echo(f"following {rounds.journal} into {rounds.warehouse}; Ctrl-C ends it")
    while not interruption.came:
        began = time.monotonic()
        try:
            with Progress() as progress:
                report = rounds.run(said=progress)
        except PipelineError as error:
            if interruption.came:
                raise
            click.echo(f"hubbub: {error.message}", err=True)
            rounds.end_spark()
        else:
            if report.round:
                click.echo(_summary(report, rounds.journal))
        while not interruption.came and (left := began + every - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_SECONDS))


@contextlib.contextmanager
def _rounds(
    follow: bool,
    journal: Path | str | None,
    warehouse: Path | str | None,
    config: Path | None,
    archive: str | None,
    master: str,
    memory: int | None,
    conf: tuple[str, ...],
    package: Path | None,
) -> Iterator[Rounds]:
    """Modules that need PySpark are imported after checking that it is installed. With `follow`,
    the journal need not exist yet."""
    from hubbub.pipeline.java import require_spark

    settings = packaging.settings(package) if package else {}
    for setting in conf:
        key, equals, value = setting.partition("=")
        if not equals or not key.startswith("spark."):
            fail(f"--conf {setting}: it should be spark.some.key=value", 2)
        settings[key] = value
    journal_place, warehouse_place = folders(journal, warehouse, config)
    require_spark()
    if isinstance(journal, Path) and not (follow or archive):
        existing(journal)
    from hubbub.cli.pipeline.rounds import Rounds

    with Rounds(journal_place, warehouse_place, master, memory, settings, archive) as rounds:
        yield rounds


@contextlib.contextmanager
def _interruptible(until_interrupted: bool) -> Iterator[_Interruption]:
    """Makes SIGTERM behave like Ctrl-C, so that Spark is stopped and drafts are removed.
    `until_interrupted`: an interrupt is the normal end."""
    interruption = _Interruption()

    def interrupt(_signal: int, _frame: object) -> None:
        interruption.came = True
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield interruption
    except (KeyboardInterrupt, PipelineError):
        if not interruption.came:
            raise
        if not until_interrupted:
            raise KeyboardInterrupt from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _summary(report: RoundReport, journal: Location) -> str:
    if not report.round:
        if journal.is_local and not journal.path.exists():
            return f"nothing to do: there is no journal in {journal} yet; a hub that runs writes it"
        return f"up to date: nothing new in {journal}"
    late = f", {report.late:,} of them late" if report.late else ""
    lines = [
        f"round {report.round}: took in {report.segments:,} segments with {report.events:,}"
        f" events{late}, and changed {report.tables} tables in {report.seconds:.1f} s"
    ]
    lines += [f"  {kind:22} {count:>12,}" for kind, count in sorted(report.kinds.items())]
    if report.retracted:
        lines.append(f"took out {report.retracted:,} segments that were replaced")
    if report.refused:
        reasons = ", ".join(f"{count:,} {why}" for why, count in sorted(report.refused.items()))
        lines.append(f"refused: {reasons}; see `hubbub pipeline show quarantine`")
    return "\n".join(lines)
