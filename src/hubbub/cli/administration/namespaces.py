"""`hubbub namespaces`: which rules hold for the channels whose names begin alike."""

from __future__ import annotations

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.options import admin_options, confirm, json_lines_option, yes_option
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Column, show_list

_COLUMNS: list[Column] = [
    ("NAMESPACE", lambda namespace: namespace["name"]),
    ("RULES", lambda namespace: namespace["value"]["rules"]),
]


@click.group()
def namespaces() -> None:
    """See, change and delete the namespaces of a hub."""


@namespaces.command("list")
@click.option("--prefix", help="Only names that begin so.")
@json_lines_option
@hub_option
@admin_options
def list_namespaces(admin: AdminClient, hub: str, prefix: str | None, as_json: bool) -> None:
    """List the namespaces with their rules."""
    found = admin.pages("hubs", hub, "namespaces", prefix=prefix)
    show_list(found, _COLUMNS, f"the hub {hub!r} has no namespaces", as_json)


@namespaces.command("set")
@click.argument("name")
@click.argument("rules")
@hub_option
@admin_options
def set_namespace(admin: AdminClient, hub: str, name: str, rules: str) -> None:
    """Give all channels that begin with NAME and ':' the rules RULES."""
    admin.put("hubs", hub, "namespaces", name, body={"rules": rules})
    click.echo(f"{name}:… has the rules {rules}")


@namespaces.command()
@click.argument("name")
@yes_option
@hub_option
@admin_options
def delete(admin: AdminClient, hub: str, name: str, yes: bool) -> None:
    """Delete the namespace NAME; its channels then have the hub's default rules."""
    confirm(f"Delete the namespace {name!r} of the hub {hub!r}?", yes)
    admin.delete("hubs", hub, "namespaces", name)
    click.echo(f"deleted {name}")
