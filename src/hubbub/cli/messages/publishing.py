"""`hubbub publish`: publishes a message in a channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

import click

from hubbub.cli.messages.envelope import JsonObject, envelope_options
from hubbub.cli.messages.options import hub_options
from hubbub.cli.messages.payloads import PayloadSource, payload_options
from hubbub.cli.messages.reading import print_note
from hubbub.client import Client, PublishEnvelope
from hubbub.client.messages import PublishFlags
from hubbub.domain.errors import HubbubError, NotFound


async def _stores(client: Client, channel: str) -> bool:
    """Whether the channel stores messages; False if the caller may not read it."""
    try:
        await client.threads(channel, limit=1)
    except NotFound:
        return False
    except HubbubError:
        return True
    return True


@click.command()
@click.argument("channel")
@payload_options
@click.option("--event", default="", help="Your own name for what the message is.")
@click.option("--store", is_flag=True, help="Keep it, where the channel stores.")
@click.option("--retain", is_flag=True, help="Give it to whoever subscribes later.")
@click.option("--push", is_flag=True, help="Push it to devices, too, where the channel does.")
@click.option(
    "--push-options",
    type=JsonObject(),
    metavar="JSON",
    help='What devices show, such as \'{"title": "Hello", "body": "World"}\'; implies --push.',
)
@click.option("--transient", is_flag=True, help="Do not keep it, whatever else is said.")
@click.option(
    "--idempotency-key", metavar="KEY", help="A repeat under the same key is not published again."
)
@click.option("--quiet", "-q", is_flag=True, help="Print nothing.")
@envelope_options
@hub_options
async def publish(
    make_client: Callable[[], Client],
    channel: str,
    source: PayloadSource,
    event: str,
    quiet: bool,
    envelope: PublishEnvelope,
    **flags: Unpack[PublishFlags],
) -> None:
    """Publish DATA to CHANNEL: as an argument, from a file or from standard input.

    Prints the message's id and its serial in the channel.
    """
    payload, content_type = source.read()
    flags["push"] = flags["push"] or flags["push_options"] is not None
    async with make_client() as client:
        receipt = await client.publish(
            channel, payload, event, content_type=content_type, **flags, **envelope
        )
        if flags["store"] and not quiet and not await _stores(client, channel):
            print_note(
                f"nothing stores {channel}: `store` is off in its rules, so the message is not kept"
            )
    if not quiet:
        found = f"{receipt.id} {receipt.serial}" if receipt.serial else receipt.id
        click.echo(f"{found} (it was there already)" if receipt.duplicate else found)
