"""`hubbub rules`: named sets of features that channels can have."""

from __future__ import annotations

import click
import msgspec

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.assignments import assign, names_of
from hubbub.cli.administration.commands import add
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


add(
    rules, "list", "listRules", "List the rules with what they turn on.", columns=_COLUMNS,
)  # fmt: skip
add(rules, "show", "getRules")


@rules.command(
    "set",
    help=f"""Change features of the rules NAME, at once for all channels that have them.

    Features that are not given stay as they are. Rules that are not there yet are made, with all
    else off. Features are on or off; limits are numbers, 0 for none; hooks are methods; what the
    journal keeps of messages is off, metadata or payload.

    Features: {names_of(_DEFAULTS)}.
    """,
)
@click.argument("name")
@click.argument("features", metavar="[KEY=VALUE]...", nargs=-1)
@json_option
@hub_option
@admin_options
def set_rules(
    admin: AdminClient, hub: str, name: str, features: tuple[str, ...], as_json: bool
) -> None:
    path = {"hub": hub, "rules": name}
    before = admin.find("getRules", path)
    wanted = assign(before.value if before else {}, features, _DEFAULTS)
    put = admin.call("putRules", path, body=wanted, over=before, new=before is None)
    show_entry(put, as_json)


add(
    rules, "delete", "deleteRules", "Delete RULES, which nothing may use any more.",
)  # fmt: skip
