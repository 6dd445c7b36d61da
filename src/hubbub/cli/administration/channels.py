"""`hubbub channels`: channels in use, and what is set for single ones."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.commands import add_list, prefix_option
from hubbub.cli.administration.options import admin_options
from hubbub.cli.failures import WRONG, fail
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Columns, json_option, show_entry

_COLUMNS: Columns = {
    "CHANNEL": "channel",
    "SESSIONS": "sessions",
    "RULES OF ITS OWN": "rules",
    "METADATA": lambda channel: channel["metadata"] or None,
}


@click.group()
def channels() -> None:
    """See the channels of a hub, and change the settings of single ones."""


add_list(
    channels, "channels", _COLUMNS,
    "no channel of the hub {hub!r} has sessions or settings of its own",
    "List channels that have sessions or settings of their own.", prefix_option,
    click.option("--live", is_flag=True, help="Only those that sessions follow now."),
)  # fmt: skip


@channels.command()
@click.argument("channel")
@json_option
@hub_option
@admin_options
def show(admin: AdminClient, hub: str, channel: str, as_json: bool) -> None:
    """Show the settings of CHANNEL and how many sessions follow it."""
    show_entry(_read(admin, hub, channel), as_json)


@channels.command("set")
@click.argument("channel")
@click.option("--rules", help="Rules of its own.")
@click.option("--no-rules", is_flag=True, help="Those of its namespace or hub again.")
@click.option("--metadata", help="What to note about it, a JSON object; replaces all of it.")
@json_option
@hub_option
@admin_options
def set_channel(
    admin: AdminClient,
    hub: str,
    channel: str,
    rules: str | None,
    no_rules: bool,
    metadata: str | None,
    as_json: bool,
) -> None:
    """Change the settings of CHANNEL; those that are not given stay as they are."""
    if rules is not None and no_rules:
        fail("give --rules or --no-rules, not both", WRONG)
    if rules is None and not no_rules and metadata is None:
        fail("give --rules, --no-rules or --metadata", WRONG)
    noted = None if metadata is None else _object(metadata)
    if rules is not None or no_rules:
        admin.put("hubs", hub, "channels", channel, "settings", body={"rules": rules})
    if noted is not None:
        admin.put("hubs", hub, "channels", channel, "metadata", body={"metadata": noted})
    show_entry(_read(admin, hub, channel), as_json)


def _read(admin: AdminClient, hub: str, channel: str) -> dict[str, Any]:
    """From the list, which alone has all of it; a name comes before those that begin with it."""
    settings = admin.get("hubs", hub, "channels", channel, "settings")
    page = admin.get("hubs", hub, "channels", prefix=channel, limit=1)
    for found in page["items"]:
        if found["channel"] == channel:
            entry: dict[str, Any] = found
            return entry
    return {"channel": channel, "sessions": 0, "version": 0, **settings, "metadata": {}}


def _object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        fail(f"--metadata is not a JSON object: {error}", WRONG)
