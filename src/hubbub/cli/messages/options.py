"""Common options of commands that talk to a server: address, hub, token, and trusted
certificates."""

from __future__ import annotations

import functools
import logging
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click
import msgspec

from hubbub.cli.failures import note
from hubbub.client import Client, Options, connect
from hubbub.client.connection.tls import trusting_context
from hubbub.client.people import People

DEFAULT_URL = "ws://127.0.0.1:8000"

url_option = click.option(
    "--url",
    envvar="HUBBUB_URL",
    default=DEFAULT_URL,
    show_default=True,
    show_envvar=True,
    help="Address of the server.",
)
hub_option = click.option(
    "--hub",
    envvar="HUBBUB_HUB",
    default="demo",
    show_default=True,
    show_envvar=True,
    help="The hub to use.",
)
token_option = click.option(
    "--token", envvar="HUBBUB_TOKEN", show_envvar=True, help="Who you are, as a signed token."
)
_ca_file = click.option(
    "--cafile",
    "ca_file",
    envvar="HUBBUB_CA_FILE",
    show_envvar=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="PEM file of the authorities to trust, for wss:// and https://; else those of the system.",
)
_insecure = click.option(
    "--insecure",
    "-k",
    is_flag=True,
    envvar="HUBBUB_INSECURE",
    show_envvar=True,
    help="Do not check the server's certificate: anyone on the way can pass for it.",
)


class Trust(msgspec.Struct, frozen=True):
    """Trusted certificates of servers."""

    ca_file: Path | None
    insecure: bool

    def context(self, url: str) -> ssl.SSLContext | None:
        """None for an unencrypted address. Raises `BadRequest`."""
        if not url.lower().startswith(("wss://", "https://")):
            return None
        return trusting_context(self.ca_file, verify=not self.insecure)


def trust_options(command: Callable[..., None]) -> Callable[..., None]:
    """Passes the argument `trust` to a command."""

    @functools.wraps(command)
    def with_trust(ca_file: Path | None, insecure: bool, **arguments: Any) -> None:
        command(trust=Trust(ca_file, insecure), **arguments)

    return _ca_file(_insecure(with_trust))


class Notes(logging.Handler):
    """Prints the client's log messages, with a remedy at the end."""

    def __init__(self, remedy: str = "") -> None:
        super().__init__()
        self._remedy = remedy

    def emit(self, record: logging.LogRecord) -> None:
        note(f"{record.getMessage()}{self._remedy}")


_hub_notes = Notes("; another one is given with --hub or HUBBUB_HUB")


def hub_options(
    command: Callable[..., Coroutine[Any, Any, None] | None],
) -> Callable[..., None]:
    """Passes a function to the command, as its first argument, that creates an unconnected client.
    The command may be a coroutine."""

    @functools.wraps(command)
    def with_client(url: str, hub: str, token: str | None, trust: Trust, **arguments: Any) -> None:
        from hubbub.cli.failures import clear_failures, run

        def make(options: Options | None = None) -> Client:
            tls = trust.context(url)
            given = msgspec.structs.replace(options or Options(), tls=tls)
            return connect(url, hub=hub, token=token, options=given)

        logging.getLogger("hubbub.client.notes").addHandler(_hub_notes)
        with clear_failures():
            work = command(make, **arguments)
            if work is not None:
                run(work)

    return url_option(hub_option(token_option(trust_options(with_client))))


def people_options(command: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Passes the hub's `People` to a command as its first argument, and runs it."""

    @functools.wraps(command)
    def with_people(url: str, hub: str, token: str | None, trust: Trust, **arguments: Any) -> None:
        from hubbub.cli.failures import clear_failures, run

        with clear_failures():
            run(command(People(url, hub, token, trust.context(url)), **arguments))

    return url_option(hub_option(token_option(trust_options(with_people))))
