"""`hubbub shutdown`: the end of a server, over HTTP or ZeroMQ."""

from __future__ import annotations

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.options import admin_options, yes_option
from hubbub.cli.failures import run
from hubbub.client.zeromq import ZeroMqTopics


@click.command()
@click.option("--zeromq", metavar="ENDPOINT", help="Over ZeroMQ, such as tcp://127.0.0.1:8001.")
@yes_option
@admin_options
def shutdown(admin: AdminClient, zeromq: str | None, yes: bool) -> None:
    """End the server, as SIGTERM does: clients are told to reconnect, what was accepted is written.

    Takes the token of an administrator of all hubs (`hubbub token --level admin --hub '*'`).
    """
    if not yes:
        click.confirm(f"End the server at {zeromq or admin.address}?", abort=True)
    if zeromq is None:
        admin.call("shutDown", {})
    else:
        run(_over_zeromq(zeromq, admin.token))
    click.echo("Shutdown")


async def _over_zeromq(endpoint: str, token: str) -> None:
    async with ZeroMqTopics(endpoint, token=token) as client:
        await client.shutdown()
