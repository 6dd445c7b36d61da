"""`hubbub call` and `hubbub submit`: reach the services behind a hub."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hubbub.cli.failures import run
from hubbub.cli.messages.options import hub_options
from hubbub.cli.messages.publishing import read_payload
from hubbub.client import Client
from hubbub.domain.messages import BINARY, JSON, TEXT, is_text

_DATA = (
    click.argument("data", required=False),
    click.option("--json", "kind", flag_value=JSON, help="DATA is JSON; else it is text."),
    click.option("--text", "kind", flag_value=TEXT, help="DATA is text."),
    click.option("--binary", "kind", flag_value=BINARY, help="DATA is bytes."),
    click.option("--type", "content_type", metavar="TYPE", help="The content type, any other."),
    click.option(
        "--file", type=click.Path(path_type=Path), help="Send this file; `-` is standard input."
    ),
)


def _data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_DATA):
        command = option(command)
    return command


@click.command()
@click.argument("method")
@_data_options
@click.option("--timeout", type=click.FloatRange(0.1, 300), help="Seconds to wait for the service.")
@hub_options
def call(
    make_client: Callable[[], Client],
    method: str,
    data: str | None,
    kind: str | None,
    content_type: str | None,
    file: Path | None,
    timeout: float | None,
) -> None:
    """Call METHOD of a service with DATA, and print its answer."""
    payload, content_type = read_payload(data, file, content_type or kind)

    async def work() -> None:
        async with make_client() as client:
            answer = await client.call(method, payload, timeout=timeout, content_type=content_type)
        printable = is_text(answer.content_type) or answer.content_type == JSON
        click.echo(answer.payload, nl=printable)

    run(work())


@click.command()
@click.argument("stream")
@_data_options
@click.option("--event", default="", help="Your own name for what happened.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing.")
@hub_options
def submit(
    make_client: Callable[[], Client],
    stream: str,
    data: str | None,
    kind: str | None,
    content_type: str | None,
    file: Path | None,
    event: str,
    quiet: bool,
) -> None:
    """Hand DATA as an event to STREAM. Prints its id, once it cannot be lost any more."""
    payload, content_type = read_payload(data, file, content_type or kind)

    async def work() -> None:
        async with make_client() as client:
            event_id = await client.submit(stream, payload, event, content_type=content_type)
        if not quiet:
            click.echo(event_id)

    run(work())
