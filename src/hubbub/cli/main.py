"""The command `hubbub`: its subcommands, each imported when it is used."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

import click

from hubbub import __version__
from hubbub.rooms import places

_MESSAGES = "hubbub.cli.messages"
_ADMINISTRATION = "hubbub.cli.administration"
_SERVER = "hubbub.cli.server"

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Messages": {
        "publish": f"{_MESSAGES}.publishing",
        "subscribe": f"{_MESSAGES}.reading",
        "history": f"{_MESSAGES}.reading",
        "threads": f"{_MESSAGES}.threads",
        "search": f"{_MESSAGES}.searching",
        "presence": f"{_MESSAGES}.reading",
        "document": f"{_ADMINISTRATION}.documents",
        "call": f"{_MESSAGES}.calling",
        "submit": f"{_MESSAGES}.calling",
        "command": f"{_MESSAGES}.commanding",
        "answer": f"{_MESSAGES}.commanding",
        "send": f"{_MESSAGES}.sending",
        "follow": f"{_MESSAGES}.following",
        "followed": f"{_MESSAGES}.following",
        "unfollow": f"{_MESSAGES}.following",
    },
    "Topics, exactly once": {
        "put": f"{_MESSAGES}.putting",
        "get": f"{_MESSAGES}.getting",
        "ack": f"{_MESSAGES}.topics",
        "topics": f"{_MESSAGES}.topics",
        "unsubscribe": f"{_MESSAGES}.topics",
        "shell": f"{_MESSAGES}.shell",
    },
    "Administration of a running server": {
        **{
            name: f"{_ADMINISTRATION}.{name}"
            for name in (
                *("hubs", "channels", "rules", "sessions", "webhooks", "push"),
                *("stats", "cluster", "shutdown", "peers", "adapters"),
            )
        },
        **dict(places("cli", "commands")),
        **{
            name: f"{_ADMINISTRATION}.sections:{name.replace('-', '_')}"
            for name in (
                *("namespaces", "subscriptions", "users", "collectives", "routes", "callbacks"),
                "message-info",
            )
        },
        "admin": f"{_ADMINISTRATION}.commands:admin",
    },
    "Where the server runs": {
        "serve": f"{_SERVER}.serving",
        "config": f"{_SERVER}.serving:config_group",
        "token": f"{_SERVER}.tokens",
        "keys": f"{_SERVER}.keys",
        "plugin": f"{_SERVER}.plugins",
        "adapter": f"{_SERVER}.adapters",
        "backup": f"{_SERVER}.backup",
        "restore": f"{_SERVER}.restoring",
        "journal": "hubbub.cli.journal",
        "pipeline": "hubbub.cli.pipeline",
        "bench": f"{_SERVER}.bench",
        "completion": "hubbub.cli.completion",
    },
}
"""Commands by category: the module of each, and the name in it if that differs."""


class _Commands(click.Group):
    """Imports a command when it is requested: `hubbub --version` needs none."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        # Only the names are looked at, for advice about one that was mistyped.
        self.commands = dict.fromkeys(self.list_commands(click.Context(self)), click.Command(None))

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Enables colours only on a terminal that wants them."""
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            extra["color"] = False
        return super().make_context(info_name, args, parent, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for group in GROUPS.values() for name in group]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for group in GROUPS.values():
            if cmd_name in group:
                return _load(cmd_name, group[cmd_name])
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = formatter.width - 6 - max(map(len, self.list_commands(ctx)))
        for title, group in GROUPS.items():
            rows = [(name, _load(name, place).get_short_help_str(width)) for name, place in
                    group.items()]  # fmt: skip
            with formatter.section(click.style(title, bold=True)):
                formatter.write_dl(rows)


def _load(name: str, place: str) -> click.Command:
    module, _, attribute = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute or name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("hubbub"):
            raise
        return _absent(name, error.name)
    assert isinstance(found, click.Command)
    return found


def _absent(name: str, package: str) -> click.Command:
    """A placeholder for a server command when only the client is installed."""
    advice = f"needs {package}, of the server: pip install '.[server]' in a checkout"

    @click.command(
        name,
        short_help=f"({advice})",
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        raise click.ClickException(f"`hubbub {name}` {advice}")

    return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hubbub")
def main() -> None:
    """One message hub for applications, services, devices and people."""


if __name__ == "__main__":
    main()
