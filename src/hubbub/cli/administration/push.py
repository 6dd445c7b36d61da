"""`hubbub push`: devices, followings, keys and accounts for push services, and pushes."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.commands import add
from hubbub.cli.administration.options import admin_options
from hubbub.cli.failures import WRONG, fail
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Columns, local_time

_PLATFORM = click.Choice(["webpush", "fcm", "apns"])
_TOKENS: Columns = {
    "PLATFORM": "platform",
    "ID": "id",
    "REGISTERED": lambda each: local_time(each["registeredAt"]),
    "LAST SUCCESS": lambda each: _time(each.get("lastSuccessAt")),
    "FAILURES": "failures",
}
_FOLLOWINGS: Columns = {
    "CHANNEL": "channel",
    "SINCE": lambda each: local_time(each["createdAt"]),
}
_CREDENTIALS: Columns = {
    "NAME": "name",
    "PLATFORM": "platform",
    "CREATED": lambda each: local_time(each["createdAt"]),
    "OF": lambda each: each.get("projectID") or each.get("teamID") or each.get("key"),
}
_RESULTS: Columns = {
    "PLATFORM": "platform",
    "ID": "id",
    "OUTCOME": "outcome",
    "STATUS": lambda each: each.get("status"),
    "REASON": "reason",
}


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else local_time(milliseconds)


@click.group()
def push() -> None:
    """Devices and followings of users, keys and accounts for push services, and pushes."""


add(
    push, "tokens", "listPushTokensOfUser", "List the devices of USER.", columns=_TOKENS,
    nothing="{user} has no devices",
)  # fmt: skip
add(
    push, "register", "putPushTokenOfUser",
    """Register a device of USER; prints its id.

    TOKEN of webpush is the JSON of a PushSubscription.
    """,
    prints="id",
    arguments={
        "platform": click.argument("given_platform", type=_PLATFORM, metavar="PLATFORM"),
        "token": click.argument("given_token", metavar="TOKEN"),
        "environment": click.option(
            "--sandbox", "given_environment", flag_value="sandbox",
            help="An Apple device of a development build.",
        ),
    },
    only=["platform", "token", "topic", "environment", "vapidKey"],
)  # fmt: skip
add(
    push, "unregister", "deletePushTokenOfUser", "Delete a device of USER, by its token or its id.",
    question=None, arguments={"platform": click.argument("platform", type=_PLATFORM)},
)  # fmt: skip
add(
    push, "followings", "listPushSubscriptionsOfUser",
    "List the channels whose pushes reach USER, subscribed or not.", columns=_FOLLOWINGS,
    nothing="{user} follows no channels",
)  # fmt: skip
add(
    push, "follow", "putPushSubscriptionOfUser",
    "Have the pushes of CHANNEL reach USER, subscribed or not.",
)  # fmt: skip
add(
    push, "unfollow", "deletePushSubscriptionOfUser",
    "Have the pushes of CHANNEL no longer reach USER without a subscription.", question=None,
)  # fmt: skip
add(
    push, "send", "pushToUsers",
    "Push to all devices of some users; prints the id that the push has in the journal.",
    prints="pushID",
    arguments={
        "users": click.argument("given_users", metavar="USER...", nargs=-1, required=True),
        "url": click.option("--link", "given_url", help="What a click opens."),
    },
    only=["users", "title", "body", "url", "ttl", "urgency"],
)  # fmt: skip
add(
    push, "test", "testPush",
    "Push to each device of USER once, and show what its service answers.",
    columns=_RESULTS, nothing="{user} has no devices",
    fixed={"title": "Test", "body": "This is a test."},
    arguments={"user": click.argument("given_user", metavar="USER")}, only=["user"],
)  # fmt: skip
add(push, "status", "getPushStatus")
add(
    push, "credentials", "listPushCredentials", columns=_CREDENTIALS,
    nothing="there are no credentials",
)  # fmt: skip
add(
    push, "rotate-key", "rotatePushKey", "Make a new key for browsers; prints the public key.",
    prints="key",
)  # fmt: skip


@push.command("set-fcm")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@hub_option
@admin_options
def set_fcm(admin: AdminClient, hub: str, file: Path) -> None:
    """Set the service account for FCM: FILE is the JSON that Google gives."""
    try:
        body = msgspec.json.decode(file.read_bytes())
    except msgspec.DecodeError:
        fail(f"{file} is no JSON", WRONG)
    found = admin.call("putFcmAccount", {"hub": hub}, body=body)
    click.echo(f"{found['projectID']} {found['clientEmail']}")


@push.command("set-apns")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--key-id", required=True, help="The id of the key at Apple.")
@click.option("--team-id", required=True, help="The id of the team at Apple.")
@click.option("--topic", help="The bundle id of devices that do not say theirs.")
@hub_option
@admin_options
def set_apns(
    admin: AdminClient, hub: str, file: Path, key_id: str, team_id: str, topic: str | None
) -> None:
    """Set the key for APNs: FILE is the .p8 that Apple gives."""
    body = {"keyID": key_id, "teamID": team_id, "topic": topic, "key": file.read_text()}
    admin.call("putApnsKey", {"hub": hub}, body=body)
