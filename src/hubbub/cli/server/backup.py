"""`hubbub backup`: the data folder as one archive."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import click

from hubbub.cli.failures import clear_failures, fail
from hubbub.cli.printing import to_json
from hubbub.cli.server.serving import config_option, load_settings
from hubbub.cli.tables import json_option
from hubbub.server.backup.archive import BackupError, Manifest, Progress
from hubbub.server.data_folder import SECRETS

_MEGABYTE = 1_000_000

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="The data folder; without it, the one that the configuration names.",
)


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@data_option
@config_option
@click.option(
    "--with-secrets",
    is_flag=True,
    help=f"Also pack the signing keys ({SECRETS}) and the secrets in the store.",
)
@json_option
def backup(
    target: Path, data: Path | None, config: Path | None, with_secrets: bool, as_json: bool
) -> None:
    """Write an archive of the store to TARGET, a new file or a folder.

    The hub may be running: the archive holds the store as it was at one moment, and the hub goes
    on undisturbed.
    """
    from hubbub.server.backup.making import back_up

    with clear_failures():
        folder = data_folder(data, config)
        _step_back()
        try:
            path, manifest = back_up(folder, target, with_secrets=with_secrets, progress=show())
        except BackupError as error:
            fail(str(error))
        if as_json:
            click.echo(to_json({"archive": str(path), "manifest": manifest}))
            return
        click.echo(f"wrote {path} ({path.stat().st_size / _MEGABYTE:.1f} MB): {summary(manifest)}")
        if with_secrets:
            click.echo("it holds secrets: keep it where only you can read it")
        tell_left_out(manifest)


def _step_back() -> None:
    """Lowers the process's priority, if permitted."""
    with contextlib.suppress(OSError):
        os.nice(10)


def data_folder(data: Path | None, config: Path | None) -> Path:
    if data is not None:
        return data
    storage = load_settings(config).storage
    if storage.postgres.host is not None:
        fail(
            f"the store is the PostgreSQL server {storage.postgres.host}; back it up and restore it"
            " with that server's own tools (pg_dump, pg_restore)"
        )
    return Path(storage.path)


def summary(manifest: Manifest) -> str:
    size = sum(entry.bytes for entry in manifest.files.values())
    return (
        f"the store of {manifest.created}, {size / _MEGABYTE:.1f} MB, Hubbub {manifest.hubbub},"
        f" schema version {manifest.schema}"
    )


def tell_left_out(manifest: Manifest) -> None:
    left = manifest.left_out
    if left is not None and (left.webhooks or left.headers):
        click.echo(
            f"without secrets: {left.webhooks} webhooks with a secret are not in it, and"
            f" {left.headers} routes and auth providers have no headers; `hubbub backup"
            " --with-secrets` keeps them"
        )


def show() -> Progress:
    """Shows progress in one updated line on a terminal, otherwise nothing."""
    width = 0

    def show(work: str, share: float) -> None:
        nonlocal width
        line = f"{work} {share:4.0%}" if share else f"{work}…"
        click.echo(f"\r{line:{width}}", nl=False, err=True)
        width = len(line)
        if share >= 1:
            click.echo(f"\r{'':{width}}\r", nl=False, err=True)

    return show if sys.stderr.isatty() else lambda _work, _share: None
