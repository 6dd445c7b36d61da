"""The command `hubbub`: all its parts in one place."""

from __future__ import annotations

import click

from hubbub import __version__
from hubbub.cli.backup import backup, restore
from hubbub.cli.publishing import publish
from hubbub.cli.reading import history, presence, subscribe
from hubbub.cli.serving import config_group, serve
from hubbub.cli.tokens import token


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hubbub")
def main() -> None:
    """One message hub for applications, services, devices and people."""


for command in (serve, publish, subscribe, history, presence, token, config_group, backup, restore):
    main.add_command(command)


if __name__ == "__main__":
    main()
