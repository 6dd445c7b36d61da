"""`hubbub collectives`: peers that are addressed together."""

from __future__ import annotations

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.commands import add_list, add_removal, add_show
from hubbub.cli.administration.options import admin_options
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Columns, json_option, show_entry

_COLUMNS: Columns = {"COLLECTIVE": "id", "POLICY": "policy"}
_POLICIES = ("TO_ALL_MEMBERS", "TO_ANY")


@click.group()
def collectives() -> None:
    """Groups of peers that are addressed together, as `collective:NAME`."""


add_list(
    collectives, "collectives", _COLUMNS, "the hub {hub!r} has no collectives",
    "List the collectives of a hub.",
)  # fmt: skip
add_show(collectives, "collectives/{name}", "Show the members of NAME.")
add_removal(
    collectives, "delete", "collectives/{name}",
    "Delete the collective {name!r} of the hub {hub!r}?",
    "Delete the collective NAME; its members stay peers.",
)  # fmt: skip


@collectives.command("set")
@click.argument("name")
@click.argument("members", metavar="[PEER]...", nargs=-1)
@click.option("--policy", type=click.Choice(_POLICIES), default=_POLICIES[0], show_default=True)
@json_option
@hub_option
@admin_options
def set_collective(
    admin: AdminClient, hub: str, name: str, members: tuple[str, ...], policy: str, as_json: bool
) -> None:
    """Create or replace the collective NAME with these members."""
    body = {"members": list(members), "policy": policy}
    show_entry(admin.put("hubs", hub, "collectives", name, body=body), as_json)


@collectives.command()
@click.argument("name")
@click.argument("peer")
@hub_option
@admin_options
def add(admin: AdminClient, hub: str, name: str, peer: str) -> None:
    """Add PEER to the collective NAME."""
    admin.put("hubs", hub, "collectives", name, "members", peer, body=None)
    click.echo(f"added {peer}")


@collectives.command()
@click.argument("name")
@click.argument("peer")
@hub_option
@admin_options
def remove(admin: AdminClient, hub: str, name: str, peer: str) -> None:
    """Take PEER out of the collective NAME."""
    admin.delete("hubs", hub, "collectives", name, "members", peer)
    click.echo(f"removed {peer}")
