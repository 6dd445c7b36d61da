"""Output of commands: sentences and tables for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from hubbub.cli.printing import escape_control, to_json

Entry = Mapping[str, Any]
Columns = Mapping[str, str | Callable[[Any], object]]
"""Columns by title: a field's name, or a function of an entry."""


json_option = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


def answer(value: object, text: str, as_json: bool) -> None:
    """Prints the value as JSON, or its text."""
    click.echo(to_json(value) if as_json else text)


def show_list(entries: Iterable[Entry], columns: Columns, none: str, json: bool) -> None:
    """`none` is printed if there are no entries."""
    if json:
        for entry in entries:
            click.echo(to_json(entry))
        return
    rows = [[readable(_value(entry, each)) for each in columns.values()] for entry in entries]
    if not rows:
        click.echo(none, err=True)
        return
    titles, *lines = table(list(columns), rows)
    click.echo(click.style(titles, bold=True))
    for line in lines:
        click.echo(line)


def _value(entry: Entry, column: str | Callable[[Any], object]) -> object:
    return entry[column] if isinstance(column, str) else column(entry)


def show_entry(entry: Entry, json: bool) -> None:
    """Prints one line per field; nested fields have dotted names."""
    if json:
        click.echo(to_json(entry))
        return
    fields = list(_flat(entry))
    width = max((len(name) for name, _ in fields), default=0)
    for name, value in fields:
        click.echo(f"{name:{width}}  {readable(value)}".rstrip())


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Numbers are right-aligned, other cells left-aligned."""
    lines = [titles, *rows]
    places = range(len(titles))
    widths = [max(len(line[place]) for line in lines) for place in places]
    numbers = [all(_is_number(row[place]) for row in rows) for place in places]
    return [
        "  ".join(
            line[place].rjust(widths[place]) if numbers[place] else line[place].ljust(widths[place])
            for place in places
        ).rstrip()
        for line in lines
    ]


def readable(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return escape_control(", ".join(value)) or "-"
    return escape_control(value if isinstance(value, str) else str(_compact(value)))


def local_time(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000).astimezone():%Y-%m-%d %H:%M:%S}"


def _compact(value: object) -> object:
    return to_json(value) if isinstance(value, dict | list) else value


def _flat(entry: Entry, prefix: str = "") -> Iterable[tuple[str, object]]:
    for name, value in entry.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", None if value == {} else value


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).isdigit()
