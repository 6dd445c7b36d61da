"""`hubbub stats`: what a server or a hub has done since it started."""

from __future__ import annotations

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.options import admin_options
from hubbub.cli.printing import to_json
from hubbub.cli.tables import Columns, json_option, show_entry, show_list

_COLUMNS: Columns = {
    "HUB": "hub",
    "SESSIONS": "sessions",
    "SUBSCRIPTIONS": "subscriptions",
    "MESSAGES IN": "messagesIn",
    "OUT": "messagesOut",
    "REFUSED": "messagesRefused",
    "SLOW CONSUMERS": "slowConsumers",
}


@click.command()
@click.option("--hub", envvar="HUBBUB_HUB", show_envvar=True, help="All counters of one hub.")
@json_option
@admin_options
def stats(admin: AdminClient, hub: str | None, as_json: bool) -> None:
    """Show the counters since the server started: a line for each hub, or all of one hub."""
    if hub is not None:
        show_entry(admin.call("getCounters", {"hub": hub}), as_json)
        return
    counters = admin.call("getAllCounters", {})
    if as_json:
        click.echo(to_json(counters))
        return
    rows = [{"hub": name, **each} for name, each in sorted(counters["hubs"].items())]
    total = {"hub": "(all)", **counters["total"]}
    show_list([*rows, total], _COLUMNS, "", json=False)
