"""`hubbub webhooks`: list webhooks and their status, replay and remove them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.commands import add
from hubbub.cli.administration.options import admin_options, json_lines_option
from hubbub.cli.failures import FAILED
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Columns, answer, json_option, local_time, show_entry, show_list

_TIMES = ("createdAt", "expiresAt", "lastDeliveredAt", "nextTryAt")


def _status(found: Mapping[str, Any], name: str) -> Any:
    """None if no driver runs the webhook at the moment."""
    status = found["status"]
    return None if status is None else status[name]


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else local_time(milliseconds)


_COLUMNS: Columns = {
    "ID": "id",
    "KIND": "kind",
    "CHANNEL": "channel",
    "CALLBACK": "callback",
    "STATE": "state",
    "WAITING": lambda found: _status(found, "lag"),
    "TRIES": lambda found: _status(found, "attempts"),
    "NEXT TRY": lambda found: _time(_status(found, "nextTryAt")),
    "DEAD": lambda found: _status(found, "deadLetters"),
    "LAST ERROR": lambda found: _status(found, "lastError"),
}
_TOPIC_COLUMNS: Columns = {
    "CHANNEL": "channel",
    "KEY": "withKey",
    "SINCE": lambda found: _time(found["createdAt"]),
    "FETCHED FROM": "url",
    "PINGED": lambda found: _time(found["pingedAt"]),
    "FAILURES": "fetchFailures",
    "LAST ERROR": "fetchError",
}


@click.group()
def webhooks() -> None:
    """See, replay and remove the webhooks of a hub, and the topics that are registered."""


@webhooks.command("list")
@click.option("--channel", help="Only those of this channel.")
@click.option("--failing", is_flag=True, help="Only those whose last request failed.")
@json_lines_option
@hub_option
@admin_options
def list_webhooks(
    admin: AdminClient, hub: str, channel: str | None, failing: bool, as_json: bool
) -> None:
    """List the webhooks with what waits for them and how the last request went."""
    found = admin.pages("listWebhooksAsAdmin", {"hub": hub}, channel=channel, status=True)
    if failing:
        found = (each for each in found if _status(each, "lastError") is not None)
    show_list(found, _COLUMNS, f"the hub {hub!r} has no such webhook", as_json)


@webhooks.command()
@click.argument("webhook")
@json_option
@hub_option
@admin_options
def show(admin: AdminClient, hub: str, webhook: str, as_json: bool) -> None:
    """Show where the WEBHOOK of this id leads, and how it is doing."""
    found = admin.call("getWebhookAsAdmin", {"hub": hub, "webhook": webhook})
    show_entry(found if as_json else _readable(found), as_json)


def _readable(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Formats times for people."""
    return {
        name: _time(value)
        if name in _TIMES
        else _readable(value)
        if isinstance(value, dict)
        else value
        for name, value in entry.items()
    }


add(
    webhooks, "remove", "deleteWebhookAsAdmin",
    """Remove the WEBHOOK of this id for good.

    What waits for it is not sent any more. Its dead letters stay in their channel.
    """,
    question="Remove the webhook {webhook!r}?",
)  # fmt: skip
add(webhooks, "pause", "pauseWebhook")
add(webhooks, "resume", "resumeWebhook")
add(webhooks, "dead", "listDeadLetters", nothing="the webhook {webhook!r} has no dead letters")
add(
    webhooks, "discard", "discardDeadLetter", question="Give the dead letter {serial} up for good?",
)  # fmt: skip


@webhooks.command()
@click.argument("webhook")
@json_option
@hub_option
@admin_options
def replay(admin: AdminClient, hub: str, webhook: str, as_json: bool) -> None:
    """Send once more what the WEBHOOK of this id could not get and was given up.

    What arrives is done. What fails again stays with the dead letters, and the exit code is 1.
    """
    delivered = failed = after = 0
    more = True
    while more:
        path = {"hub": hub, "webhook": webhook}
        part = admin.call("replayWebhookAsAdmin", path, after=after or None)
        delivered, failed = delivered + part["delivered"], failed + part["failed"]
        more, after = part["more"], part["after"]
        if more and not as_json:
            click.echo(f"{delivered:,} delivered, {failed:,} failed so far", err=True)
    done = {"delivered": delivered, "failed": failed}
    answer(done, f"{delivered:,} delivered, {failed:,} failed", as_json)
    if failed:
        sys.exit(FAILED)


add(
    webhooks, "topics", "listWebTopics",
    "List the topics that were registered, or that the hub fetches.", columns=_TOPIC_COLUMNS,
    nothing="the hub {hub!r} has no registered topic",
)  # fmt: skip
add(
    webhooks, "remove-topic", "deleteWebTopic",
    """Remove the topic CHANNEL, and who subscribed to it by Light-PubSubHubbub.

    The channel and its messages stay.
    """,
    question="Remove the topic {channel!r} and its subscriptions?",
)  # fmt: skip
