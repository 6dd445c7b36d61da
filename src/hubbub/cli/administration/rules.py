"""`hubbub rules`: named sets of features that channels can have."""

from __future__ import annotations

import click
import msgspec

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.assignments import assign
from hubbub.cli.administration.options import admin_options, confirm, json_lines_option, yes_option
from hubbub.cli.messages.options import hub_option
from hubbub.cli.server.backup import json_option
from hubbub.cli.tables import Column, show_entry, show_list
from hubbub.domain.rules import Rules


def _is_on(name: str, value: object) -> bool:
    return isinstance(value, int) and bool(value)


def _named(name: str, value: object) -> str:
    return name if value is True else f"{name}={value}"


_COLUMNS: list[Column] = [
    ("RULES", lambda rules: rules["name"]),
    ("ON", lambda rules: [_named(*item) for item in rules["value"].items() if _is_on(*item)]),
    ("JOURNAL", lambda rules: rules["value"]["journal"]),
]


@click.group()
def rules() -> None:
    """See, change and delete the rules of a hub."""


@rules.command("list")
@click.option("--prefix", help="Only names that begin so.")
@json_lines_option
@hub_option
@admin_options
def list_rules(admin: AdminClient, hub: str, prefix: str | None, as_json: bool) -> None:
    """List the rules with what they turn on."""
    found = admin.pages("hubs", hub, "rules", prefix=prefix)
    show_list(found, _COLUMNS, f"the hub {hub!r} has no rules", as_json)


@rules.command()
@click.argument("name")
@json_option
@hub_option
@admin_options
def show(admin: AdminClient, hub: str, name: str, as_json: bool) -> None:
    """Show the rules NAME."""
    show_entry(admin.get("hubs", hub, "rules", name), as_json)


@rules.command("set")
@click.argument("name")
@click.argument("features", metavar="[KEY=VALUE]...", nargs=-1)
@json_option
@hub_option
@admin_options
def set_rules(
    admin: AdminClient, hub: str, name: str, features: tuple[str, ...], as_json: bool
) -> None:
    """Turn features of the rules NAME on or off, at once for all channels that have them.

    Features that are not given stay as they are. Rules that are not there yet are made, with all
    else off. Features are on or off: retain, store, storeByDefault, push, presence, occupancy,
    public, clientPublish, allowAnonymous, liveHistory, reclaimAcknowledged, dropUnread. Limits are
    numbers, 0 for none: maxAgeSeconds, maxStoredMessages, maxStoredBytes. What the journal keeps of
    messages: journal=off, metadata or payload.
    """
    path = ("hubs", hub, "rules", name)
    before = admin.find(*path)
    wanted = assign(before.value if before else {}, features, msgspec.to_builtins(Rules()))
    show_entry(admin.put(*path, body=wanted, over=before, new=before is None), as_json)


@rules.command()
@click.argument("name")
@yes_option
@hub_option
@admin_options
def delete(admin: AdminClient, hub: str, name: str, yes: bool) -> None:
    """Delete the rules NAME, which nothing may use any more."""
    confirm(f"Delete the rules {name!r} of the hub {hub!r}?", yes)
    admin.delete("hubs", hub, "rules", name)
    click.echo(f"deleted {name}")
