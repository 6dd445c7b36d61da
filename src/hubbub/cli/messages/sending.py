"""`hubbub send`: sends a message to a person, a group or a tool."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Literal

import click

from hubbub.cli.messages.options import people_options
from hubbub.cli.messages.payloads import ABOUT_FILE, PayloadSource
from hubbub.cli.pairs import pair
from hubbub.client.people import People
from hubbub.domain.communication.contents import text_or_bytes


@click.command()
@click.argument("content", required=False)
@click.option("--file", type=click.Path(path_type=Path), help=ABOUT_FILE)
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
@click.option(
    "--header", "headers", multiple=True, metavar="KEY=VALUE", help="For adapters and receivers."
)
@click.option("--id", "identifier", default="", help="Its id; the same one again is sent once.")
@people_options
async def send(
    people: People,
    content: str | None,
    file: Path | None,
    to: str,
    kind: str,
    subtype: str,
    sender: str | None,
    conversation: str,
    refers_to: str,
    ttl_ms: int,
    ack: bool,
    headers: tuple[str, ...],
    identifier: str,
) -> None:
    """Send CONTENT to a person, a group or a tool, by the ways that they chose.

    A file goes out as text where it is UTF-8, else as bytes. Prints the message's id, once the
    message is on disk.
    """
    policy: Literal["ACKNOWLEDGED", "UNACKNOWLEDGED"]
    policy = "ACKNOWLEDGED" if ack else "UNACKNOWLEDGED"
    given = content is not None or file is not None
    data, _ = PayloadSource(content, file, None).read() if given else (b"", "")
    sent = await people.send(
        text_or_bytes(data),
        to=to,
        type=kind,
        subtype=subtype,
        sender=sender or _own_name(people),
        conversation_id=conversation,
        refers_to=refers_to,
        ttl_ms=ttl_ms,
        delivery_policy=policy,
        headers=dict(map(pair, headers)),
        id=identifier,
    )
    click.echo(sent)


def _own_name(people: People) -> str:
    """Empty if the hub knows the name: a user's token contains it."""
    return "" if people.is_user else _user_name()


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "cli"
