"""`hubbub channels`: channels in use or with messages, and settings of single channels."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.commands import add
from hubbub.cli.administration.options import admin_options
from hubbub.cli.failures import WRONG, fail
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Columns, json_option, local_time, show_entry

_COLUMNS: Columns = {
    "CHANNEL": "channel",
    "SESSIONS": "sessions",
    "STORED": "stored",
    "BYTES": "storedBytes",
    "LAST STORED": lambda channel: channel["storedAt"] and local_time(channel["storedAt"]),
    "RULES OF ITS OWN": "rules",
    "METADATA": lambda channel: channel["metadata"] or None,
}


@click.group()
def channels() -> None:
    """See the channels of a hub, and change the settings of single ones."""


add(
    channels, "list", "listChannels",
    "List channels that have sessions, settings of their own or stored messages.",
    columns=_COLUMNS,
    nothing="no channel of the hub {hub!r} has sessions, settings of its own or stored messages",
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
    path = {"hub": hub, "channel": channel}
    if rules is not None or no_rules:
        admin.call("putChannelSettings", path, body={"rules": rules})
    if noted is not None:
        admin.call("putChannelMetadata", path, body={"metadata": noted})
    show_entry(_read(admin, hub, channel), as_json)


def _read(admin: AdminClient, hub: str, channel: str) -> dict[str, Any]:
    """Reads from the list, which has all fields; an exact name sorts before names that begin with
    it."""
    settings = admin.call("getChannelSettings", {"hub": hub, "channel": channel})
    page = admin.call("listChannels", {"hub": hub}, prefix=channel, limit=1)
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
