"""`hubbub journal push` and `pull`: sealed segments to and from an archive."""

from __future__ import annotations

from pathlib import Path

import click

from hubbub.cli.journal.options import archive_command, echo_json, existing, json_option


@click.command()
@json_option
@archive_command
def push(journal: Path, archive: str, as_json: bool) -> None:
    """Bring sealed segments to the archive, and take away those that were replaced there."""
    from hubbub.journal.archive import Archive

    done = Archive(archive).push(existing(journal))
    if as_json:
        echo_json(done)
    else:
        click.echo(f"pushed {done.segments} segments, {done.bytes:,} bytes; removed {done.removed}")


@click.command()
@json_option
@archive_command
def pull(journal: Path, archive: str, as_json: bool) -> None:
    """Bring what the archive holds into the journal's folder, to analyse it there."""
    from hubbub.journal.archive import Archive

    done = Archive(archive).pull(journal)
    if as_json:
        echo_json(done)
    else:
        click.echo(f"pulled {done.segments} segments, {done.bytes:,} bytes; removed {done.removed}")
