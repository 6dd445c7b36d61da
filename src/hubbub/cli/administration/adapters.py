"""`hubbub adapters`: the ways by which a hub reaches peers and hears from them."""

from __future__ import annotations

import click
import msgspec

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.commands import add_removal, add_show
from hubbub.cli.administration.options import admin_options, json_lines_option
from hubbub.cli.messages.options import hub_option
from hubbub.cli.numbers import FiniteRange
from hubbub.cli.tables import Columns, json_option, local_time, show_entry, show_list
from hubbub.domain.errors import BadRequest

_COLUMNS: Columns = {
    "ADAPTER": "name",
    "DIRECTION": lambda each: each.get("direction"),
    "WAITING": lambda each: each.get("waiting", 0),
    "DONE": lambda each: each.get("delivered", 0),
    "FAILED": lambda each: each.get("failed", 0),
    "LAST ERROR": lambda each: _error(each),
}


def _error(status: dict[str, object]) -> str | None:
    """Without a time where the adapter cannot be used as it is set up."""
    text, at = status.get("last_error"), status.get("last_error_at")
    if not text:
        return None
    return f"{local_time(at)} {text}" if isinstance(at, int) else str(text)


@click.group()
def adapters() -> None:
    """The ways by which a hub reaches people and tools, and hears from them."""


@adapters.command("list")
@json_lines_option
@hub_option
@admin_options
def list_adapters(admin: AdminClient, hub: str, as_json: bool) -> None:
    """List the adapters with what waits for them, and their last errors."""
    found = admin.get("hubs", hub, "adapter-status")["items"]
    show_list(found, _COLUMNS, f"the hub {hub!r} has no adapters", as_json)


add_show(adapters, "adapters/{name}", "Show the settings of the adapter NAME.")
add_removal(
    adapters, "delete", "adapters/{name}", "Delete the adapter {name!r} of the hub {hub!r}?",
    "Delete the adapter NAME. What waits for it is still sent.",
)  # fmt: skip


@adapters.command("set")
@click.argument("name")
@click.argument("kind")
@click.argument("settings", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--secret", "secrets", multiple=True, metavar="KEY=VALUE", help="Shown to nobody.")
@click.option(
    "--every", "interval", type=FiniteRange(min=0, min_open=True), metavar="SECONDS",
    help="How often it is pulled; without it, only on request.",
)  # fmt: skip
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
    as_json: bool,
) -> None:
    """Create or replace the adapter NAME of a KIND such as `email`, with its settings."""
    body = {
        "kind": kind,
        "settings": {key: _value(text) for key, text in map(_pair, settings)},
        "secrets": dict(map(_pair, secrets)),
        "intervalMs": None if interval is None else max(1, round(interval * 1000)),
    }
    show_entry(admin.put("hubs", hub, "adapters", name, body=body), as_json)


@adapters.command()
@click.argument("name")
@hub_option
@admin_options
def pull(admin: AdminClient, hub: str, name: str) -> None:
    """Have the input adapter NAME look for messages now."""
    admin.post("hubs", hub, "adapters", name, "pull")


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise BadRequest(f"{text!r} is not KEY=VALUE")
    return key, value


def _value(text: str) -> object:
    """Numbers, on and off as JSON has them; everything else is a text."""
    try:
        found: object = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return found if isinstance(found, bool | int | float | dict | list) else text
