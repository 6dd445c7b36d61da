"""`hubbub peers`: people and services, and how they want to be reached."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from typing import Any, TextIO

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.commands import add_list, add_removal, add_show
from hubbub.cli.administration.options import (
    admin_options,
    confirm,
    json_lines_option,
    yes_option,
)
from hubbub.cli.messages.following import FOLLOWED, start_option
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Columns, json_option, local_time, show_entry, show_list
from hubbub.domain.errors import BadRequest

_AT_ONCE = 1000
_LONGEST_CELL = 128 * 1024
_POLICIES = ("TO_ALL_CHANNELS", "AT_LEAST_ONE", "PREFERRED")


def _addresses(peer: dict[str, Any]) -> list[str]:
    found = peer["peer"]["addresses"]
    return [" ".join([each["adapter"], *each["parameters"]]) for each in found]


_COLUMNS: Columns = {
    "PEER": "id",
    "POLICY": lambda peer: peer["peer"]["policy"],
    "ADDRESSES": _addresses,
}

_DEAD_COLUMNS: Columns = {
    "KEY": "key",
    "GIVEN UP": lambda dead: local_time(dead["at"]),
    "PEER": "peer",
    "BY": lambda dead: " ".join([dead["adapter"], *dead["parameters"]]),
    "WHY": "reason",
}


@click.group()
def peers() -> None:
    """People and services, and how they want to be reached."""


add_list(peers, "peers", _COLUMNS, "the hub {hub!r} has no peers", "List the peers of a hub.")
add_show(peers, "peers/{peer}", "Show how PEER is reached.")
add_removal(
    peers, "delete", "peers/{peer}", "Delete the peer {peer!r} of the hub {hub!r}?",
    "Delete PEER, who leaves all collectives.",
)  # fmt: skip


add_list(
    peers, "dead-deliveries", _DEAD_COLUMNS, "the hub {hub!r} has no dead deliveries",
    "List the copies of messages that could not be delivered.", name="dead",
)  # fmt: skip


@peers.command("replay")
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@hub_option
@admin_options
def replay(admin: AdminClient, hub: str, keys: tuple[str, ...]) -> None:
    """Try the dead deliveries KEY once more; without a key, the oldest 500."""
    body = {"keys": list(keys)}
    tried = admin.post("hubs", hub, "dead-deliveries", "replay", body=body)["tried"]
    click.echo(f"{tried} tried again")


@peers.command("discard")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@yes_option
@hub_option
@admin_options
def discard(admin: AdminClient, hub: str, keys: tuple[str, ...], yes: bool) -> None:
    """Delete the dead deliveries KEY for good."""
    confirm(f"Delete {len(keys)} dead deliveries of the hub {hub!r}?", yes)
    body = {"keys": list(keys)}
    done = admin.post("hubs", hub, "dead-deliveries", "discard", body=body)["discarded"]
    click.echo(f"{done} deleted")


@peers.command("follow")
@click.argument("peer")
@click.argument("channel")
@start_option
@json_option
@hub_option
@admin_options
def follow(
    admin: AdminClient, hub: str, peer: str, channel: str, start: str, as_json: bool
) -> None:
    """Send PEER the messages of CHANNEL, which stores them, as PEER is reached."""
    path = ("hubs", hub, "peers", peer, "subscriptions", channel)
    show_entry(admin.put(*path, start=start), as_json)


@peers.command("followed")
@click.argument("peer")
@json_lines_option
@hub_option
@admin_options
def followed(admin: AdminClient, hub: str, peer: str, as_json: bool) -> None:
    """List the channels that PEER follows, and how many of their messages wait."""
    found = admin.pages("hubs", hub, "peers", peer, "subscriptions")
    show_list(found, FOLLOWED, f"the peer {peer!r} follows no channel", as_json)


@peers.command("unfollow")
@click.argument("peer")
@click.argument("channel")
@hub_option
@admin_options
def unfollow(admin: AdminClient, hub: str, peer: str, channel: str) -> None:
    """Send PEER nothing more of CHANNEL."""
    admin.delete("hubs", hub, "peers", peer, "subscriptions", channel)
    click.echo(f"{peer} follows {channel} no longer")


@peers.command("set")
@click.argument("peer")
@click.argument("addresses", metavar="[ADAPTER:PARAMETER]...", nargs=-1)
@click.option("--policy", type=click.Choice(_POLICIES), default=_POLICIES[0], show_default=True)
@json_option
@hub_option
@admin_options
def set_peer(
    admin: AdminClient,
    hub: str,
    peer: str,
    addresses: tuple[str, ...],
    policy: str,
    as_json: bool,
) -> None:
    """Say how PEER is reached, in the order of preference: `email:ann@example.org`.

    An adapter without a parameter is its name alone.
    """
    body = {"addresses": [_address(each) for each in addresses], "policy": policy}
    show_entry(admin.put("hubs", hub, "peers", peer, body=body), as_json)


@peers.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8-sig"))
@hub_option
@admin_options
def import_peers(admin: AdminClient, hub: str, file: TextIO) -> None:
    """Create or replace peers from FILE, a CSV file (`-`: standard input).

    Its first line names the columns: `peer`, optionally `policy`, and adapters by their names. A
    cell of an adapter is the address there, or several with a semicolon between; an empty one is
    none. The order of the columns is the order of preference.
    """
    batch: list[dict[str, Any]] = []
    done = 0
    try:
        for entry in _read(file):
            batch.append(entry)
            if len(batch) == _AT_ONCE:
                done = _send(admin, hub, batch, done)
    except UnicodeDecodeError:
        raise BadRequest(f"{file.name} is not encoded in UTF-8; save it so") from None
    except csv.Error as error:
        raise BadRequest(f"{file.name} is no CSV file: {error}") from None
    if batch:
        done = _send(admin, hub, batch, done)
    click.echo(f"{done} peers")


def _send(admin: AdminClient, hub: str, batch: list[dict[str, Any]], done: int) -> int:
    admin.post("hubs", hub, "peers", body={"peers": batch})
    done += len(batch)
    batch.clear()
    if sys.stderr.isatty():
        click.echo(f"\r{done} peers", err=True, nl=False)
    return done


def _read(file: TextIO) -> Iterator[dict[str, Any]]:
    """Raises `BadRequest`, which names the line."""
    csv.field_size_limit(_LONGEST_CELL)  # of the whole process: others may have set it
    rows = csv.reader(file)
    columns = [name.strip() for name in next(rows, [])]
    if columns.count("peer") != 1 or len(set(columns)) != len(columns) or "" in columns:
        raise BadRequest(
            "the first line must name the columns, each once and one of them `peer`, such as "
            "peer,policy,email,matrix"
        )
    for cells in rows:
        if not any(cells):
            continue
        if len(cells) != len(columns):
            raise BadRequest(
                f"line {rows.line_num} has {len(cells)} cells, and the first one {len(columns)}"
            )
        row = dict(zip(columns, (cell.strip() for cell in cells), strict=True))
        peer, policy = row.pop("peer"), row.pop("policy", "") or _POLICIES[0]
        if not peer or policy not in _POLICIES:
            raise BadRequest(
                f"line {rows.line_num} has no peer, or a policy that is none of "
                f"{', '.join(_POLICIES)}"
            )
        yield {"id": peer, "peer": {"addresses": _cells(row), "policy": policy}}


def _cells(row: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"adapter": adapter, "parameters": [each.strip()]}
        for adapter, cell in row.items()
        for each in cell.split(";")
        if each.strip()
    ]


def _address(text: str) -> dict[str, Any]:
    adapter, _, parameter = text.partition(":")
    return {"adapter": adapter, "parameters": [parameter] if parameter else []}
