"""`hubbub sessions`: who is connected, and ending it."""

from __future__ import annotations

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.options import admin_options, json_lines_option
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Column, local_time, show_list

_SHOWN_CHANNELS = 5


@click.group()
def sessions() -> None:
    """See and end the sessions of a hub."""


def _channels(names: list[str]) -> list[str]:
    more = len(names) - _SHOWN_CHANNELS
    return [*names[:_SHOWN_CHANNELS], f"and {more} more"] if more > 0 else names


_COLUMNS: list[Column] = [
    ("SESSION", lambda session: session["sessionID"]),
    ("USER", lambda session: session["userID"]),
    ("LEVEL", lambda session: session["level"]),
    ("SINCE", lambda session: local_time(session["openedAt"])),
    ("CHANNELS", lambda session: _channels(session["channels"])),
]


@sessions.command("list")
@click.option("--user", help="Only those of this user.")
@click.option("--channel", help="Only those that follow this channel.")
@json_lines_option
@hub_option
@admin_options
def list_sessions(
    admin: AdminClient, hub: str, user: str | None, channel: str | None, as_json: bool
) -> None:
    """List the open sessions."""
    found = admin.pages("hubs", hub, "sessions", user=user, channel=channel)
    show_list(found, _COLUMNS, f"no such session is open in the hub {hub!r}", as_json)


@sessions.command()
@click.argument("session_ids", metavar="SESSION...", nargs=-1, required=True)
@hub_option
@admin_options
def disconnect(admin: AdminClient, hub: str, session_ids: tuple[str, ...]) -> None:
    """End sessions for good.

    Whoever still has a token can come back with a new session.
    """
    for session_id in session_ids:
        admin.delete("hubs", hub, "sessions", session_id)
        click.echo(f"disconnected {session_id}")
