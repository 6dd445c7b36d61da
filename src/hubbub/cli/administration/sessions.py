"""`hubbub sessions`: who is connected, and ending it."""

from __future__ import annotations

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.commands import add
from hubbub.cli.administration.options import admin_options
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Columns, local_time

_SHOWN_CHANNELS = 5


@click.group()
def sessions() -> None:
    """See and end the sessions of a hub."""


def _channels(names: list[str]) -> list[str]:
    more = len(names) - _SHOWN_CHANNELS
    return [*names[:_SHOWN_CHANNELS], f"and {more} more"] if more > 0 else names


_COLUMNS: Columns = {
    "SESSION": "sessionID",
    "USER": "userID",
    "LEVEL": "level",
    "SINCE": lambda session: local_time(session["openedAt"]),
    "CHANNELS": lambda session: _channels(session["channels"]),
}


add(
    sessions, "list", "listSessions", "List the open sessions.", columns=_COLUMNS,
    nothing="no such session is open in the hub {hub!r}",
)  # fmt: skip
add(sessions, "show", "getSession")


@sessions.command()
@click.argument("session_ids", metavar="SESSION...", nargs=-1, required=True)
@hub_option
@admin_options
def disconnect(admin: AdminClient, hub: str, session_ids: tuple[str, ...]) -> None:
    """End sessions for good.

    Whoever still has a token can come back with a new session.
    """
    for session_id in session_ids:
        admin.call("disconnectSession", {"hub": hub, "session": session_id})
        click.echo(f"disconnected {session_id}")
