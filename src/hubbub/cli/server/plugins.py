"""`hubbub plugin`: develop custom commands."""

from __future__ import annotations

from pathlib import Path

import click

from hubbub.cli.failures import FAILED
from hubbub.domain.plugins.analysis import analyse
from hubbub.domain.plugins.findings import Violation
from hubbub.domain.plugins.names import name_problem
from hubbub.domain.plugins.shape import PluginShape


@click.group()
def plugin() -> None:
    """Commands, validators and savers of your own, for the setting hcommands.path."""


@plugin.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="FILE…"
)
def check(files: tuple[Path, ...]) -> None:
    """Say what the hub would refuse: file, line, rule and remedy. A folder means its files.

    The exit code is 1 if anything would be refused."""
    refused = False
    for path in files:
        for file in sorted(path.glob("*.py")) if path.is_dir() else (path,):
            refused = not _is_accepted(file) or refused
    raise SystemExit(FAILED if refused else 0)


def _is_accepted(file: Path) -> bool:
    analysed = analyse(file.read_bytes())
    violations = list(analysed.violations)
    problem = name_problem(file.stem)
    if problem is not None:
        violations.insert(0, Violation(1, "name", *problem))
    for found in violations:
        click.echo(f"{file}:{found.line}: {found.rule}: {found.text}\n    {found.remedy}")
    if not violations:
        click.echo(f"{file}: {_offer(file.stem, analysed.shape)}")
    return not violations


def _offer(name: str, shape: PluginShape) -> str:
    offers = [f"command {name}, {shape.timeout_ms} ms"] if shape.run else []
    offers += [f"validates {collection}" for collection in shape.validates]
    offers += [f"saver of {collection}" for collection in shape.saves]
    return "; ".join(offers)
