"""`hubbub adapters`: the ways by which a hub reaches peers and hears from them."""

from __future__ import annotations

import click
import msgspec

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.commands import add
from hubbub.cli.administration.options import admin_options
from hubbub.cli.messages.options import hub_option
from hubbub.cli.numbers import FiniteRange
from hubbub.cli.pairs import pair
from hubbub.cli.tables import Columns, json_option, local_time, show_entry

_COLUMNS: Columns = {
    "ADAPTER": "name",
    "DIRECTION": lambda each: each.get("direction"),
    "WAITING": lambda each: each.get("waiting", 0),
    "DONE": lambda each: each.get("delivered", 0),
    "FAILED": lambda each: each.get("failed", 0),
    "LAST ERROR": lambda each: _error(each),
}


def _error(status: dict[str, object]) -> str | None:
    """The error of an unusable configuration has no time."""
    text, at = status.get("last_error"), status.get("last_error_at")
    if not text:
        return None
    return f"{local_time(at)} {text}" if isinstance(at, int) else str(text)


@click.group()
def adapters() -> None:
    """The ways by which a hub reaches people and tools, and hears from them."""


add(
    adapters, "list", "listAdapterStatuses", "List the adapters with what waits for them, and "
    "their last errors.", columns=_COLUMNS, nothing="the hub {hub!r} has no adapters",
)  # fmt: skip
add(adapters, "show", "getAdapter")
add(
    adapters, "delete", "deleteAdapter", "Delete ADAPTER. What waits for it is still sent.",
)  # fmt: skip
add(adapters, "pull", "pullAdapter", "Have the input adapter ADAPTER look for messages now.")


@adapters.command("set")
@click.argument("name")
@click.argument("kind")
@click.argument("settings", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--secret", "secrets", multiple=True, metavar="KEY=VALUE", help="Shown to nobody.")
@click.option(
    "--every", "interval", type=FiniteRange(min=0, min_open=True), metavar="SECONDS",
    help="How often it is pulled; without it, only on request.",
)  # fmt: skip
@click.option(
    "--awaits", metavar="ID", help="Pulled with --every: the message whose reply it looks for."
)
@json_option
@hub_option
@admin_options
def set_adapter(
    admin: AdminClient,
    hub: str,
    name: str,
    kind: str,
    settings: tuple[str, ...],
    secrets: tuple[str, ...],
    interval: float | None,
    awaits: str | None,
    as_json: bool,
) -> None:
    """Create or replace the adapter NAME of a KIND such as `email`, with its settings.

    What is not said here, such as `maxParallel`, stays where the kind stays.
    """
    fields = {
        "kind": kind,
        "settings": {key: _value(text) for key, text in map(pair, settings)},
        "secrets": dict(map(pair, secrets)),
        "intervalMs": None if interval is None else max(1, round(interval * 1000)),
    }
    path = {"hub": hub, "adapter": name}
    before = admin.find("getAdapter", path)
    kept = before.value if before is not None and before.value["kind"] == kind else {}
    if interval is None:
        kept = {key: value for key, value in kept.items() if key != "awaits"}
    given = {} if awaits is None else {"awaits": awaits}
    body = {**kept, **fields, **given}
    show_entry(admin.call("putAdapter", path, body=body, over=before), as_json)


def _value(text: str) -> object:
    """Numbers and booleans in JSON syntax; all else is a text."""
    try:
        found: object = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return found if isinstance(found, bool | int | float | dict | list) else text
