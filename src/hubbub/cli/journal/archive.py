"""`hubbub journal push` and `pull`: upload and download sealed segments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hubbub.cli.journal.options import archive_command, existing
from hubbub.cli.tables import answer, json_option

if TYPE_CHECKING:
    from hubbub.journal.archive import Moved


@click.command()
@json_option
@archive_command
def push(journal: Path, archive: str, as_json: bool) -> None:
    """Bring sealed segments to the archive, and take away those that were replaced there."""
    from hubbub.journal.archive import Archive

    _tell("pushed", Archive(archive).push(existing(journal)), as_json)


@click.command()
@json_option
@archive_command
def pull(journal: Path, archive: str, as_json: bool) -> None:
    """Bring what the archive holds into the journal's folder, to analyse it there."""
    from hubbub.journal.archive import Archive

    _tell("pulled", Archive(archive).pull(journal), as_json)


def _tell(verb: str, done: Moved, as_json: bool) -> None:
    text = f"{verb} {done.segments} segments, {done.bytes:,} bytes; removed {done.removed}"
    answer(done, text, as_json)
