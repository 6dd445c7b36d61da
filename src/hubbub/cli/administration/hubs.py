"""`hubbub hubs`: the hubs of a server, and the settings that hold for all of a hub."""

from __future__ import annotations

import click
import msgspec

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.assignments import assign
from hubbub.cli.administration.options import admin_options, confirm, json_lines_option, yes_option
from hubbub.cli.failures import WRONG, fail
from hubbub.cli.server.backup import json_option
from hubbub.cli.tables import Column, show_entry, show_list
from hubbub.domain.errors import InvalidName
from hubbub.domain.names import check_name
from hubbub.domain.rules import HubSettings

_COLUMNS: list[Column] = [
    ("HUB", lambda hub: hub["hub"]),
    ("SESSIONS", lambda hub: hub["sessions"]),
    ("CHANNELS", lambda hub: hub["channels"]),
    ("SETTINGS", lambda hub: "stored" if hub["stored"] else "none of its own"),
]


@click.group()
def hubs() -> None:
    """See, create, change and delete hubs."""


@hubs.command("list")
@click.option("--prefix", help="Only names that begin so.")
@json_lines_option
@admin_options
def list_hubs(admin: AdminClient, prefix: str | None, as_json: bool) -> None:
    """List all hubs."""
    show_list(admin.pages("hubs", prefix=prefix), _COLUMNS, "there are no hubs", as_json)


@hubs.command()
@click.argument("hub")
@json_option
@admin_options
def show(admin: AdminClient, hub: str, as_json: bool) -> None:
    """Show HUB with its settings and how it is used."""
    show_entry(admin.get("hubs", hub), as_json)


@hubs.command()
@click.argument("hub")
@click.argument("settings", metavar="[KEY=VALUE]...", nargs=-1)
@json_option
@admin_options
def create(admin: AdminClient, hub: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Create HUB, with settings such as allowAnonymous=on."""
    try:
        check_name(hub, "hub")
    except InvalidName as error:
        fail(error.message, WRONG)
    wanted = assign({}, settings, msgspec.to_builtins(HubSettings()))
    created = admin.post("hubs", body={"hub": hub, "settings": wanted})
    if as_json:
        show_entry(created, as_json)
    else:
        click.echo(f"created {hub}")


@hubs.command("set")
@click.argument("hub")
@click.argument("settings", metavar="KEY=VALUE...", nargs=-1, required=True)
@json_option
@admin_options
def set_settings(admin: AdminClient, hub: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Change settings of HUB; the others stay as they are.

    For example: defaultRules=open allowedOrigins=https://a.example,https://b.example
    quotas.sessions=1000. An empty value takes a name away: defaultRules=

    Settings: allowAnonymous, userChannel, defaultPublic, defaultRules, topicRules,
    authProvider, sessionRestore, allowedOrigins, trustedIssuers (in JSON), openTopics,
    callbackAddresses, natsSubjects, and quotas.sessions, .channels, .messagesPerSecond,
    .deliveriesPerSecond, .storedBytes, .webhooks, .webhookRequestsPerSecond.
    """
    path = ("hubs", hub, "settings")
    before = admin.find(*path)
    wanted = assign(before.value if before else {}, settings, msgspec.to_builtins(HubSettings()))
    show_entry(admin.put(*path, body=wanted, over=before), as_json)


@hubs.command()
@click.argument("hub")
@yes_option
@admin_options
def delete(admin: AdminClient, hub: str, yes: bool) -> None:
    """Delete HUB with all that it holds, and end its sessions."""
    confirm(f"Delete the hub {hub!r}, its messages and its settings?", yes)
    admin.delete("hubs", hub)
    click.echo(f"deleted {hub}")
