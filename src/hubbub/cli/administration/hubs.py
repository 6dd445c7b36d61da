"""`hubbub hubs`: the hubs of a server, and the settings that hold for all of a hub."""

from __future__ import annotations

import click
import msgspec

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.assignments import assign, names_of
from hubbub.cli.administration.commands import add
from hubbub.cli.administration.options import admin_options
from hubbub.cli.failures import WRONG, fail
from hubbub.cli.tables import Columns, answer, json_option, show_entry
from hubbub.domain.errors import InvalidName
from hubbub.domain.names import check_name
from hubbub.domain.rules import HubSettings

_COLUMNS: Columns = {
    "HUB": "hub",
    "SESSIONS": "sessions",
    "CHANNELS": "channels",
    "SETTINGS": lambda hub: "stored" if hub["stored"] else "none of its own",
}


_DEFAULTS = msgspec.to_builtins(HubSettings())


@click.group()
def hubs() -> None:
    """See, create, change and delete hubs."""


_HUB = {"hub": click.argument("hub")}
add(hubs, "list", "listHubs", columns=_COLUMNS)
add(hubs, "show", "getHub", "Show HUB with its settings and how it is used.", arguments=_HUB)


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
    wanted = assign({}, settings, _DEFAULTS)
    created = admin.call("createHub", {}, body={"hub": hub, "settings": wanted})
    answer(created, f"created {hub}", as_json)


@hubs.command(
    "set",
    help=f"""Change settings of HUB; the others stay as they are.

    For example: defaultRules=open allowedOrigins=https://a.example,https://b.example
    quotas.sessions=1000. An empty value takes a name away: defaultRules=

    Settings: {names_of(_DEFAULTS)}.
    """,
)
@click.argument("hub")
@click.argument("settings", metavar="KEY=VALUE...", nargs=-1, required=True)
@json_option
@admin_options
def set_settings(admin: AdminClient, hub: str, settings: tuple[str, ...], as_json: bool) -> None:
    path = {"hub": hub}
    before = admin.find("getHubSettings", path)
    wanted = assign(before.value if before else {}, settings, _DEFAULTS)
    show_entry(admin.call("putHubSettings", path, body=wanted, over=before), as_json)


add(
    hubs, "delete", "deleteHub", "Delete HUB with all that it holds, and end its sessions.",
    question="Delete the hub {hub!r}, its messages and its settings?",
    arguments=_HUB,
)  # fmt: skip
