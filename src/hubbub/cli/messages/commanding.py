"""`hubbub command` and `hubbub answer`: send commands to the hub or another client, and process
commands of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import click
import msgspec

from hubbub.cli.failures import fail, run
from hubbub.cli.messages.options import hub_options
from hubbub.cli.messages.reading import print_note
from hubbub.cli.numbers import FiniteRange
from hubbub.cli.printing import to_json
from hubbub.client import Client, Command, CommandRefused
from hubbub.domain.commands.status import Status

_REFUSALS = [str(int(status)) for status in Status if status is not Status.OK]


@click.command()
@click.argument("name")
@click.argument("params", required=False)
@click.option("--entity", help="Who is to carry it out: user@hub, or user@hub/session.")
@click.option("--requester", metavar="JID", help="For whom a service asks.")
@click.option("--store", is_flag=True, help="Have the hub store the command and its result.")
@click.option("--timeout", type=FiniteRange(0.1, 60), help="Seconds to wait for the result.")
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
    given = _read(params, "PARAMS")
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
    elif name.lower() == "hsetfilter":
        print_note(
            "done, but a filter ends with its session, and so did this one: try subscribe --where"
        )
    else:
        print_note("done; there is no result")


@click.command()
@click.argument("name")
@click.argument("result", required=False)
@click.option("--refuse", type=click.Choice(_REFUSALS), help="Refuse with this status.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many commands.")
@hub_options
def answer(
    make_client: Callable[[], Client],
    name: str,
    result: str | None,
    refuse: str | None,
    count: int | None,
) -> None:
    """Answer each command NAME of other users with RESULT, which is JSON, and print the command,
    until Ctrl-C. With --refuse, RESULT is a text that says why."""
    given = _read(result, "RESULT") if refuse is None else result or ""

    async def work() -> None:
        left, done = count, asyncio.Event()

        def handle(command: Command) -> object:
            nonlocal left
            click.echo(to_json(msgspec.to_builtins(command)))
            if left is not None:
                left -= 1
                if left <= 0:
                    done.set()
            if refuse is not None:
                raise CommandRefused(Status(int(refuse)), given)
            return given

        client = make_client()
        client.on_command(name, handle)
        async with client:
            print_note(f"answers {name}; Ctrl-C ends it")
            await done.wait()

    run(work(), until_interrupted=count is None)


def _read(given: str | None, what: str) -> Any:
    if given is None:
        return None
    try:
        return msgspec.json.decode(given)
    except (msgspec.DecodeError, RecursionError) as error:
        raise click.UsageError(f"{what} is no JSON: {error}") from None
