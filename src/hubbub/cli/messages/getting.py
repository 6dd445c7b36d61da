"""`hubbub get`: fetches messages of a durable subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import click

from hubbub.cli.failures import WRONG, fail, run
from hubbub.cli.messages.options import hub_options
from hubbub.cli.messages.over_zeromq import zeromq_client, zeromq_option
from hubbub.cli.messages.topics import name_option
from hubbub.cli.numbers import FiniteRange
from hubbub.cli.printing import message_line
from hubbub.client import Client, TopicMessage, Topics
from hubbub.client.zeromq import ZeroMqTopics
from hubbub.domain.errors import HubbubError
from hubbub.domain.topics import MAX_BATCH, MAX_WAIT_SECONDS

Source = Topics | ZeroMqTopics
FOLLOW_BATCH = 100
FOLLOW_SECONDS = 30.0


@click.command()
@click.argument("topic", required=False)
@name_option
@click.option("--limit", type=click.IntRange(min=1), help="At most so many messages.  [1]")
@click.option("--wait", type=FiniteRange(0, MAX_WAIT_SECONDS), default=0.0,
              help="Seconds to wait for a message.")  # fmt: skip
@click.option("--follow", "-f", is_flag=True, help="Go on until Ctrl-C, or until --limit.")
@click.option("--no-ack", is_flag=True, help="Do not acknowledge: they are handed out again.")
@click.option("--consumer", default="", help="Which consumer of a shared subscription.")
@zeromq_option
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
    zeromq: str | None,
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
    getter = Getter(name, consumer, as_json, acknowledge=not no_ack)

    async def fetch(topics: Source, topic: str) -> None:
        if follow:
            await getter.follow(topics, topic, limit)
        else:
            await getter.get(topics, topic, limit or 1, wait)

    async def from_source(topics: Source) -> None:
        if topic is None:
            await getter.get_each(topics)
        else:
            await fetch(topics, topic)

    async def work() -> None:
        if zeromq is not None:
            async with zeromq_client(zeromq) as over_zeromq:
                await from_source(over_zeromq)
            return
        async with make_client() as client:
            await from_source(client.topics)

    run(work(), until_interrupted=follow)
    if not getter.count and not follow:
        click.echo("EmptyTopic: nothing waits", err=True)


@dataclass
class Getter:
    """Prints messages of durable subscriptions; they are flushed before they are acknowledged."""

    name: str
    consumer: str
    as_json: bool
    acknowledge: bool
    count: int = 0

    async def get_each(self, topics: Source) -> None:
        for topic, message in sorted((await topics.get_each(self.name)).items()):
            if message is not None:
                await self._take(topics, topic, [message])

    async def get(self, topics: Source, topic: str, limit: int, wait: float) -> None:
        while self.count < limit:
            if not await self._fetch(topics, topic, limit - self.count, wait):
                return
            if not self.acknowledge:
                return
            wait = 0.0

    async def follow(self, topics: Source, topic: str, limit: int | None) -> None:
        while limit is None or self.count < limit:
            left = FOLLOW_BATCH if limit is None else min(limit - self.count, FOLLOW_BATCH)
            try:
                await self._fetch(topics, topic, left, FOLLOW_SECONDS)
            except HubbubError as error:
                if not error.retry:
                    raise
                click.echo(f"{error.message}; trying again", err=True)
                await asyncio.sleep(1)

    async def _fetch(self, topics: Source, topic: str, limit: int, wait: float) -> bool:
        """Returns whether there were messages."""
        messages = await topics.get(
            topic,
            self.name,
            limit=min(limit, MAX_BATCH),
            wait_seconds=wait,
            consumer=self.consumer,
        )
        await self._take(topics, topic, messages)
        return bool(messages)

    async def _take(self, topics: Source, topic: str, messages: list[TopicMessage]) -> None:
        for message in messages:
            click.echo(message_line(message, self.as_json))
        self.count += len(messages)
        if messages and self.acknowledge:
            serials = [message.serial for message in messages]
            await topics.ack(topic, serials, self.name, consumer=self.consumer)
