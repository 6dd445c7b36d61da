"""`hubbub journal`: look after the record of what happened."""

from __future__ import annotations

import click

from hubbub.cli.journal.archive import pull, push
from hubbub.cli.journal.erase import erase
from hubbub.cli.journal.importing import import_command
from hubbub.cli.journal.replay import replay
from hubbub.cli.journal.show import seal, segments, show
from hubbub.cli.journal.upkeep import compact, prune


@click.group()
def journal() -> None:
    """Look into the journal, import into it, replay from it, look after it."""


for command in (show, segments, seal, import_command, replay, compact, prune, erase, push, pull):
    journal.add_command(command)
