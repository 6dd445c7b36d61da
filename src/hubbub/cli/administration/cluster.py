"""`hubbub cluster`: the nodes and their load."""

from __future__ import annotations

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.options import admin_options
from hubbub.cli.printing import to_json
from hubbub.cli.tables import Columns, json_option, show_list

_COLUMNS: Columns = {
    "NODE": "node",
    "ROLE": "role",
    "VERSION": "version",
    "UP": lambda node: _duration(node["uptimeSeconds"]),
    "SESSIONS": "sessions",
    "CHANNELS": "channels",
    "PARTITIONS": "partitions",
    "HUBS": lambda node: [hub["hub"] for hub in node["hubs"]],
}


@click.command()
@json_option
@admin_options
def cluster(admin: AdminClient, as_json: bool) -> None:
    """Show the nodes of the server: role, version, sessions, channels and partitions of each."""
    topology = admin.call("getTopology", {})
    if as_json:
        click.echo(to_json(topology))
        return
    show_list(topology["nodes"], _COLUMNS, "no node answers", json=False)
    if topology.get("silent"):
        click.echo(f"no answer in time from: {', '.join(topology['silent'])}", err=True)


def _duration(seconds: int) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
