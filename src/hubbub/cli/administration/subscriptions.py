"""`hubbub subscriptions`: durable subscriptions, how far they are behind, and removing one."""

from __future__ import annotations

import click

from hubbub.cli.administration.commands import add_list, add_removal, add_show
from hubbub.cli.tables import Columns

_ONE = "channels/{channel}/subscriptions/{owner}/{name}"
_ARGUMENTS = (
    click.argument("channel"),
    click.argument("owner"),
    click.argument("name", default="default"),
)
_COLUMNS: Columns = {
    "CHANNEL": "channel",
    "OWNER": "owner",
    "NAME": "name",
    "LAG": "lag",
    "HANDED OUT": "handedOut",
    "REDELIVERED": "redeliveries",
    "DEAD": "deadLetters",
    "MISSED": "missed",
}


@click.group()
def subscriptions() -> None:
    """See and remove the durable subscriptions of a hub."""


add_list(
    subscriptions, "subscriptions", _COLUMNS, "the hub {hub!r} has no such durable subscription",
    "List the durable subscriptions with what they still have to get.",
    click.option("--channel", help="Only those of this channel."),
    click.option("--owner", help="Only those of this owner, such as u:ann."),
)  # fmt: skip
add_show(
    subscriptions, _ONE, "Show where OWNER's durable subscription NAME to CHANNEL stands.",
    *_ARGUMENTS,
)  # fmt: skip
add_removal(
    subscriptions, "remove", _ONE,
    "Remove {owner}'s durable subscription {name!r} to {channel!r}?",
    """Remove OWNER's durable subscription NAME to CHANNEL for good.

    Messages that only it still had to get are not kept for it any more.
    """,
    *_ARGUMENTS,
)  # fmt: skip
