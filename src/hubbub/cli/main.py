"""The command `hubbub`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from hubbub import __version__
from hubbub.domain.errors import HubbubError
from hubbub.server.settings import SettingsError, developer_settings, load


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hubbub")
def main() -> None:
    """One message hub for applications, services, devices and people."""


@main.command()
@click.option("--dev", is_flag=True, help="Developer mode: an open hub `demo`, loopback only.")
@click.option("--config", type=click.Path(path_type=Path), help="The YAML configuration file.")
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=int, help="Port to listen on.")
def serve(dev: bool, config: Path | None, host: str | None, port: int | None) -> None:
    """Run a hub."""
    from hubbub.server.lifecycle import run
    from hubbub.server.logs import configure

    try:
        settings = load(config, os.environ, {"listener.host": host, "listener.port": port})
        if dev:
            settings = developer_settings(settings)
        configure(settings.debug.level, settings.debug.log_format)
        run(settings, lambda server: click.echo(f"listening on port {server.port}"))
    except (SettingsError, HubbubError) as error:
        click.echo(f"hubbub: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
