"""`hubbub follow`, `unfollow` and `followed`: channels whose messages the user receives as a peer,
by e-mail, chat or push."""

from __future__ import annotations

from typing import Literal

import click

from hubbub.cli.messages.options import people_options
from hubbub.cli.tables import Columns, json_option, show_entry, show_list
from hubbub.client.people import People

FOLLOWED: Columns = {
    "CHANNEL": "channel",
    "WAITING": "lag",
    "DELIVERED": "delivered",
    "FAILED": "failed",
    "LAST ERROR": "lastError",
}
start_option = click.option(
    "--start",
    type=click.Choice(("new", "first")),
    default="new",
    show_default=True,
    help="Where a new one begins; first: with all that is still stored.",
)


@click.command()
@click.argument("channel")
@start_option
@json_option
@people_options
async def follow(
    people: People, channel: str, start: Literal["new", "first"], as_json: bool
) -> None:
    """Get the messages of CHANNEL, which stores them, by e-mail, chat or push.

    They come by the addresses that the hub knows of the peer with your name.
    """
    show_entry(await people.follow(None, channel, start), as_json)


@click.command()
@click.argument("channel")
@people_options
async def unfollow(people: People, channel: str) -> None:
    """Get nothing more of CHANNEL by e-mail, chat or push."""
    if not await people.unfollow(None, channel):
        raise click.ClickException(f"you do not follow {channel!r}")
    click.echo(f"you follow {channel} no longer")


@click.command()
@json_option
@people_options
async def followed(people: People, as_json: bool) -> None:
    """List the channels that reach you by e-mail, chat or push."""
    found = [each async for each in people.followed()]
    show_list(found, FOLLOWED, "you follow no channel", as_json)
