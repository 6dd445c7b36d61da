"""`hubbub peers`: people and services, and their addresses."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from typing import Any, TextIO, get_args

import click
import msgspec

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.commands import add
from hubbub.cli.administration.options import admin_options
from hubbub.cli.failures import WRONG, fail
from hubbub.cli.messages.following import FOLLOWED
from hubbub.cli.messages.options import hub_option
from hubbub.cli.tables import Columns, json_option, local_time, show_entry
from hubbub.domain.communication.peers import PeerPolicy
from hubbub.domain.errors import BadRequest

_AT_ONCE = 1000
_LONGEST_CELL = 128 * 1024
_POLICIES = get_args(PeerPolicy)


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


add(peers, "list", "listPeers", columns=_COLUMNS)
add(peers, "show", "getPeer", "Show how PEER is reached.")
add(
    peers, "delete", "deletePeer", "Delete PEER, who leaves all collectives.",
)  # fmt: skip
add(
    peers, "dead", "listDeadDeliveries",
    "List the copies of messages that could not be delivered.", columns=_DEAD_COLUMNS,
    nothing="the hub {hub!r} has no dead deliveries",
)  # fmt: skip
add(
    peers, "follow", "putPeerSubscription",
    "Send PEER the messages of CHANNEL, which stores them, as PEER is reached.",
)  # fmt: skip
add(
    peers, "followed", "listPeerSubscriptions",
    "List the channels that PEER follows, and how many of their messages wait.",
    columns=FOLLOWED, nothing="the peer {peer!r} follows no channel",
)  # fmt: skip
add(
    peers, "unfollow", "deletePeerSubscription", "Send PEER nothing more of CHANNEL.",
    question=None, done="{peer} follows {channel} no longer",
)  # fmt: skip


add(
    peers, "replay", "replayDeadDeliveries",
    "Try the dead deliveries KEY once more; without a key, the oldest 500.",
    done="{tried} tried again",
    arguments={"keys": click.argument("given_keys", metavar="[KEY]...", nargs=-1)}, only=["keys"],
)  # fmt: skip
add(
    peers, "discard", "discardDeadDeliveries", "Delete the dead deliveries KEY for good.",
    question="Delete these dead deliveries of the hub {hub!r} for good?",
    done="{discarded} deleted",
    arguments={"keys": click.argument("given_keys", metavar="KEY...", nargs=-1, required=True)},
    only=["keys"],
)  # fmt: skip


@peers.command("set")
@click.argument("peer")
@click.argument("addresses", metavar="[ADAPTER:PARAMETER]...", nargs=-1)
@click.option(
    "--policy", type=click.Choice(_POLICIES),
    help=f"Without it as before; {_POLICIES[0]} for a new one.",
)  # fmt: skip
@click.option(
    "--next-after-ms", type=click.IntRange(1, 86_400_000 * 30),
    help="With IN_ORDER: when the next address begins without an acknowledgement; else 60000.",
)  # fmt: skip
@click.option(
    "--privacy", multiple=True, metavar="JSON",
    help="Such as '{\"effect\": \"deny\", \"types\": [\"ALARM\"]}'; replaces all policies.",
)  # fmt: skip
@click.option("--no-privacy", is_flag=True, help="No privacy policies any more.")
@json_option
@hub_option
@admin_options
def set_peer(
    admin: AdminClient,
    hub: str,
    peer: str,
    addresses: tuple[str, ...],
    policy: str | None,
    next_after_ms: int | None,
    privacy: tuple[str, ...],
    no_privacy: bool,
    as_json: bool,
) -> None:
    """Say how PEER is reached, in the order of preference: `email:ann@example.org`.

    An adapter without a parameter is its name alone; one with several is a list in JSON:
    '["ftp", "ftp.example.org", "/in"]'. What is not said here stays as it is.
    """
    if privacy and no_privacy:
        fail("give --privacy or --no-privacy, not both", WRONG)
    fields = {
        "addresses": [_address(each) for each in addresses],
        "policy": policy,
        "nextAfterMs": next_after_ms,
        "privacy": [_decoded("--privacy", each) for each in privacy]
        or ([] if no_privacy else None),
    }
    path = {"hub": hub, "peer": peer}
    show_entry(admin.put_fields("putPeer", path, fields), as_json)


@peers.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8-sig"))
@hub_option
@admin_options
def import_peers(admin: AdminClient, hub: str, file: TextIO) -> None:
    """Create or replace peers from FILE, a CSV file (`-`: standard input).

    Its first line names the columns: `peer`, optionally `policy`, and adapters by their names. A
    cell of an adapter is the address there, or several with a semicolon between; an empty one is
    none. The order of the columns is the order of preference. What the table does not say of a
    peer, such as privacy policies, stays as it is.
    """
    known = {
        each["id"]: each["peer"]
        for each in admin.pages("listPeers", {"hub": hub})
        if _has_more(each)
    }
    batch: list[dict[str, Any]] = []
    done = 0
    try:
        for entry in _read(file):
            whole = {**known.get(entry["id"], {}), **entry["peer"]}
            batch.append({"id": entry["id"], "peer": whole})
            if len(batch) == _AT_ONCE:
                done = _send(admin, hub, batch, done)
    except UnicodeDecodeError:
        raise BadRequest(f"{file.name} is not encoded in UTF-8; save it so") from None
    except csv.Error as error:
        raise BadRequest(f"{file.name} is no CSV file: {error}") from None
    if batch:
        done = _send(admin, hub, batch, done)
    click.echo(f"{done} peers")


def _has_more(entry: dict[str, Any]) -> bool:
    """Whether the peer has data that a table need not show."""
    peer = entry["peer"]
    return bool(peer["privacy"]) or peer["policy"] != _POLICIES[0] or "nextAfterMs" in peer


def _send(admin: AdminClient, hub: str, batch: list[dict[str, Any]], done: int) -> int:
    admin.call("putPeers", {"hub": hub}, body={"peers": batch})
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
        peer, policy = row.pop("peer"), row.pop("policy", "")
        if not peer or policy not in ("", *_POLICIES):
            raise BadRequest(
                f"line {rows.line_num} has no peer, or a policy that is none of "
                f"{', '.join(_POLICIES)}"
            )
        more = {"policy": policy} if policy else {}
        yield {"id": peer, "peer": {"addresses": _cells(row), **more}}


def _cells(row: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"adapter": adapter, "parameters": [each.strip()]}
        for adapter, cell in row.items()
        for each in cell.split(";")
        if each.strip()
    ]


def _address(text: str) -> dict[str, Any]:
    if text.startswith("["):
        found = _decoded("ADAPTER", text)
        if not found or not all(isinstance(each, str) for each in found):
            fail(f"{text} is not a list of an adapter and its parameters", WRONG)
        return {"adapter": found[0], "parameters": found[1:]}
    adapter, _, parameter = text.partition(":")
    return {"adapter": adapter, "parameters": [parameter] if parameter else []}


def _decoded(what: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        fail(f"{what} {text!r} is not JSON: {error}", WRONG)
