"""`hubbub document list|history|restore|delete`: documents, as services handle them."""

from __future__ import annotations

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.commands import add
from hubbub.cli.administration.options import admin_options, json_lines_option
from hubbub.cli.messages.documents import document
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Columns, local_time, show_list

__all__ = ["document"]

_NEWEST = 2**53 - 1
"""Greater than any document's version."""
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


add(
    document, "list", "listDocuments", columns=_COLUMNS,
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
    path = {"hub": hub, "channel": channel}
    page = admin.call("listDocumentChanges", path, after=after, before=before, limit=limit)
    show_list(page["changes"], _CHANGES, f"{channel} has no such changes", as_json)
    if page["more"] and not as_json:
        click.echo("there are more; give --after or --before", err=True)


add(
    document, "restore", "restoreDocument",
    """Give the document of CHANNEL the content that it had at VERSION; prints the version that
    this leads to. What came since stays in its history.""",
    prints="version", only=["version"],
    arguments={
        "version": click.argument(
            "given_version", metavar="VERSION", type=click.IntRange(min=0)
        )
    },
)  # fmt: skip
add(
    document, "delete", "deleteDocument", "Delete the document of CHANNEL with its history.",
    question="Delete the document of {channel!r} with its history?",
)  # fmt: skip
