"""`hubbub push`: devices, followings, keys and accounts for push services, and pushes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.options import admin_options, json_lines_option
from hubbub.cli.failures import WRONG, fail
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Columns, json_option, local_time, show_entry, show_list

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


@push.command()
@click.argument("user")
@json_lines_option
@hub_option
@admin_options
def tokens(admin: AdminClient, hub: str, user: str, as_json: bool) -> None:
    """List the devices of USER."""
    found = admin.get("hubs", hub, "users", user, "push-tokens")["items"]
    show_list(found, _TOKENS, f"{user} has no devices", as_json)


@push.command()
@click.argument("user")
@click.argument("platform", type=_PLATFORM)
@click.argument("device", metavar="TOKEN")
@click.option("--topic", help="The bundle id, for apns.")
@click.option("--sandbox", is_flag=True, help="An Apple device of a development build.")
@hub_option
@admin_options
def register(
    admin: AdminClient,
    hub: str,
    user: str,
    platform: str,
    device: str,
    topic: str | None,
    sandbox: bool,
) -> None:
    """Register a device of USER; prints its id.

    TOKEN of webpush is the JSON of a PushSubscription.
    """
    body: dict[str, Any] = {"platform": platform, "token": device, "topic": topic}
    body["environment"] = "sandbox" if sandbox else None
    click.echo(admin.put("hubs", hub, "users", user, "push-tokens", body=body)["id"])


@push.command()
@click.argument("user")
@click.argument("platform", type=_PLATFORM)
@click.argument("device", metavar="TOKEN")
@hub_option
@admin_options
def unregister(admin: AdminClient, hub: str, user: str, platform: str, device: str) -> None:
    """Delete a device of USER, by its token or its id."""
    admin.delete("hubs", hub, "users", user, "push-tokens", platform, device)


@push.command()
@click.argument("user")
@json_lines_option
@hub_option
@admin_options
def followings(admin: AdminClient, hub: str, user: str, as_json: bool) -> None:
    """List the channels whose pushes reach USER, subscribed or not."""
    found = admin.get("hubs", hub, "users", user, "push-subscriptions")["items"]
    show_list(found, _FOLLOWINGS, f"{user} follows no channels", as_json)


@push.command()
@click.argument("user")
@click.argument("channel")
@hub_option
@admin_options
def follow(admin: AdminClient, hub: str, user: str, channel: str) -> None:
    """Have the pushes of CHANNEL reach USER, subscribed or not."""
    admin.put("hubs", hub, "users", user, "push-subscriptions", channel, body=None)


@push.command()
@click.argument("user")
@click.argument("channel")
@hub_option
@admin_options
def unfollow(admin: AdminClient, hub: str, user: str, channel: str) -> None:
    """Have the pushes of CHANNEL no longer reach USER without a subscription."""
    admin.delete("hubs", hub, "users", user, "push-subscriptions", channel)


@push.command()
@click.argument("users", metavar="USER...", nargs=-1, required=True)
@click.option("--title", help="What is shown first.")
@click.option("--body", help="What is shown below.")
@click.option("--link", help="What a click opens.")
@click.option("--ttl", type=click.IntRange(0, 2_419_200), help="Seconds in which it is worth it.")
@click.option("--urgency", type=click.Choice(["very-low", "low", "normal", "high"]))
@hub_option
@admin_options
def send(
    admin: AdminClient, hub: str, users: tuple[str, ...], link: str | None, **options: Any
) -> None:
    """Push to all devices of some users; prints the id that the push has in the journal."""
    body = {"users": list(users), "url": link, **options}
    click.echo(admin.post("hubs", hub, "push", body=body)["pushID"])


@push.command()
@click.argument("user")
@json_lines_option
@hub_option
@admin_options
def test(admin: AdminClient, hub: str, user: str, as_json: bool) -> None:
    """Push to each device of USER once, and show what its service answers."""
    body = {"user": user, "title": "Test", "body": f"This is a test of hub {hub}."}
    found = admin.post("hubs", hub, "push", "test", body=body)["items"]
    show_list(found, _RESULTS, f"{user} has no devices", as_json)


@push.command()
@json_option
@hub_option
@admin_options
def status(admin: AdminClient, hub: str, as_json: bool) -> None:
    """See how push is doing: outcomes, latency, the last error of each service."""
    show_entry(admin.get("hubs", hub, "push"), as_json)


@push.command()
@json_lines_option
@hub_option
@admin_options
def credentials(admin: AdminClient, hub: str, as_json: bool) -> None:
    """List keys and accounts for push services, without their secrets."""
    found = admin.get("hubs", hub, "push", "credentials")["items"]
    show_list(found, _CREDENTIALS, "there are no credentials", as_json)


@push.command("rotate-key")
@hub_option
@admin_options
def rotate_key(admin: AdminClient, hub: str) -> None:
    """Make a new key for browsers; prints the public key."""
    click.echo(admin.post("hubs", hub, "push", "keys")["key"])


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
    found = admin.put("hubs", hub, "push", "credentials", "fcm", body=body)
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
    admin.put("hubs", hub, "push", "credentials", "apns", body=body)
