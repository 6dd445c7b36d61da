"""`hubbub rules`: named sets of features that channels can have."""

from __future__ import annotations

import click
import msgspec

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.assignments import assign
from hubbub.cli.administration.commands import add_list, add_removal, add_show, prefix_option
from hubbub.cli.administration.options import admin_options
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Columns, json_option, show_entry
from hubbub.domain.rules import Rules

_DEFAULTS = msgspec.to_builtins(Rules())


def _is_on(name: str, value: object) -> bool:
    return isinstance(value, int) and bool(value) and value != _DEFAULTS.get(name)


def _named(name: str, value: object) -> str:
    return name if value is True else f"{name}={value}"


_COLUMNS: Columns = {
    "RULES": "name",
    "ON": lambda rules: [_named(*item) for item in rules["value"].items() if _is_on(*item)],
    "JOURNAL": lambda rules: rules["value"]["journal"],
}


@click.group()
def rules() -> None:
    """See, change and delete the rules of a hub."""


add_list(
    rules, "rules", _COLUMNS, "the hub {hub!r} has no rules",
    "List the rules with what they turn on.", prefix_option,
)  # fmt: skip
add_show(rules, "rules/{name}", "Show the rules NAME.")


@rules.command("set")
@click.argument("name")
@click.argument("features", metavar="[KEY=VALUE]...", nargs=-1)
@json_option
@hub_option
@admin_options
def set_rules(
    admin: AdminClient, hub: str, name: str, features: tuple[str, ...], as_json: bool
) -> None:
    """Turn features of the rules NAME on or off, at once for all channels that have them.

    Features that are not given stay as they are. Rules that are not there yet are made, with all
    else off. Features are on or off: retain, store, storeByDefault, push, presence, occupancy,
    public, clientPublish, allowAnonymous, liveHistory, reclaimAcknowledged, dropUnread,
    subscribeHook, publishHook (methods),
    documentMessages. Limits are numbers, 0 for none: maxAgeSeconds, maxStoredMessages,
    maxStoredBytes, maxDocumentChanges, documentTtlSeconds. What the journal keeps of messages:
    journal=off, metadata or payload.
    """
    path = ("hubs", hub, "rules", name)
    before = admin.find(*path)
    wanted = assign(before.value if before else {}, features, _DEFAULTS)
    show_entry(admin.put(*path, body=wanted, over=before, new=before is None), as_json)


add_removal(
    rules, "delete", "rules/{name}", "Delete the rules {name!r} of the hub {hub!r}?",
    "Delete the rules NAME, which nothing may use any more.",
)  # fmt: skip
