"""`hubbub topics`, `unsubscribe` and `ack`: durable subscriptions and their state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import click
import msgspec

from hubbub.cli.failures import WRONG, fail
from hubbub.cli.messages.options import hub_options
from hubbub.cli.messages.over_zeromq import zeromq_client, zeromq_option
from hubbub.cli.tables import Columns, answer, show_list
from hubbub.client import Client, SubscriptionInfo, SubscriptionOptions
from hubbub.domain.topics import DEFAULT_SUBSCRIPTION

Start = Literal["new", "first"] | int

name_option = click.option(
    "--name",
    "-n",
    default=DEFAULT_SUBSCRIPTION,
    show_default=True,
    help="Which of your durable subscriptions.",
)

_COLUMNS: Columns = {
    "topic": "topic",
    "name": "name",
    "lag": "lag",
    "floor": "floor",
    "head": "head",
    "held": "handedOut",
    "again": "redeliveries",
    "dead": "deadLetters",
    "missed": "missed",
    "shared": "shared",
}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each.")
@hub_options
async def topics(make_client: Callable[[], Client], as_json: bool) -> None:
    """List your durable subscriptions: how far each is, and how much waits for it."""
    async with make_client() as client:
        found = await client.topics.subscriptions()
    show_subscriptions(found, as_json)


@click.command()
@click.argument("topics", nargs=-1, required=True)
@name_option
@zeromq_option
@hub_options
async def unsubscribe(
    make_client: Callable[[], Client], topics: tuple[str, ...], name: str, zeromq: str | None
) -> None:
    """End durable subscriptions to TOPICS: their places are forgotten."""
    if zeromq is not None:
        async with zeromq_client(zeromq) as over_zeromq:
            for topic in topics:
                await over_zeromq.unsubscribe(topic, name)
                click.echo(f"UNSUBSCRIBED {topic}")
        return
    async with make_client() as client:
        for topic in topics:
            await client.topics.unsubscribe(topic, name)
            click.echo(f"UNSUBSCRIBED {topic}")


@click.command()
@click.argument("topic")
@click.argument("serials", nargs=-1, type=click.IntRange(min=1))
@click.option("--up-to", type=click.IntRange(min=0), help="All messages up to this serial.")
@click.option("--give-back", is_flag=True, help="Not done: hand them out again at once.")
@click.option("--consumer", default="", help="Which consumer of a shared subscription.")
@name_option
@hub_options
async def ack(
    make_client: Callable[[], Client],
    topic: str,
    serials: tuple[int, ...],
    up_to: int | None,
    give_back: bool,
    consumer: str,
    name: str,
) -> None:
    """Acknowledge messages of TOPIC: they are not handed out again.

    Prints the serial up to which all are done.
    """
    if bool(serials) == (up_to is not None):
        fail("give either SERIALS or --up-to", WRONG)
    async with make_client() as client:
        floor = await client.topics.ack(
            topic, serials, name, up_to=up_to, consumer=consumer, give_back=give_back
        )
    click.echo(floor)


async def subscribe_over_zeromq(
    endpoint: str, topics: tuple[str, ...], name: str, start: Start, shared: bool
) -> None:
    options = {"shared": True} if shared else {}
    async with zeromq_client(endpoint) as client:
        for topic in topics:
            info = await client.subscribe(topic, name, start=start, **options)
            click.echo(f"SUBSCRIBED {topic} ({name}), {info['lag']} waiting")


async def subscribe_durably(
    make_client: Callable[[], Client],
    topics: tuple[str, ...],
    name: str,
    start: Start,
    shared: bool,
    as_json: bool,
) -> None:
    """Prints the result for each topic; an existing subscription keeps its cursor."""
    options = SubscriptionOptions(shared=True) if shared else None
    async with make_client() as client:
        for topic in topics:
            info = await client.topics.subscribe(topic, name, options=options, start=start)
            answer({"answer": "SUBSCRIBED", **_entry(info)}, describe(info), as_json)


def describe(info: SubscriptionInfo) -> str:
    """The result of a subscription request in one line."""
    there = "" if info.new else ", was there already"
    return f"SUBSCRIBED {info.key.channel} ({info.key.name}{there}), {info.lag} waiting"


def show_subscriptions(found: list[SubscriptionInfo], as_json: bool = False) -> None:
    entries = sorted(map(_entry, found), key=lambda entry: (entry["topic"], entry["name"]))
    none = "no durable subscriptions; make one with `hubbub subscribe --durable TOPIC`"
    show_list(entries, _COLUMNS, none, as_json)


def _entry(info: SubscriptionInfo) -> dict[str, Any]:
    """The subscription as in the JSON protocol."""
    return {
        "topic": info.key.channel,
        "name": info.key.name,
        "shared": info.options.shared,
        "epoch": info.epoch,
        "floor": str(info.floor),
        "head": str(info.head),
        "lag": info.lag,
        "handedOut": info.handed_out,
        "redeliveries": info.redeliveries,
        "deadLetters": info.dead_letters,
        "missed": info.missed,
        "options": msgspec.to_builtins(info.options),
    }
