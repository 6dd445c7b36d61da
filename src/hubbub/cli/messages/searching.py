"""`hubbub search`: stored messages with these words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

import click

from hubbub.cli.messages.conditions import where_option
from hubbub.cli.messages.options import hub_options
from hubbub.cli.messages.reading import print_note
from hubbub.cli.printing import message_line, message_object, to_json
from hubbub.cli.times import Moment
from hubbub.client import Client, SearchHit
from hubbub.domain.search import DEFAULT_HITS, MAX_HITS


@click.command()
@click.argument("query")
@click.option("--channel", help="Only in this channel, or in those of a pattern.")
@click.option("--since", type=Moment(), help="Not before this time.")
@click.option("--until", type=Moment(), help="Not after this time.")
@where_option
@click.option("--newest", is_flag=True, help="The newest first, not the best.")
@click.option("--limit", type=click.IntRange(min=1), default=DEFAULT_HITS, help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each hit.")
@hub_options
async def search(
    make_client: Callable[[], Client],
    query: str,
    channel: str | None,
    since: int | None,
    until: int | None,
    where: dict[str, Any] | None,
    newest: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Print stored messages with all words of QUERY, in the channels that you may read. Words in
    quotation marks must follow each other: 'server "out of memory"'."""
    order: Literal["rank", "time"] = "time" if newest else "rank"
    times = {"since": _time(since), "until": _time(until)}
    async with make_client() as client:
        cursor, found = None, 0
        while True:
            page = await client.search(
                query,
                channel=channel,
                where=where,
                order=order,
                limit=min(limit - found, MAX_HITS),
                cursor=cursor,
                **times,
            )
            for hit in page.hits:
                click.echo(_hit_json(hit) if as_json else _hit_line(hit))
            found, cursor = found + len(page.hits), page.cursor
            if cursor is None or found >= limit:
                break
        if not found:
            print_note("there are no such messages in channels that are searched (rule `search`)")
        elif cursor is not None:
            print_note("there may be more; raise --limit")
        if page.behind:
            print_note(f"older messages of {page.behind} channels are still being indexed")


def _time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else datetime.fromtimestamp(microseconds / 1e6, UTC)


def _hit_line(hit: SearchHit) -> str:
    return f"{hit.message.channel}  {message_line(hit.message, False)}"


def _hit_json(hit: SearchHit) -> str:
    return to_json({"score": hit.score, "message": message_object(hit.message)})
