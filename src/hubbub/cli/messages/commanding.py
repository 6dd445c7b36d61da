"""`hubbub command`: have the hub or another client carry out a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec

from hubbub.cli.failures import fail
from hubbub.cli.messages.options import hub_options
from hubbub.cli.messages.printing import to_json
from hubbub.client import Client, CommandRefused


@click.command()
@click.argument("name")
@click.argument("params", required=False)
@click.option("--entity", help="Who is to carry it out: user@hub, or user@hub/session.")
@click.option("--requester", metavar="JID", help="For whom a service asks.")
@click.option("--store", is_flag=True, help="Have the hub store the command and its result.")
@click.option("--timeout", type=click.FloatRange(0.1, 60), help="Seconds to wait for the result.")
@hub_options
async def command(
    make_client: Callable[[], Client],
    name: str,
    params: str | None,
    entity: str | None,
    requester: str | None,
    store: bool,
    timeout: float | None,
) -> None:
    """Send the command NAME with PARAMS, which are JSON, and print its result."""
    given = _read(params)
    async with make_client() as client:
        try:
            result = await client.command(
                name,
                given,
                entity=entity,
                requester=requester,
                transient=not store,
                timeout=timeout,
            )
        except CommandRefused as error:
            fail(f"{name} ended with status {error.status:d}: {error.text}")
    if result is not None:
        click.echo(to_json(result))


def _read(params: str | None) -> Any:
    if params is None:
        return None
    try:
        return msgspec.json.decode(params)
    except (msgspec.DecodeError, RecursionError) as error:
        raise click.UsageError(f"PARAMS is no JSON: {error}") from None
