"""Error handling of commands: one clear sentence on stderr and an exit code, never a traceback."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from hubbub.domain.errors import HubbubError
from hubbub.settings_error import SettingsError

FAILED = 1
"""Exit code: the command was valid but failed."""
WRONG = 2
"""Exit code: the command or the configuration is invalid."""


def fail(message: str, exit_code: int = FAILED) -> NoReturn:
    for line in message.splitlines():
        click.echo(f"{click.style('hubbub:', fg='red')} {line}", err=True)
    sys.exit(exit_code)


def note(message: str) -> None:
    """Prints a note besides the command's output."""
    click.echo(click.style(f"note: {message}", dim=True), err=True)


_PROVE_IT = (
    "; give the right hub with --hub, and a token with --token or HUBBUB_TOKEN (`hubbub token`"
    " makes one)"
)
_ADVICE = {
    "unreachable": "; is the server running? Start one with `hubbub serve --dev`, or give --url",
    "untrusted_server": "; give the authority's certificate with --cafile or HUBBUB_CA_FILE",
    "not_authenticated": _PROVE_IT,
    "invalid_token": _PROVE_IT,
    "not_permitted": "; a token with a grant may (`hubbub token --grant 'PATTERN=ps'`), or a"
    " service's (`hubbub token --level service`)",
    "not_subscribed": ": hubbub subscribe --durable TOPIC",
    "hub_not_found": "; give another with --hub or HUBBUB_HUB, or declare it in the server's"
    " settings",
    "messages_lost": "; leave out --strict to go on after a gap",
}


_NOT_PERMITTED = tuple(
    (re.compile(pattern), remedy)
    for pattern, remedy in (
        (
            "only an administrator of all hubs",
            "use such a token: `hubbub token --level admin --hub '*'`",
        ),
        (
            "no permission to call '([^']*)'",
            "a token that names the method may: `hubbub token --rpc '{0}'`",
        ),
        (
            "no permission to submit to the stream '([^']*)'",
            "a token for the stream may: `hubbub token --grant 'stream:{0}=p'`",
        ),
        (
            "the hub's hook does not permit",
            "only services pass without its hook: `hubbub token --level service`",
        ),
        ("no permission to send messages", "a service's token may: `hubbub token --level service`"),
    )
)
"""Refusals for which an ordinary grant is no remedy."""


def advice(error: HubbubError) -> str:
    """The remedy for an error, to complete its sentence; empty if none is known."""
    if error.code == "not_permitted":
        for pattern, remedy in _NOT_PERMITTED:
            if found := pattern.search(error.message):
                return f"; {remedy.format(*found.groups())}"
    return _ADVICE.get(error.code, "")


@contextmanager
def clear_failures() -> Iterator[None]:
    """Converts exceptions of a command to a message and an exit code."""
    try:
        yield
    except HubbubError as error:
        fail(f"{error}{advice(error)}")
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
    """Runs a command that talks to a hub. `until_interrupted`: Ctrl-C is its normal end."""
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        if not until_interrupted:
            raise
