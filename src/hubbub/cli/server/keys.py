"""`hubbub keys`: the keys that sign tokens, where the server runs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from hubbub.cli.administration.options import confirm, yes_option
from hubbub.cli.failures import WRONG, clear_failures, fail
from hubbub.cli.server.backup import data_option
from hubbub.cli.server.serving import config_option, load_settings
from hubbub.cli.tables import Columns, json_option, show_list
from hubbub.server.settings import Settings

_COLUMNS: Columns = {"KEY": "key", "FOR": "for", "SIGNS": "signs"}


@click.group()
def keys() -> None:
    """Look at the signing keys of a server, and replace them."""


@keys.command("list")
@json_option
@config_option
@data_option
def list_keys(config: Path | None, data: Path | None, as_json: bool) -> None:
    """List the ids of the keys. The first of each kind signs, all of them verify."""
    from hubbub.server.secrets import load_or_create

    with clear_failures():
        settings = load_settings(config)
        folder = _folder(settings, data)
        if not (folder / "secrets.json").exists() and not settings.auth.session.secret:
            fail(f"there are no signing keys in {folder}; give the server's --config or --data")
        found = load_or_create(folder, settings.auth)
    rows = [
        {"key": key.id, "for": purpose, "signs": index == 0}
        for purpose, ring in (("session", found.session), ("admin", found.admin))
        for index, key in enumerate(ring)
    ]
    show_list(rows, _COLUMNS, "", as_json)


@keys.command()
@click.argument("purpose", type=click.Choice(["session", "admin"]))
@click.option(
    "--keep",
    type=click.IntRange(0, 10),
    default=2,
    show_default=True,
    help="How many earlier keys still verify; 0 ends all tokens of the purpose: a key leaked.",
)
@yes_option
@config_option
@data_option
def rotate(
    purpose: Literal["session", "admin"],
    keep: int,
    yes: bool,
    config: Path | None,
    data: Path | None,
) -> None:
    """Sign with a new key from now on: `session` for clients and services, `admin` for
    administrators. Prints its id. A running server takes it up within a minute."""
    from hubbub.server.secrets import rotate as replace_key

    with clear_failures():
        settings = load_settings(config)
        if getattr(settings.auth, purpose).secret is not None:
            fail(
                f"the settings give the secret: move auth.{purpose}.secret to "
                f"auth.{purpose}.previousSecret, set a new one, and restart the server",
                WRONG,
            )
        folder = _folder(settings, data)
        if not (folder / "secrets.json").exists():
            fail(f"there are no signing keys in {folder}; give the server's --config or --data")
        if keep == 0:
            confirm(f"End all tokens for {purpose} that were signed so far?", yes)
        click.echo(replace_key(folder, purpose, keep))


def _folder(settings: Settings, data: Path | None) -> Path:
    return data if data is not None else Path(settings.storage.path)
