"""`hubbub call` and `hubbub submit`: call services, and submit events to streams."""

from __future__ import annotations

from collections.abc import Callable

import click

from hubbub.cli.messages.options import hub_options
from hubbub.cli.messages.payloads import PayloadSource, payload_options
from hubbub.cli.numbers import FiniteRange
from hubbub.client import Client
from hubbub.domain.messages import JSON, is_text


@click.command()
@click.argument("method")
@payload_options
@click.option("--timeout", type=FiniteRange(0.1, 300), help="Seconds to wait for the service.")
@hub_options
async def call(
    make_client: Callable[[], Client],
    method: str,
    source: PayloadSource,
    timeout: float | None,
) -> None:
    """Call METHOD of a service with DATA, and print its answer."""
    payload, content_type = source.read()
    async with make_client() as client:
        answer = await client.call(method, payload, timeout=timeout, content_type=content_type)
    printable = is_text(answer.content_type) or answer.content_type == JSON
    click.echo(answer.payload, nl=printable)


@click.command()
@click.argument("stream")
@payload_options
@click.option("--event", default="", help="Your own name for what happened.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing.")
@hub_options
async def submit(
    make_client: Callable[[], Client],
    stream: str,
    source: PayloadSource,
    event: str,
    quiet: bool,
) -> None:
    """Hand DATA as an event to STREAM. Prints its id, once it cannot be lost any more."""
    payload, content_type = source.read()
    async with make_client() as client:
        event_id = await client.submit(stream, payload, event, content_type=content_type)
    if not quiet:
        click.echo(event_id)
