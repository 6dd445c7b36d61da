"""`hubbub subscribe`, `history` and `presence`: read messages, past messages, and present
sessions."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from hubbub.cli.failures import run
from hubbub.cli.messages.conditions import where_option
from hubbub.cli.messages.envelope import JsonObject
from hubbub.cli.messages.options import hub_options
from hubbub.cli.messages.over_zeromq import zeromq_option
from hubbub.cli.messages.topics import (
    Start,
    name_option,
    subscribe_durably,
    subscribe_over_zeromq,
)
from hubbub.cli.printing import NOTIFICATION_EVENTS, describe_event, message_line
from hubbub.cli.tables import answer
from hubbub.client import Client, Disconnected, Gap, Message, MessagesLost
from hubbub.client.client import Since
from hubbub.domain.patterns import is_pattern

_NOTHING = (
    "there are no messages in {}; a channel keeps them where its rules have `store` or "
    "`liveHistory`"
)


@click.command()
@click.argument("channels", nargs=-1, required=True)
@click.option("--since", type=click.IntRange(min=0), help="Also what came after this serial.")
@click.option("--from-start", is_flag=True, help="Also all that there is.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many messages.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each message.")
@where_option
@click.option("--presence", is_flag=True, help="Also show who comes and goes.")
@click.option(
    "--show", type=JsonObject(), metavar="JSON", help="What presence shows of you, as an object."
)
@click.option("--channel-token", metavar="TOKEN", help="Permits to subscribe to the channel.")
@click.option("--strict", is_flag=True, help="Stop with exit code 1 where messages are missing.")
@click.option(
    "--durable", is_flag=True, help="Make a subscription that lasts, for `hubbub get`, and end."
)
@name_option
@zeromq_option
@click.option("--shared", is_flag=True, help="With --durable: several consumers share it.")
@hub_options
def subscribe(
    make_client: Callable[[], Client],
    channels: tuple[str, ...],
    since: int | None,
    from_start: bool,
    count: int | None,
    as_json: bool,
    where: dict[str, Any] | None,
    presence: bool,
    show: dict[str, Any] | None,
    channel_token: str | None,
    strict: bool,
    durable: bool,
    name: str,
    shared: bool,
    zeromq: str | None,
) -> None:
    """Print the messages of CHANNELS as they come, until Ctrl-C. A name with * (anything) or # (one
    segment) is a pattern: 'room:*' is all channels that match, also those that come later.

    With --durable, subscribe to them as topics: the hub keeps what you have not acknowledged, and
    `hubbub get` fetches it.
    """
    if durable and where is not None:
        raise click.UsageError("--where is for live messages, not with --durable")
    if durable:
        start: Start = "first" if from_start else "new" if since is None else since
        if zeromq is not None:
            run(subscribe_over_zeromq(zeromq, channels, name, start, shared))
            return
        run(subscribe_durably(make_client, channels, name, start, shared, as_json))
        return

    if zeromq is not None:
        raise click.UsageError("over ZeroMQ there are topics only: add --durable")

    async def work() -> None:
        left = count
        async with make_client() as client:
            client.on(Disconnected, _tell_disconnected)
            start: Since | None = 0 if from_start else since
            if from_start and any(map(is_pattern, channels)):
                start = datetime.fromtimestamp(0, UTC)
            subscription = await client.subscribe(
                *channels, since=start, where=where, presence=show, token=channel_token
            )
            print_note(f"subscribed to {', '.join(channels)}; Ctrl-C ends it")
            async for event in subscription.events():
                if isinstance(event, Message):
                    click.echo(message_line(event, as_json))
                    left = None if left is None else left - 1
                    if left == 0:
                        return
                elif isinstance(event, Gap) and strict:
                    raise MessagesLost(event)
                elif isinstance(event, Gap):
                    print_note(f"messages of {event.channel} may be missing here: {event.reason}")
                elif presence or isinstance(event, NOTIFICATION_EVENTS):
                    click.echo(describe_event(event, as_json))

    run(work(), until_interrupted=count is None)


@click.command()
@click.argument("channel")
@click.option("--after", type=click.IntRange(min=0), help="What came after this serial.")
@click.option("--before", type=click.IntRange(min=0), help="What came before this serial.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many messages.")
@click.option("--all", "everything", is_flag=True, help="All pages, from the oldest on.")
@where_option
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each message.")
@hub_options
async def history(
    make_client: Callable[[], Client],
    channel: str,
    after: int | None,
    before: int | None,
    limit: int | None,
    everything: bool,
    where: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """Print the newest messages of CHANNEL, or a part of its history."""
    async with make_client() as client:
        if everything:
            shown = 0
            async for message in client.read_history(channel, after=after or 0, where=where):
                if message.gap is not None:
                    print_note("older messages are no longer there")
                click.echo(message_line(message, as_json))
                shown += 1
                if shown == limit:
                    return
            if not shown:
                print_note(_NOTHING.format(channel))
            return
        page = await client.history(
            channel, after=after, before=before, limit=limit or 0, where=where
        )
        for message in page.messages:
            click.echo(message_line(message, as_json))
        if not page.messages and page.recovered:
            print_note(_NOTHING.format(channel))
        if not page.recovered:
            print_note("not all that was asked for is still there")
        elif page.more:
            print_note("there is more; see --after, --before and --all")


@click.command()
@click.argument("channel")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each member.")
@hub_options
async def presence(make_client: Callable[[], Client], channel: str, as_json: bool) -> None:
    """Print who is in CHANNEL: session, user, since when."""
    async with make_client() as client:
        members = await client.presence(channel)
    for member in members:
        since = datetime.fromtimestamp(member.timestamp / 1000, UTC).astimezone()
        user = member.user_id or "(anonymous)"
        data = "" if member.data is None else f"  {json.dumps(member.data, ensure_ascii=False)}"
        answer(member, f"{member.session_id}  {user}  since {since:%H:%M:%S}{data}", as_json)
    if not members:
        print_note(f"nobody is in {channel}")


def print_note(text: str) -> None:
    """Notes go to stderr, so that piped output stays clean."""
    click.echo(click.style(text, dim=True), err=True)


def _tell_disconnected(event: Disconnected) -> None:
    if event.retry_in is not None:
        print_note(f"disconnected: {event.error.message}; connecting again")
