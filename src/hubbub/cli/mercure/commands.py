"""`hubbub mercure`: the keys that verify the tokens of Mercure's clients."""

from __future__ import annotations

import click

from hubbub.cli.administration.commands import add


@click.group()
def mercure() -> None:
    """See, set and delete the keys that verify tokens of Mercure."""


add(
    mercure, "keys", "listMercureKeys", "List the keys, without the secrets.",
    columns={
        "KEY": "name",
        "ALGORITHM": lambda each: each["value"]["algorithm"],
        "PUBLISH": lambda each: each["value"]["publish"],
        "SUBSCRIBE": lambda each: each["value"]["subscribe"],
    },
    nothing="the hub {hub!r} has no key for Mercure",
)  # fmt: skip
add(mercure, "set-key", "putMercureKey", "Create or replace KEY.")
add(
    mercure, "delete-key", "deleteMercureKey",
    "Delete KEY; streams with tokens that it verified end at once.",
    question="Delete the key {key!r} of the hub {hub!r}?",
)  # fmt: skip
