"""`hubbub document`: read, change and follow the document of a channel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click
import msgspec

from hubbub.cli.failures import WRONG, fail, run
from hubbub.cli.messages.options import hub_options
from hubbub.client import Client, DocumentVersion
from hubbub.client.document_values import from_python
from hubbub.domain.documents.values import value_json


@click.group()
def document() -> None:
    """Read, change and follow the document of a channel, whose name begins with `doc:`.

    `list`, `history`, `restore` and `delete` take the token of a service or an administrator.
    """


def _show(found: DocumentVersion, versions: bool) -> None:
    text = value_json(from_python(found.value)).decode()
    click.echo(f"{found.version}\t{text}" if versions else text)


@document.command()
@click.argument("channel")
@click.option("--path", default="", help="A part of it, as a JSON Pointer like /items/0.")
@click.option("--at", type=click.IntRange(min=0), help="As it was at this version.")
@click.option("--at-time", type=click.IntRange(min=0), help="As it was then (ms since 1970).")
@hub_options
async def get(
    make_client: Callable[[], Client],
    channel: str,
    path: str,
    at: int | None,
    at_time: int | None,
) -> None:
    """Print the document of CHANNEL as JSON."""
    async with make_client() as client:
        _show(await client.document(channel).get(path, at=at, at_time=at_time), versions=False)


@document.command()
@click.argument("channel")
@click.argument("patch")
@click.option("--expected-version", type=click.IntRange(min=0), help="Only from this version on.")
@hub_options
async def patch(
    make_client: Callable[[], Client], channel: str, patch: str, expected_version: int | None
) -> None:
    """Apply PATCH, a JSON list of operations (`-`: from standard input), to the document of
    CHANNEL; prints the version that it led to."""
    text = sys.stdin.read() if patch == "-" else patch
    try:
        operations: Any = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        fail(f"PATCH is not JSON: {error}", WRONG)
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        fail('PATCH is not a list of operations, like [{"op":"add","path":"/a","value":1}]', WRONG)
    async with make_client() as client:
        changed = await client.document(channel).patch_json(
            text.encode(), expected_version=expected_version
        )
        click.echo(changed.version)


@document.command()
@click.argument("channel")
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many versions.")
@hub_options
def watch(make_client: Callable[[], Client], channel: str, count: int | None) -> None:
    """Print the document of CHANNEL, with its version, now and after every change, until Ctrl-C."""

    async def work() -> None:
        left = count
        async with make_client() as client:
            async for found in client.document(channel).watch():
                _show(found, versions=True)
                left = None if left is None else left - 1
                if left == 0:
                    return

    run(work(), until_interrupted=count is None)
