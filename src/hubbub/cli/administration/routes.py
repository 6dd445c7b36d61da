"""`hubbub routes`: rules that give messages receivers besides the one that they name."""

from __future__ import annotations

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.commands import add_list, add_removal, add_show, prefix_option
from hubbub.cli.administration.options import admin_options
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Columns

_CONDITIONS = ("type", "subtype", "receiver", "sender")
_COLUMNS: Columns = {
    "ROUTE": "name",
    "WHEN": lambda rule: [
        f"{name}={rule['value'][name]}" for name in _CONDITIONS if rule["value"].get(name)
    ],
    "TO": lambda rule: rule["value"]["route"],
}


@click.group()
def routes() -> None:
    """Rules that send messages to receivers besides the one that they name."""


add_list(
    routes, "routes", _COLUMNS, "the hub {hub!r} has no routes",
    "List the rules with their conditions and receivers.", prefix_option,
)  # fmt: skip
add_show(routes, "routes/{name}", "Show the rule NAME.")
add_removal(
    routes, "delete", "routes/{name}", "Delete the route {name!r} of the hub {hub!r}?",
    "Delete the rule NAME.",
)  # fmt: skip


@routes.command()
@click.argument("receivers", metavar="RECEIVER...", nargs=-1, required=True)
@click.option("--type", "kind", default="", help="Only messages of this type.")
@click.option("--subtype", default="", help="Only messages of this subtype.")
@click.option("--receiver", default="", help="Only messages to this receiver.")
@click.option("--sender", default="", help="Only messages of this sender.")
@hub_option
@admin_options
def add(
    admin: AdminClient,
    hub: str,
    receivers: tuple[str, ...],
    kind: str,
    subtype: str,
    receiver: str,
    sender: str,
) -> None:
    """Send messages that match to RECEIVER, too: a peer, `collective:x` or `component:x`.

    At least one condition is needed. Prints the name of the new rule.
    """
    given = zip(_CONDITIONS, (kind, subtype, receiver, sender), strict=True)
    body = {"route": list(receivers), **{name: value for name, value in given if value}}
    click.echo(admin.post("hubs", hub, "routes", body=body)["id"])
