"""How commands fail: one clear sentence on stderr and an exit code, never a traceback."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from hubbub.client import MessagesLost, Unreachable, UntrustedServer
from hubbub.domain.errors import (
    HubbubError,
    HubNotFound,
    InvalidToken,
    NotAuthenticated,
    NotPermitted,
    NotSubscribed,
)
from hubbub.server.settings.keys import SettingsError

FAILED = 1
"""The command was right and did not work."""
WRONG = 2
"""The command or the configuration is wrong."""


def fail(message: str, exit_code: int = FAILED) -> NoReturn:
    for line in message.splitlines():
        click.echo(f"hubbub: {line}", err=True)
    sys.exit(exit_code)


def advice(error: HubbubError) -> str:
    """What to do about it, where that can be known."""
    if isinstance(error, Unreachable):
        return "; is the server running? Start one with `hubbub serve --dev`, or give --url"
    if isinstance(error, UntrustedServer):
        return "; give the authority's certificate with --cafile or HUBBUB_CA_FILE"
    if isinstance(error, NotAuthenticated | InvalidToken):
        return (
            "; give the right hub with --hub, and a token with --token or HUBBUB_TOKEN"
            " (`hubbub token` makes one)"
        )
    if isinstance(error, NotPermitted):
        return "; a token with a grant may (`hubbub token --grant 'PATTERN=ps'`)"
    if isinstance(error, NotSubscribed):
        return ": hubbub subscribe --durable TOPIC"
    if isinstance(error, HubNotFound):
        return "; give another with --hub or HUBBUB_HUB, or declare it in the server's settings"
    if isinstance(error, MessagesLost):
        return "; leave out --strict to go on after a gap"
    return ""


@contextmanager
def clear_failures() -> Iterator[None]:
    """Turns what can go wrong in a command into a message and an exit code."""
    try:
        yield
    except HubbubError as error:
        fail(f"{error.message}{advice(error)}")
    except SettingsError as error:
        fail("\n".join(error.problems), WRONG)
    except BrokenPipeError:
        # The reader of our output went away, as `head` does: nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(FAILED)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fail(f"{where}{error.strerror or error}")


def run(work: Coroutine[Any, Any, None], until_interrupted: bool = False) -> None:
    """Run a command that talks to a hub. `until_interrupted`: Ctrl-C is how it ends well."""
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        if not until_interrupted:
            raise
