"""`hubbub hubs`: the hubs of a server, and the settings that hold for all of a hub."""

from __future__ import annotations

import click
import msgspec

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.assignments import assign
from hubbub.cli.administration.commands import add_list, add_removal, add_show, prefix_option
from hubbub.cli.administration.options import admin_options
from hubbub.cli.failures import WRONG, fail
from hubbub.cli.tables import Columns, answer, json_option, show_entry
from hubbub.domain.errors import InvalidName
from hubbub.domain.names import check_name
from hubbub.domain.rules import HubSettings

_COLUMNS: Columns = {
    "HUB": "hub",
    "SESSIONS": "sessions",
    "CHANNELS": "channels",
    "SETTINGS": lambda hub: "stored" if hub["stored"] else "none of its own",
}


@click.group()
def hubs() -> None:
    """See, create, change and delete hubs."""


add_list(hubs, "/hubs", _COLUMNS, "there are no hubs", "List all hubs.", prefix_option)
add_show(hubs, "/hubs/{hub}", "Show HUB with its settings and how it is used.")


@hubs.command()
@click.argument("hub")
@click.argument("settings", metavar="[KEY=VALUE]...", nargs=-1)
@json_option
@admin_options
def create(admin: AdminClient, hub: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Create HUB, with settings such as allowAnonymous=on."""
    try:
        check_name(hub, "hub")
    except InvalidName as error:
        fail(error.message, WRONG)
    wanted = assign({}, settings, msgspec.to_builtins(HubSettings()))
    created = admin.post("hubs", body={"hub": hub, "settings": wanted})
    answer(created, f"created {hub}", as_json)


@hubs.command("set")
@click.argument("hub")
@click.argument("settings", metavar="KEY=VALUE...", nargs=-1, required=True)
@json_option
@admin_options
def set_settings(admin: AdminClient, hub: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Change settings of HUB; the others stay as they are.

    For example: defaultRules=open allowedOrigins=https://a.example,https://b.example
    quotas.sessions=1000. An empty value takes a name away: defaultRules=

    Settings: allowAnonymous, userChannel, defaultPublic, defaultRules, topicRules,
    authProvider, sessionRestore, allowedOrigins, trustedIssuers (in JSON), openTopics,
    callbackAddresses, natsSubjects, websubAlgorithm, websubNoContent, pushAudience, pushContact,
    commands, ridWindow, communication, and quotas.sessions, .channels, .messagesPerSecond,
    .deliveriesPerSecond, .storedBytes, .webhooks, .webhookRequestsPerSecond, .pushesPerSecond,
    .ownedChannels, .peers, .deliveries, .peerSubscriptions.
    """
    path = ("hubs", hub, "settings")
    before = admin.find(*path)
    wanted = assign(before.value if before else {}, settings, msgspec.to_builtins(HubSettings()))
    show_entry(admin.put(*path, body=wanted, over=before), as_json)


add_removal(
    hubs, "delete", "/hubs/{hub}", "Delete the hub {hub!r}, its messages and its settings?",
    "Delete HUB with all that it holds, and end its sessions.",
)  # fmt: skip
