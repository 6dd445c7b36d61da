"""`hubbub get`: fetch what waits for a durable subscription."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import click

from hubbub.cli.failures import WRONG, fail, run
from hubbub.cli.messages.options import hub_options
from hubbub.cli.messages.printing import message_line, print_line
from hubbub.cli.messages.topics import name_option
from hubbub.client import Client, TopicMessage
from hubbub.domain.errors import HubbubError
from hubbub.domain.topics import MAX_BATCH, MAX_WAIT_SECONDS

FOLLOW_BATCH = 100
FOLLOW_SECONDS = 30.0


@click.command()
@click.argument("topic", required=False)
@name_option
@click.option("--limit", type=click.IntRange(min=1), help="At most so many messages.  [1]")
@click.option("--wait", type=click.FloatRange(0, MAX_WAIT_SECONDS), default=0.0,
              help="Seconds to wait for a message.")  # fmt: skip
@click.option("--follow", "-f", is_flag=True, help="Go on until Ctrl-C, or until --limit.")
@click.option("--no-ack", is_flag=True, help="Do not acknowledge: they are handed out again.")
@click.option("--consumer", default="", help="Which consumer of a shared subscription.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each message.")
@hub_options
def get(
    make_client: Callable[[], Client],
    topic: str | None,
    name: str,
    limit: int | None,
    wait: float,
    follow: bool,
    no_ack: bool,
    consumer: str,
    as_json: bool,
) -> None:
    """Print the next message of TOPIC and acknowledge it; without TOPIC, one of each topic.

    A message is acknowledged after it was printed: if this command is killed in between, it is
    printed again the next time.
    """
    if topic is None and (limit or wait or follow or consumer):
        fail("name a TOPIC for --limit, --wait, --follow and --consumer", WRONG)
    if follow and no_ack:
        fail("--follow fetches what is not acknowledged, so it needs to acknowledge", WRONG)
    printer = Printer(as_json)

    async def work() -> None:
        async with make_client() as client:
            if topic is None:
                await _get_each(client, name, printer, not no_ack)
                return
            fetch = Fetch(client, topic, name, consumer)
            if follow:
                await _follow(fetch, limit, printer)
            else:
                await _get(fetch, limit or 1, wait, printer, not no_ack)

    run(work(), until_interrupted=follow)
    if not printer.count and not follow:
        click.echo("EmptyTopic: nothing waits", err=True)


class Printer:
    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self.count = 0

    def show(self, message: TopicMessage) -> None:
        print_line(message_line(message, self._as_json))
        self.count += 1

    def flush(self) -> None:
        """Out of our hands, before the hub hears that they are done."""
        sys.stdout.flush()


class Fetch:
    """What one command fetches from one subscription."""

    def __init__(self, client: Client, topic: str, name: str, consumer: str) -> None:
        self._topics = client.topics
        self._topic = topic
        self._name = name
        self._consumer = consumer

    async def get(self, limit: int, wait: float) -> list[TopicMessage]:
        return await self._topics.get(
            self._topic,
            self._name,
            limit=min(limit, MAX_BATCH),
            wait_seconds=wait,
            consumer=self._consumer,
        )

    async def ack(self, messages: list[TopicMessage]) -> None:
        serials = [message.serial for message in messages]
        await self._topics.ack(self._topic, serials, self._name, consumer=self._consumer)


async def _get(fetch: Fetch, limit: int, wait: float, printer: Printer, acknowledge: bool) -> None:
    while printer.count < limit:
        messages = await fetch.get(limit - printer.count, wait)
        if not messages:
            return
        for message in messages:
            printer.show(message)
        printer.flush()
        if not acknowledge:
            return
        await fetch.ack(messages)
        wait = 0.0


async def _follow(fetch: Fetch, limit: int | None, printer: Printer) -> None:
    while limit is None or printer.count < limit:
        left = FOLLOW_BATCH if limit is None else limit - printer.count
        try:
            messages = await fetch.get(min(left, FOLLOW_BATCH), FOLLOW_SECONDS)
            for message in messages:
                printer.show(message)
            printer.flush()
            if messages:
                await fetch.ack(messages)
        except HubbubError as error:
            if not error.retry:
                raise
            click.echo(f"{error.message}; trying again", err=True)
            await asyncio.sleep(1)


async def _get_each(client: Client, name: str, printer: Printer, acknowledge: bool) -> None:
    found = await client.topics.get_each(name)
    messages = [message for _, message in sorted(found.items()) if message is not None]
    for message in messages:
        printer.show(message)
    printer.flush()
    if acknowledge:
        for message in messages:
            await client.topics.ack(message.channel, [message.serial], name)
