"""The options of all commands that talk to a hub."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from hubbub.client import Client, connect

DEFAULT_URL = "ws://127.0.0.1:8000"

_OPTIONS = (
    click.option(
        "--url",
        envvar="HUBBUB_URL",
        default=DEFAULT_URL,
        show_default=True,
        show_envvar=True,
        help="Address of the server.",
    ),
    click.option(
        "--hub",
        envvar="HUBBUB_HUB",
        default="demo",
        show_default=True,
        show_envvar=True,
        help="The hub to use.",
    ),
    click.option(
        "--token", envvar="HUBBUB_TOKEN", show_envvar=True, help="Who you are, as a signed token."
    ),
)


def hub_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command a client as its first argument `client`, not connected yet."""

    @functools.wraps(command)
    def with_client(url: str, hub: str, token: str | None, **arguments: Any) -> None:
        from hubbub.cli.failures import clear_failures

        with clear_failures():
            make: Callable[[], Client] = functools.partial(connect, url, hub=hub, token=token)
            command(make, **arguments)

    for option in reversed(_OPTIONS):
        with_client = option(with_client)
    return with_client
