"""What the commands of `hubbub journal` share: which folder, which times, how they answer."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from hubbub.cli.failures import WRONG, clear_failures, fail
from hubbub.cli.server.serving import config_option, load_settings
from hubbub.journal.foreign_times import parse_time

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}

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
json_option = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


def journal_command(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the journal's folder as `journal`, and clear failures."""

    @functools.wraps(command)
    def with_folder(journal: Path | None, config: Path | None, **arguments: Any) -> None:
        with clear_failures(), needing_arrow():
            command(journal=journal or _configured(config), **arguments)

    return journal_option(config_option(with_folder))


def archive_command(command: Callable[..., None]) -> Callable[..., None]:
    """Like `journal_command`; gives it the archive's URL as `archive` besides."""

    @functools.wraps(command)
    def with_archive(archive: str | None, config: Path | None, **arguments: Any) -> None:
        with clear_failures(), needing_arrow():
            url = archive or load_settings(config).journal.archive
            if not url:
                fail("which archive? Give --archive URL, or set journal.archive", WRONG)
            folder = arguments.pop("journal") or _configured(config)
            command(journal=folder, archive=url, **arguments)

    return archive_option(journal_option(config_option(with_archive)))


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
        fail("this needs Arrow: run `make pipeline`, or pip install 'hubbub[pipeline]'")


def duration(_context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """Of an option such as `30d`: seconds."""
    if value is None:
        return None
    found = _DURATION.fullmatch(value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is not a time such as 30d, 12h, 90m or 45s")
    return float(found[1]) * _SECONDS[found[2]]


def moment(_context: click.Context, option: click.Parameter, value: str | None) -> int | None:
    """Of an option such as `2026-11-15T22:00:00Z`: microseconds since 1970."""
    if value is None:
        return None
    try:
        return parse_time(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a time such as 2026-11-15T22:00:00Z") from None


def existing(journal: Path) -> Path:
    """The folder, if there is a journal in it."""
    if not (journal / "sealed").is_dir() and not (journal / "open").is_dir():
        fail(f"{journal} holds no journal; give its folder with --journal", WRONG)
    return journal


def echo_json(value: object) -> None:
    click.echo(msgspec.json.encode(value).decode())
