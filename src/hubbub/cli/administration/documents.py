"""`hubbub document list|history|restore|delete`: documents, as services handle them."""

from __future__ import annotations

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.commands import add_list, add_removal, prefix_option
from hubbub.cli.administration.options import admin_options, json_lines_option
from hubbub.cli.messages.documents import document
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Columns, local_time, show_list

__all__ = ["document"]

_NEWEST = 2**53 - 1
"""No document has this version."""
_COLUMNS: Columns = {
    "CHANNEL": "channel",
    "VERSION": "version",
    "BYTES": "bytes",
    "CHANGES KEPT": "changesKept",
    "CHANGED": lambda each: local_time(each["updatedAt"]),
}
_CHANGES: Columns = {
    "VERSION": "version",
    "TIME": lambda each: local_time(each["ts"]),
    "AUTHOR": "author",
    "OPERATIONS": "ops",
}


def _path(hub: str, channel: str, *more: str) -> tuple[str, ...]:
    return ("hubs", hub, "channels", channel, "document", *more)


add_list(
    document, "documents", _COLUMNS, "the hub {hub!r} has no documents",
    "List the documents of a hub.", prefix_option,
)  # fmt: skip


@document.command()
@click.argument("channel")
@click.option("--after", type=click.IntRange(min=0), help="The changes behind this version.")
@click.option("--before", type=click.IntRange(min=1), help="The newest before this version.")
@click.option("--limit", type=click.IntRange(1, 500), default=100, show_default=True)
@json_lines_option
@hub_option
@admin_options
def history(
    admin: AdminClient,
    hub: str,
    channel: str,
    after: int | None,
    before: int | None,
    limit: int,
    as_json: bool,
) -> None:
    """Show the newest changes of the document of CHANNEL that are kept, oldest first."""
    if after is None and before is None:
        before = _NEWEST
    page = admin.get(*_path(hub, channel, "changes"), after=after, before=before, limit=limit)
    show_list(page["changes"], _CHANGES, f"{channel} has no such changes", as_json)
    if page["more"] and not as_json:
        click.echo("there are more; give --after or --before", err=True)


@document.command()
@click.argument("channel")
@click.argument("version", type=click.IntRange(min=0))
@hub_option
@admin_options
def restore(admin: AdminClient, hub: str, channel: str, version: int) -> None:
    """Give the document of CHANNEL the content that it had at VERSION; prints the version that
    this leads to. What came since stays in its history."""
    body = {"version": version}
    click.echo(admin.post(*_path(hub, channel, "restore"), body=body)["version"])


add_removal(
    document, "delete", "channels/{channel}/document",
    "Delete the document of {channel!r} with its history?",
    "Delete the document of CHANNEL with its history.",
)  # fmt: skip
