"""`hubbub put`: stores a message in a topic, once."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from pathlib import Path

import click

from hubbub.cli.failures import WRONG, advice, fail
from hubbub.cli.messages.envelope import envelope_options
from hubbub.cli.messages.options import hub_options
from hubbub.cli.messages.over_zeromq import zeromq_client, zeromq_option
from hubbub.cli.messages.payloads import PayloadSource, payload_options
from hubbub.cli.numbers import FiniteRange
from hubbub.client import (
    Client,
    ClientClosed,
    Disconnected,
    Envelope,
    Options,
    Outbox,
    PublishEnvelope,
    Receipt,
    Refusal,
)
from hubbub.domain.errors import HubbubError

OFFLINE = Options(start_offline=True)
_message_options = functools.partial(
    payload_options, word="MESSAGE", about_file="Put what is in this file."
)


@click.command()
@click.argument("topic", required=False)
@_message_options
@click.option("--event", default="", help="Your own name for what the message is.")
@click.option(
    "--outbox",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep the message in FILE until the hub has it, whatever crashes.",
)
@click.option(
    "--wait",
    type=FiniteRange(min=0),
    default=10.0,
    show_default=True,
    help="With --outbox: seconds to wait for the hub.",
)
@zeromq_option
@click.option("--quiet", "-q", is_flag=True, help="Print nothing.")
@envelope_options
@hub_options
async def put(
    make_client: Callable[..., Client],
    topic: str | None,
    source: PayloadSource,
    event: str,
    outbox: Path | None,
    wait: float,
    zeromq: str | None,
    quiet: bool,
    envelope: PublishEnvelope,
) -> None:
    """Put MESSAGE into TOPIC; `-` is standard input. Prints its id and serial once it is on disk.

    It is stored once, however often the connection breaks. With --outbox also if this command or
    the server crashes: the message is in FILE before it is sent, and whatever FILE still holds is
    sent first. Without TOPIC, that is all.
    """
    if topic is None:
        if outbox is None:
            fail("name a TOPIC, or give --outbox to send what waits in it", WRONG)
        await _send_waiting(make_client, outbox, wait, quiet)
        return
    if source.data == "-" and source.file is None:
        source = PayloadSource(None, Path("-"), source.kind)
    payload, content_type = source.read()

    if zeromq is not None:
        if outbox is not None or envelope:
            fail("with --zeromq there is no outbox, and no envelope but --event", WRONG)
        async with zeromq_client(zeromq) as over_zeromq:
            receipt = await over_zeromq.put(topic, payload, event, content_type=content_type)
            _show(receipt, quiet)
        return
    if outbox is not None:
        if "security_token" in envelope:
            fail("a security token is never written down: leave out --outbox", WRONG)
        what = topic, payload, event
        await _put_safely(make_client, outbox, what, content_type, envelope, wait, quiet)
        return
    async with make_client() as client:
        receipt = await client.topics.put(
            topic, payload, event, content_type=content_type, **envelope
        )
        _show(receipt, quiet)


async def _put_safely(
    make_client: Callable[..., Client],
    file: Path,
    message: tuple[str, bytes, str],
    content_type: str,
    envelope: Envelope,
    wait: float,
    quiet: bool,
) -> None:
    """Once the message is in the file it will be delivered, and the command succeeds."""
    async with (
        make_client(options=OFFLINE) as client,
        Outbox(client, file, on_refused=_tell_refused) as outbox,
    ):
        trouble = _Trouble(client)
        receipt = await outbox.submit(*message, content_type=content_type, **envelope)
        await asyncio.wait([receipt], timeout=wait)
        try:
            if receipt.done():
                _show(receipt.result(), quiet)
                return
            receipt.cancel()
            why = f"the hub did not confirm it in {wait:g} s{trouble}"
        except HubbubError as error:
            if outbox.error is None:  # refused: it is not kept
                raise
            if not isinstance(error, ClientClosed):
                fail(f"{error.message}. The message stays in {file}")
            why = error.message
        click.echo(
            f"{why}; the message is safe in {file}: the next put with it, or "
            f"`hubbub put --outbox {file}`, sends it",
            err=True,
        )
        await outbox.close(wait_seconds=0)


async def _send_waiting(
    make_client: Callable[..., Client], file: Path, wait: float, quiet: bool
) -> None:
    async with (
        make_client(options=OFFLINE) as client,
        Outbox(client, file, on_refused=_tell_refused) as outbox,
    ):
        trouble = _Trouble(client)
        before = await outbox.waiting()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(outbox.drained(), wait)
        left = await outbox.waiting()
        if not quiet:
            click.echo(f"{before - left} sent")
        if left:
            await outbox.close(wait_seconds=0)
            fail(
                f"{left} messages wait in {file}: the hub did not take them in {wait:g} s{trouble}"
            )


class _Trouble:
    """The reason why there is no connection, as the end of a sentence."""

    def __init__(self, client: Client) -> None:
        self._error: HubbubError | None = None
        client.on(Disconnected, self._note)

    def _note(self, event: Disconnected) -> None:
        self._error = event.error

    def __str__(self) -> str:
        return "" if self._error is None else f" ({self._error.message}{advice(self._error)})"


def _tell_refused(refusal: Refusal) -> None:
    click.echo(
        f"the hub refused an earlier message to {refusal.topic}: {refusal.message}", err=True
    )


def _show(receipt: Receipt, quiet: bool) -> None:
    if not quiet:
        parts = [receipt.id, str(receipt.serial or ""), "duplicate" if receipt.duplicate else ""]
        click.echo(" ".join(part for part in parts if part))
