"""Common options of `hubbub pipeline`: locations of the journal and the tables."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from hubbub.cli.failures import clear_failures, fail
from hubbub.cli.journal.options import needing_arrow
from hubbub.cli.server.serving import config_option, load_settings


class Place(click.ParamType["Path | str"]):
    """A folder, or a URL in an object store."""

    name = "place"

    def convert(self, value: Any, *context: Any) -> Path | str:
        if "://" in str(value):
            return str(value)
        if Path(value).is_file():
            self.fail(f"{value} is a file; give a folder, or a URL of an object store.", *context)
        return Path(value)


def folders(
    journal: Path | str | None, warehouse: Path | str | None, config: Path | None
) -> tuple[Path | str, Path | str]:
    """The locations of journal and warehouse: from the options, or from the configuration. Raises
    `SettingsError`."""
    if journal is not None and warehouse is not None:
        return journal, warehouse
    from hubbub.server.journals import journal_path

    settings = load_settings(config)
    return (
        journal or journal_path(settings),
        warehouse or Path(settings.storage.path) / "warehouse",
    )


warehouse_option = click.option(
    "--warehouse",
    type=Place(),
    help="The folder or URL of the tables; without it, `warehouse` in the data folder.",
)


journal_option = click.option(
    "--journal",
    type=Place(),
    help="The journal's folder or URL; without it, the one that the configuration names.",
)
round_option = click.option(
    "--round",
    "number",
    type=click.IntRange(1),
    metavar="N",
    help="As of this round, as the table `rounds` numbers them; without it, as of the last one.",
)


def format_option(told: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--format",
        "form",
        type=click.Choice(["table", "csv", "json"]),
        default="table",
        show_default=True,
        help=told,
    )


def warehouse_command(command: Callable[..., None]) -> Callable[..., None]:
    """Passes the location of the tables to the command as `warehouse`, and converts errors to clear
    messages."""

    @functools.wraps(command)
    def with_warehouse(warehouse: Path | str | None, config: Path | None, **arguments: Any) -> None:
        with clear_failures(), needing_arrow():
            command(warehouse=folders(None, warehouse, config)[1], **arguments)

    return warehouse_option(config_option(with_warehouse))


def no_tables(warehouse: Path | str) -> NoReturn:
    fail(f"there are no tables in {warehouse} yet; make them with `hubbub pipeline run`")
