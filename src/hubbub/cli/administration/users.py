"""`hubbub users`: what a hub keeps about a user."""

from __future__ import annotations

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.options import admin_options, confirm, yes_option
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import json_option, show_entry


@click.group()
def users() -> None:
    """Erase what a hub keeps about a user."""


@users.command()
@click.argument("user")
@click.option("--revoke", is_flag=True, help="Revoke the user's tokens first: sessions end.")
@yes_option
@json_option
@hub_option
@admin_options
def erase(admin: AdminClient, hub: str, user: str, revoke: bool, yes: bool, as_json: bool) -> None:
    """Delete the notifications, push tokens, subscriptions and webhooks of USER. `left` is what a
    search afterwards still found.

    The user's name is taken off the notifications of others, and off channels with an owner. Those
    that the user owned belong to the hub from now on.

    The journal has a command of its own: `hubbub journal erase`.
    """
    confirm(f"Erase what the hub {hub!r} keeps about {user!r}?", yes)
    query = {"revoke": "true"} if revoke else {}
    show_entry(admin.delete("hubs", hub, "users", user, **query), as_json)
