"""`hubbub pipeline`: tables about what happened, from the journal, on Spark."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hubbub.cli.failures import clear_failures, fail
from hubbub.cli.journal.options import journal_option
from hubbub.cli.server.serving import config_option, load_settings
from hubbub.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from hubbub.cli.pipeline_rounds import Rounds
    from hubbub.pipeline.rounds import Summary

MINUTE_SECONDS = 60


@click.group()
def pipeline() -> None:
    """Tables about what happened, from the journal."""


def folders(journal: Path | None, warehouse: Path | None, config: Path | None) -> tuple[Path, Path]:
    """Where the journal and the warehouse are: as told, or as the configuration says. Raises
    `SettingsError`."""
    if journal is not None and warehouse is not None:
        return journal, warehouse
    settings = load_settings(config)
    storage = Path(settings.storage.path)
    named = getattr(getattr(settings, "journal", None), "path", None)
    return journal or (
        Path(named) if named else storage / "journal"
    ), warehouse or storage / "warehouse"


warehouse_option = click.option(
    "--warehouse",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of the tables; without it, `warehouse` in the data folder.",
)


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
            help="Heap of Spark's driver; without it, half of the machine's, at most 3072.",
        ),
        click.option(
            "--master",
            default="local[*]",
            show_default=True,
            help="Where Spark runs: this process, or a cluster such as spark://host:7077.",
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


@pipeline.command("run")
@_round_options
@click.option("--full", is_flag=True, help="Make all tables again from the journal.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def run_command(full: bool, as_json: bool, **options: Any) -> None:
    """Bring the tables up to date with the journal, and stop.

    May be killed at any time: the next run goes on from what was committed."""
    with clear_failures(), _rounds(**options) as rounds:
        summary = rounds.run(full=full, said=_progress())
        if as_json:
            click.echo(msgspec.json.encode(summary).decode())
        else:
            _tell(summary, rounds.journal)


@pipeline.command("start")
@_round_options
@click.option(
    "--every",
    type=click.FloatRange(0.1),
    default=MINUTE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How often to look for what is new.",
)
def start_command(every: float, **options: Any) -> None:
    """Keep the tables up to date until Ctrl-C or SIGTERM.

    A round that fails is said, and tried again."""
    with clear_failures(), _rounds(**options) as rounds, contextlib.suppress(KeyboardInterrupt):
        click.echo(f"following {rounds.journal} into {rounds.warehouse.path}; Ctrl-C ends it")
        pause = threading.Event()
        while True:
            began = time.monotonic()
            try:
                summary = rounds.run(said=_progress())
            except PipelineError as error:
                click.echo(f"hubbub: {error.message}", err=True)
                rounds.end_spark()
            else:
                if summary.segments or summary.refused or summary.retracted:
                    _tell(summary, rounds.journal)
            pause.wait(max(0.0, every - (time.monotonic() - began)))


@contextlib.contextmanager
def _rounds(
    journal: Path | None,
    warehouse: Path | None,
    config: Path | None,
    archive: str | None,
    master: str,
    memory: int | None,
    conf: tuple[str, ...],
) -> Iterator[Rounds]:
    """Everything that needs PySpark is imported after it is known to be there."""
    from hubbub.pipeline.java import require_spark

    settings = {}
    for setting in conf:
        key, equals, value = setting.partition("=")
        if not equals or not key.startswith("spark."):
            fail(f"--conf {setting}: it should be spark.some.key=value", 2)
        settings[key] = value
    journal_path, warehouse_path = folders(journal, warehouse, config)
    require_spark()
    from hubbub.cli.pipeline_rounds import Rounds

    with (
        _ending_cleanly(),
        Rounds(journal_path, warehouse_path, master, memory, settings, archive) as rounds,
    ):
        yield rounds


@contextlib.contextmanager
def _ending_cleanly() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does, so that Spark is stopped and drafts are removed."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _progress() -> Callable[[str], None]:
    """On a terminal, one line that changes; elsewhere nothing."""
    if not sys.stderr.isatty():
        return lambda _: None
    width = 0

    def show(step: str) -> None:
        nonlocal width
        line = f"{step}…" if step else ""
        click.echo(f"\r{line:{width}}\r{line}", nl=False, err=True)
        width = len(line)

    return show


def _tell(summary: Summary, journal: Path) -> None:
    if not (summary.segments or summary.refused or summary.retracted or summary.tables):
        click.echo(f"up to date: nothing new in {journal}")
        return
    seconds = summary.silver_seconds + summary.gold_seconds
    late = f", {summary.late:,} of them late" if summary.late else ""
    click.echo(
        f"took in {summary.segments:,} segments with {summary.events:,} events{late},"
        f" and computed {summary.tables} tables in {seconds:.1f} s"
    )
    for kind, count in sorted(summary.kinds.items()):
        click.echo(f"  {kind:22} {count:>12,}")
    if summary.retracted:
        click.echo(f"took out {summary.retracted:,} segments that were replaced")
    if summary.refused:
        reasons = ", ".join(f"{count:,} {why}" for why, count in sorted(summary.refused.items()))
        click.echo(f"refused: {reasons}; see `hubbub pipeline show quarantine`")
