"""The command `hubbub`: all its parts in one place."""

from __future__ import annotations

import click

from hubbub import __version__
from hubbub.cli.backup import backup, restore
from hubbub.cli.bench import bench
from hubbub.cli.calling import call, submit
from hubbub.cli.channels import channels
from hubbub.cli.completion import completion
from hubbub.cli.getting import get
from hubbub.cli.hubs import hubs
from hubbub.cli.journal import journal
from hubbub.cli.namespaces import namespaces
from hubbub.cli.pipeline import pipeline
from hubbub.cli.pipeline_results import report, show
from hubbub.cli.publishing import publish
from hubbub.cli.putting import put
from hubbub.cli.reading import history, presence, subscribe
from hubbub.cli.rules import rules
from hubbub.cli.serving import config_group, serve
from hubbub.cli.sessions import sessions
from hubbub.cli.shell import shell
from hubbub.cli.stats import stats
from hubbub.cli.subscriptions import subscriptions
from hubbub.cli.tokens import token
from hubbub.cli.topics import ack, topics, unsubscribe
from hubbub.cli.webhooks import webhooks


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hubbub")
def main() -> None:
    """One message hub for applications, services, devices and people."""


_TALKING = (publish, subscribe, history, presence, call, submit)
_FETCHING = (put, get, ack, topics, unsubscribe, shell)
_ADMINISTERING = (hubs, channels, rules, namespaces, sessions, subscriptions, webhooks, stats)
_RUNNING = (serve, config_group, token, backup, restore, journal, pipeline, bench, completion)

for command in (*_TALKING, *_FETCHING, *_ADMINISTERING, *_RUNNING):
    main.add_command(command)
for command in (show, report):
    pipeline.add_command(command)


if __name__ == "__main__":
    main()
