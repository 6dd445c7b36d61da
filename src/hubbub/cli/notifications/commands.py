"""`hubbub notifications`: create, see, mark and delete notifications."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any

import click
import msgspec

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.options import (
    admin_options,
    confirm,
    json_lines_option,
    yes_option,
)
from hubbub.cli.failures import WRONG, fail
from hubbub.cli.messages.options import hub_option
from hubbub.cli.messages.payloads import PayloadSource, payload_options
from hubbub.cli.numbers import FiniteRange
from hubbub.cli.tables import Columns, local_time, show_list
from hubbub.domain.messages import JSON, is_text

_COLUMNS: Columns = {
    "TIME": lambda each: local_time(each["ts"]),
    "ID": "id",
    "READ": "read",
    "EVENT": lambda each: each.get("event"),
    "PAYLOAD": lambda each: next(iter(each["payload"].values())),
}


@click.group()
def notifications() -> None:
    """Create, see, mark and delete the notifications of a channel."""


@notifications.command()
@click.argument("channel")
@partial(payload_options, word="PAYLOAD")
@click.option("--event", default="", help="Your own name for what happened.")
@click.option("--id", "identifier", help="Makes it repeatable: the same again is a duplicate.")
@click.option("--author", help="Whom it is from; else the token's user.")
@click.option("--expires-in", type=FiniteRange(min=0.001), help="Seconds after which it goes.")
@hub_option
@admin_options
def create(
    admin: AdminClient,
    hub: str,
    channel: str,
    source: PayloadSource,
    event: str,
    identifier: str | None,
    author: str | None,
    expires_in: float | None,
) -> None:
    """Create a notification with PAYLOAD in CHANNEL; prints its id.

    The name of a notification channel begins with `notification:`; that of a user's own is
    `notification:u:` and the user id.
    """
    body, content_type = source.read()
    item: dict[str, Any] = {"event": event, "payload": _payload(body, content_type)}
    item |= {"id": identifier, "author": author, "contentType": content_type}
    if expires_in is not None:
        item["expiresAt"] = int((time.time() + expires_in) * 1000)
    path, body_of_one = {"hub": hub, "channel": channel}, {"notifications": [item]}
    (result,) = admin.call("createNotifications", path, body=body_of_one)["created"]
    if not result["success"]:
        fail(f"{result['error']['message']} ({result['error']['code']})")
    click.echo(result["id"] + (" (it was there already)" if result["duplicate"] else ""))


def _payload(body: bytes, content_type: str) -> dict[str, Any]:
    if content_type == JSON:
        return {"json": msgspec.Raw(body)}
    return {"text": body.decode()} if is_text(content_type) else {"base64": b64encode(body)}


@notifications.command("list")
@click.argument("channel")
@click.option("--unread", is_flag=True, help="Only those.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@json_lines_option
@hub_option
@admin_options
def list_notifications(
    admin: AdminClient, hub: str, channel: str, unread: bool, limit: int, as_json: bool
) -> None:
    """List the newest notifications of CHANNEL."""
    path = {"hub": hub, "channel": channel}
    page = admin.call("listNotifications", path, unread=unread or None, limit=limit)
    kind = "unread notifications" if unread else "notifications"
    show_list(page["notifications"], _COLUMNS, f"{channel} has no {kind}", as_json)
    if not as_json:
        click.echo(f"{page['unread']} of {page['total']} unread", err=True)


def _add(name: str, operation: str, about: str, done: str, question: str = "") -> None:
    """Adds a command for some or all notifications of a channel."""

    def run(
        admin: AdminClient,
        hub: str,
        channel: str,
        ids: tuple[str, ...],
        everything: bool,
        yes: bool = True,
    ) -> None:
        if bool(ids) == everything:
            fail("give the ids of notifications, or --all", WRONG)
        if question:
            confirm(question, yes)
        which = {"all": True} if everything else {"ids": list(ids)}
        answer = admin.call(operation, {"hub": hub, "channel": channel}, body=which)
        for identifier in answer["unknown"]:
            click.echo(f"there is no notification {identifier}", err=True)
        click.echo(f"{done} {answer['marked']}; {answer['unread']} unread")

    command: Callable[..., None] = run
    options: list[Any] = [
        click.argument("channel"),
        click.argument("ids", metavar="[ID]...", nargs=-1),
        click.option("--all", "everything", is_flag=True, help="All that are there now."),
        *([yes_option] if question else []),
        hub_option,
        admin_options,
    ]
    for option in reversed(options):
        command = option(command)
    notifications.command(name, help=about)(command)


_add(
    "read", "markNotificationsRead",
    "Mark notifications of CHANNEL as read, for all who share it.", "marked as read:",
)  # fmt: skip
_add(
    "unread", "markNotificationsUnread", "Mark notifications of CHANNEL as unread.",
    "marked as unread:",
)  # fmt: skip
_add(
    "delete", "deleteNotifications", "Delete notifications of CHANNEL.", "deleted:",
    "Delete them for good?",
)  # fmt: skip
