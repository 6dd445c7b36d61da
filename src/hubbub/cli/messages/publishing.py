"""`hubbub publish`: say something in a channel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from hubbub.cli.failures import WRONG, fail, run
from hubbub.cli.messages.envelope import envelope_options
from hubbub.cli.messages.options import hub_options
from hubbub.client import Client, PublishEnvelope
from hubbub.domain.errors import InvalidPayload
from hubbub.domain.messages import BINARY, JSON, TEXT
from hubbub.domain.payloads import is_utf8, json_text


@click.command()
@click.argument("channel")
@click.argument("data", required=False)
@click.option("--json", "kind", flag_value=JSON, help="DATA is JSON; else it is text.")
@click.option("--text", "kind", flag_value=TEXT, help="DATA is text.")
@click.option("--binary", "kind", flag_value=BINARY, help="DATA is bytes.")
@click.option("--type", "content_type", metavar="TYPE", help="The content type, any other.")
@click.option(
    "--file", type=click.Path(path_type=Path), help="Send this file; `-` is standard input."
)
@click.option("--event", default="", help="Your own name for what the message is.")
@click.option("--store", is_flag=True, help="Keep it, where the channel stores.")
@click.option("--retain", is_flag=True, help="Give it to whoever subscribes later.")
@click.option("--push", is_flag=True, help="Also as a push notification.")
@click.option("--transient", is_flag=True, help="Do not keep it, whatever else is said.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing.")
@envelope_options
@hub_options
def publish(
    make_client: Callable[[], Client],
    channel: str,
    data: str | None,
    kind: str | None,
    content_type: str | None,
    file: Path | None,
    event: str,
    store: bool,
    retain: bool,
    push: bool,
    transient: bool,
    quiet: bool,
    envelope: PublishEnvelope,
) -> None:
    """Publish DATA to CHANNEL: as an argument, from a file or from standard input.

    Prints the message's id and its serial in the channel.
    """
    payload, content_type = read_payload(data, file, content_type or kind)

    async def work() -> None:
        async with make_client() as client:
            receipt = await client.publish(
                channel,
                payload,
                event,
                store=store,
                retain=retain,
                push=push,
                transient=transient,
                content_type=content_type,
                **envelope,
            )
        if not quiet:
            click.echo(f"{receipt.id} {receipt.serial}" if receipt.serial else receipt.id)

    run(work())


def read_payload(data: str | None, file: Path | None, kind: str | None) -> tuple[bytes, str]:
    """What to send, from an argument, a file or standard input (`-`), and its content type."""
    if data is not None and file is not None:
        fail("give either DATA or --file, not both", WRONG)
    if data is not None:
        body = data.encode("utf-8", "surrogateescape")
    elif file is not None and str(file) != "-":
        body = file.read_bytes()
    elif sys.stdin.isatty() and file is None:
        fail("there is no data: give DATA, --file, or pipe something in", WRONG)
    else:
        body = sys.stdin.buffer.read()
    kind = kind or (TEXT if is_utf8(body) else BINARY)
    if kind == TEXT and not is_utf8(body):
        fail("the data is not UTF-8 text; send it with --binary", WRONG)
    if kind != JSON:
        return body, kind
    try:
        return json_text(body), JSON
    except InvalidPayload as error:
        fail(f"{error.message}; leave out --json to send it as text", WRONG)
