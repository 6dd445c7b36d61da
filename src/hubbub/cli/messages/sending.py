"""`hubbub send`: a message to a person, a group or a tool."""

from __future__ import annotations

import getpass
from typing import Literal

import click

from hubbub.cli.messages.options import people_options
from hubbub.client.people import People


@click.command()
@click.argument("content", required=False, default="")
@click.option("--to", default="", help="A peer, or `collective:x`; without it, rules decide.")
@click.option("--type", "kind", default="MESSAGE", show_default=True, help="What rules look at.")
@click.option("--subtype", default="TEXT", show_default=True, help="The same, finer.")
@click.option(
    "--from",
    "sender",
    help="Who sends it; without it, the user of your token, else your name on this machine.",
)
@click.option("--conversation", default="", help="What belongs together; the subject of e-mail.")
@click.option("--refers-to", default="", metavar="ID", help="The message that this one answers.")
@click.option("--ttl", "ttl_ms", type=click.IntRange(0), default=0, help="Milliseconds to deliver.")
@click.option("--ack", is_flag=True, help="Have the hub report that it was delivered.")
@click.option("--id", "identifier", default="", help="Its id; the same one again is sent once.")
@people_options
async def send(
    people: People,
    content: str,
    to: str,
    kind: str,
    subtype: str,
    sender: str | None,
    conversation: str,
    refers_to: str,
    ttl_ms: int,
    ack: bool,
    identifier: str,
) -> None:
    """Send CONTENT to a person, a group or a tool, by the ways that they chose.

    Prints the message's id, once the message is on disk.
    """
    policy: Literal["ACKNOWLEDGED", "UNACKNOWLEDGED"]
    policy = "ACKNOWLEDGED" if ack else "UNACKNOWLEDGED"
    sent = await people.send(
        content,
        to=to,
        type=kind,
        subtype=subtype,
        sender=sender or _own_name(people),
        conversation_id=conversation,
        refers_to=refers_to,
        ttl_ms=ttl_ms,
        delivery_policy=policy,
        id=identifier,
    )
    click.echo(sent)


def _own_name(people: People) -> str:
    """Empty where the hub knows it: a user's token names the user."""
    return "" if people.is_user else _user_name()


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "cli"
