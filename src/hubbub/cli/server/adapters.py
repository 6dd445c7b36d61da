"""`hubbub adapter`: develop custom adapters."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from hubbub.cli.failures import FAILED
from hubbub.connectors.adapters import included
from hubbub.connectors.adapters.operator_files import load_folder
from hubbub.ports.adapters import AdapterKinds, declared


@click.group()
def adapter() -> None:
    """Adapters of your own, for the setting adapters.path."""


@adapter.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def check(folder: Path) -> None:
    """Load the files of FOLDER as the hub does, and say what each gives or why it gives nothing.

    The exit code is 1 if a file cannot be loaded."""
    assert included.MODULES
    kinds, known = declared(), declared().names()
    broken = load_folder(folder, kinds)
    for name in kinds.names():
        if name not in known:
            click.echo(_offer(name, kinds))
    for file in broken:
        click.echo(f"{file.path}: {file.reason}")
    raise SystemExit(FAILED if broken else 0)


def _offer(name: str, kinds: AdapterKinds) -> str:
    kind = kinds.find(name)
    fields = msgspec.structs.fields(kind.settings)
    settings = ", ".join(field.encode_name for field in fields) or "none"
    way = {"output": "out", "push": "in, listens", "pull": "in, pulled"}[kind.direction]
    return f"{name}: {way}{', one for each peer' if kind.stateful else ''}; settings: {settings}"
