"""`hubbub namespaces`: which rules hold for the channels whose names begin alike."""

from __future__ import annotations

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.commands import add_list, add_removal, prefix_option
from hubbub.cli.administration.options import admin_options
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Columns

_COLUMNS: Columns = {
    "NAMESPACE": "name",
    "RULES": lambda namespace: namespace["value"]["rules"],
}


@click.group()
def namespaces() -> None:
    """See, change and delete the namespaces of a hub."""


add_list(
    namespaces, "namespaces", _COLUMNS, "the hub {hub!r} has no namespaces",
    "List the namespaces with their rules.", prefix_option,
)  # fmt: skip


@namespaces.command("set")
@click.argument("name")
@click.argument("rules")
@hub_option
@admin_options
def set_namespace(admin: AdminClient, hub: str, name: str, rules: str) -> None:
    """Give all channels that begin with NAME and ':' the rules RULES."""
    admin.put("hubs", hub, "namespaces", name, body={"rules": rules})
    click.echo(f"{name}:… has the rules {rules}")


add_removal(
    namespaces, "delete", "namespaces/{name}", "Delete the namespace {name!r} of the hub {hub!r}?",
    "Delete the namespace NAME; its channels then have the hub's default rules.",
)  # fmt: skip
