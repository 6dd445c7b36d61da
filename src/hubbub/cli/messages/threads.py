"""`hubbub threads`: the conversations of a channel, and the messages of one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import click

from hubbub.cli.messages.options import hub_options
from hubbub.cli.messages.reading import print_note
from hubbub.cli.printing import escape_control, message_line, message_object, to_json
from hubbub.client import Client, Thread
from hubbub.domain.threads import DEFAULT_PAGE, MAX_PAGE


@click.command()
@click.argument("channel")
@click.argument("conversation", required=False)
@click.option("--status", help="Only conversations in this status.")
@click.option(
    "--after", type=click.IntRange(min=0), default=0, help="What began after this serial."
)
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each.")
@hub_options
async def threads(
    make_client: Callable[[], Client],
    channel: str,
    conversation: str | None,
    status: str | None,
    after: int,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print the conversations of CHANNEL in the order in which they began, or the messages of
    CONVERSATION."""
    if conversation is not None and status is not None:
        raise click.UsageError("--status chooses among conversations; leave out CONVERSATION")
    async with make_client() as client:
        if conversation is None:
            await _list(client, channel, status, after, limit or DEFAULT_PAGE, as_json)
        else:
            await _show(client, channel, conversation, after, limit, as_json)


async def _list(
    client: Client, channel: str, status: str | None, after: int, limit: int, as_json: bool
) -> None:
    found = 0
    while True:
        wanted = min(limit, MAX_PAGE)
        page = await client.threads(channel, status=status, after=after, limit=wanted)
        for thread in page.threads:
            click.echo(_thread_json(thread) if as_json else _thread_line(thread))
        found += len(page.threads)
        if not found:
            print_note(f"there are no such conversations in {channel}")
        limit -= len(page.threads)
        if not page.more or not page.threads:
            return
        after = page.threads[-1].first.serial
        if limit <= 0:
            print_note(f"there are more; see --after {after}")
            return


async def _show(
    client: Client, channel: str, conversation: str, after: int, limit: int | None, as_json: bool
) -> None:
    page = await client.thread(channel, conversation, after=after, limit=limit or 0)
    for message in page.messages:
        click.echo(message_line(message, as_json))
    if not page.messages:
        print_note(f"{channel} has no such messages of {conversation}")
    elif page.more:
        print_note(f"there are more; see --after {page.messages[-1].serial}")


def _thread_line(thread: Thread) -> str:
    updated = datetime.fromtimestamp(thread.updated_at / 1000, UTC).astimezone()
    parts = [
        thread.conversation_id,
        f"{thread.messages} message{'s' if thread.messages != 1 else ''}",
        f"#{thread.first.serial} to #{thread.last_serial}",
        f"{updated:%Y-%m-%d %H:%M:%S}",
        thread.status or "",
    ]
    return escape_control("  ".join(part for part in parts if part))


def _thread_json(thread: Thread) -> str:
    """The thread as in the JSON protocol."""
    shown: dict[str, object] = {
        "conversationID": thread.conversation_id,
        "first": message_object(thread.first),
        "messages": thread.messages,
        "lastSerial": str(thread.last_serial),
        "updatedAt": thread.updated_at,
    }
    if thread.status is not None:
        shown["status"] = thread.status
    return to_json(shown)
