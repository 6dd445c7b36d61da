"""The commands that most kinds of entries have: list, show and delete, made from tables.

A path such as `rules/{name}` is below the hub's own in the admin API, and what is in braces is an
argument of the command. A path that begins with `/` is below the API itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.options import admin_options, confirm, json_lines_option, yes_option
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Columns, json_option, show_entry, show_list

Option = Callable[[Any], Any]

prefix_option = click.option("--prefix", help="Only names that begin so.")
_ARGUMENT = re.compile(r"{(\w+)}")


def add_list(
    group: click.Group, path: str, columns: Columns, nothing: str, about: str, *filters: Option,
    name: str = "list",
) -> None:  # fmt: skip
    """`nothing` is said where there are no entries; `filters` are options that are parameters of
    the query by the same name."""

    def show(admin: AdminClient, as_json: bool, hub: str = "", **query: Any) -> None:
        given = {key: "true" if value is True else value or None for key, value in query.items()}
        found = admin.pages(*_segments(path, hub=hub), **given)
        show_list(found, columns, nothing.format(hub=hub), as_json)

    _add(group, name, path, about, show, *filters, json_lines_option)


def add_show(group: click.Group, path: str, about: str, *arguments: Option) -> None:
    """`arguments` take the place of those that the path has."""

    def show(admin: AdminClient, as_json: bool, **values: str) -> None:
        show_entry(admin.get(*_segments(path, **values)), as_json)

    _add(group, "show", path, about, show, *(arguments or _arguments(path)), json_option)


def add_removal(
    group: click.Group, name: str, path: str, question: str, about: str, *arguments: Option
) -> None:
    """`name` is a verb such as `delete`; the answer names the last argument."""

    def remove(admin: AdminClient, yes: bool, **values: str) -> None:
        confirm(question.format(**values), yes)
        admin.delete(*_segments(path, **values))
        click.echo(f"{name.partition('-')[0]}d {values[_ARGUMENT.findall(path)[-1]]}")

    _add(group, name, path, about, remove, *(arguments or _arguments(path)), yes_option)


def _add(
    group: click.Group, name: str, path: str, about: str, run: Callable[..., None], *options: Option
) -> None:
    of_hub = () if path.startswith("/") else (hub_option,)
    for option in reversed((*options, *of_hub, admin_options)):
        run = option(run)
    group.command(name, help=about)(run)


def _segments(path: str, **values: str) -> list[str]:
    whole = path[1:] if path.startswith("/") else f"hubs/{{hub}}/{path}"
    return [part.format(**values) for part in whole.split("/")]


def _arguments(path: str) -> list[Option]:
    return [click.argument(name) for name in _ARGUMENT.findall(path)]
