"""`hubbub subscriptions`: durable subscriptions, how far they are behind, and removing one."""

from __future__ import annotations

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.options import admin_options, confirm, json_lines_option, yes_option
from hubbub.cli.messages.options import hub_option
from hubbub.cli.server.backup import json_option
from hubbub.cli.tables import Column, show_entry, show_list

_COLUMNS: list[Column] = [
    ("CHANNEL", lambda found: found["channel"]),
    ("OWNER", lambda found: found["owner"]),
    ("NAME", lambda found: found["name"]),
    ("LAG", lambda found: found["lag"]),
    ("HANDED OUT", lambda found: found["handedOut"]),
    ("REDELIVERED", lambda found: found["redeliveries"]),
    ("DEAD", lambda found: found["deadLetters"]),
    ("MISSED", lambda found: found["missed"]),
]


@click.group()
def subscriptions() -> None:
    """See and remove the durable subscriptions of a hub."""


@subscriptions.command("list")
@click.option("--channel", help="Only those of this channel.")
@click.option("--owner", help="Only those of this owner, such as u:ann.")
@json_lines_option
@hub_option
@admin_options
def list_subscriptions(
    admin: AdminClient, hub: str, channel: str | None, owner: str | None, as_json: bool
) -> None:
    """List the durable subscriptions with what they still have to get."""
    found = admin.pages("hubs", hub, "subscriptions", channel=channel, owner=owner)
    show_list(found, _COLUMNS, f"the hub {hub!r} has no such durable subscription", as_json)


@subscriptions.command()
@click.argument("channel")
@click.argument("owner")
@click.argument("name", default="default")
@json_option
@hub_option
@admin_options
def show(admin: AdminClient, hub: str, channel: str, owner: str, name: str, as_json: bool) -> None:
    """Show where OWNER's durable subscription NAME to CHANNEL stands."""
    show_entry(admin.get("hubs", hub, "channels", channel, "subscriptions", owner, name), as_json)


@subscriptions.command()
@click.argument("channel")
@click.argument("owner")
@click.argument("name", default="default")
@yes_option
@hub_option
@admin_options
def remove(admin: AdminClient, hub: str, channel: str, owner: str, name: str, yes: bool) -> None:
    """Remove OWNER's durable subscription NAME to CHANNEL for good.

    Messages that only it still had to get are not kept for it any more.
    """
    confirm(f"Remove {owner}'s durable subscription {name!r} to {channel!r}?", yes)
    admin.delete("hubs", hub, "channels", channel, "subscriptions", owner, name)
    click.echo(f"removed {name}")
