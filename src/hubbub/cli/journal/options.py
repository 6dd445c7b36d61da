"""Common options of `hubbub journal`: the folder and the archive."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from hubbub.cli.failures import WRONG, clear_failures, fail
from hubbub.cli.server.serving import config_option, load_settings

journal_option = click.option(
    "--journal",
    type=click.Path(path_type=Path, file_okay=False),
    help="The journal's folder; without it, the one that the configuration names.",
)
archive_option = click.option(
    "--archive",
    metavar="URL",
    help="Such as s3://bucket/journal; without it, `journal.archive` of the configuration.",
)


def journal_command(command: Callable[..., None]) -> Callable[..., None]:
    """Passes the journal's folder to the command as `journal`, the archive's URL as `archive` if
    the command has that option, and converts errors to clear messages."""

    @functools.wraps(command)
    def with_folder(journal: Path | None, config: Path | None, **arguments: Any) -> None:
        with clear_failures(), needing_arrow():
            if "archive" in arguments:
                arguments["archive"] = arguments["archive"] or load_settings(config).journal.archive
                if not arguments["archive"]:
                    fail("which archive? Give --archive URL, or set journal.archive", WRONG)
            command(journal=journal or _configured(config), **arguments)

    return journal_option(config_option(with_folder))


def archive_command(command: Callable[..., None]) -> Callable[..., None]:
    """Like `journal_command`, with the option for the archive."""
    return archive_option(journal_command(command))


def _configured(config: Path | None) -> Path:
    from hubbub.server.journals import journal_path

    return journal_path(load_settings(config))


@contextlib.contextmanager
def needing_arrow() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("pyarrow", "numpy"):
            raise
        fail("this needs Arrow: in a checkout, `make pipeline` installs it")


def existing(journal: Path) -> Path:
    """The folder, after a check that it contains a journal."""
    if not (journal / "sealed").is_dir() and not (journal / "open").is_dir():
        fail(f"{journal} holds no journal; give its folder with --journal", WRONG)
    return journal
