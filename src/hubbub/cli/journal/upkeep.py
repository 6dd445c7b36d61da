"""`hubbub journal compact` and `prune`: keep the journal small."""

from __future__ import annotations

from pathlib import Path

import click

from hubbub.cli.journal.options import existing, journal_command
from hubbub.cli.progress import progress_of
from hubbub.cli.tables import answer, json_option
from hubbub.cli.times import Duration

_MEGABYTE = 1_000_000


@click.command()
@click.option("--small", default=32, show_default=True, help="Megabytes under which one is small.")
@click.option("--target", default=128, show_default=True, help="Megabytes of a new segment.")
@click.option(
    "--grace",
    type=Duration(),
    default="1h",
    show_default=True,
    help="How long old files stay for readers that are under way.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@json_option
@journal_command
def compact(
    journal: Path, small: int, target: int, grace: float, dry_run: bool, as_json: bool
) -> None:
    """Put the small sealed segments of each day together."""
    from hubbub.journal.compaction import compact as put_together

    done = put_together(
        existing(journal),
        small_bytes=small * _MEGABYTE,
        target_bytes=target * _MEGABYTE,
        grace_seconds=grace,
        dry_run=dry_run,
        progress=progress_of("compacting"),
    )
    verb = "would make" if dry_run else "made"
    text = f"{verb} {done.after} segments of {done.before}; removed {done.removed} old files"
    answer(done, text, as_json)
    _echo_skipped(done.skipped, as_json)


@click.command()
@click.option(
    "--older-than",
    type=Duration(),
    required=True,
    metavar="DURATION",
    help="Such as 30d: segments whose youngest event is older go.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@json_option
@journal_command
def prune(journal: Path, older_than: float, dry_run: bool, as_json: bool) -> None:
    """Remove sealed segments by age. Tables that were made of them stay."""
    from hubbub.journal.retention import prune as remove_old

    done = remove_old(existing(journal), older_than, dry_run=dry_run)
    verb = "would remove" if dry_run else "removed"
    size = f"{done.bytes / _MEGABYTE:.1f} MB"
    text = f"{verb} {len(done.segments)} segments ({size}); {done.kept} stay"
    answer(done, text, as_json)
    _echo_skipped(done.skipped, as_json)


def _echo_skipped(reasons: tuple[str, ...], as_json: bool) -> None:
    for reason in () if as_json else reasons:
        click.echo(f"left alone: {reason}", err=True)
