"""The command `hubbub`: all its parts in one place."""

from __future__ import annotations

import click

from hubbub import __version__
from hubbub.cli.administration.channels import channels
from hubbub.cli.administration.documents import document
from hubbub.cli.administration.hubs import hubs
from hubbub.cli.administration.namespaces import namespaces
from hubbub.cli.administration.notifications import notifications
from hubbub.cli.administration.push import push
from hubbub.cli.administration.rules import rules
from hubbub.cli.administration.sessions import sessions
from hubbub.cli.administration.stats import stats
from hubbub.cli.administration.subscriptions import subscriptions
from hubbub.cli.administration.users import users
from hubbub.cli.administration.webhooks import webhooks
from hubbub.cli.completion import completion
from hubbub.cli.journal import journal
from hubbub.cli.messages.calling import call, submit
from hubbub.cli.messages.commanding import command
from hubbub.cli.messages.getting import get
from hubbub.cli.messages.publishing import publish
from hubbub.cli.messages.putting import put
from hubbub.cli.messages.reading import history, presence, subscribe
from hubbub.cli.messages.shell import shell
from hubbub.cli.messages.threads import threads
from hubbub.cli.messages.topics import ack, topics, unsubscribe
from hubbub.cli.pipeline import pipeline
from hubbub.cli.pipeline_queries import COMMANDS as QUERIES
from hubbub.cli.pipeline_results import report, show
from hubbub.cli.pipeline_upkeep import compact, prune, vacuum
from hubbub.cli.server.backup import backup, restore
from hubbub.cli.server.bench import bench
from hubbub.cli.server.plugins import plugin
from hubbub.cli.server.serving import config_group, serve
from hubbub.cli.server.tokens import token


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hubbub")
def main() -> None:
    """One message hub for applications, services, devices and people."""


_TALKING = (publish, subscribe, history, threads, presence, document, call, submit, command)
_FETCHING = (put, get, ack, topics, unsubscribe, shell)
_ADMINISTERING = (
    hubs, channels, rules, namespaces, sessions, subscriptions, notifications, users, webhooks,
    push, stats,
)  # fmt: skip
_RUNNING = (
    serve, config_group, token, plugin, backup, restore, journal, pipeline, bench, completion,
)  # fmt: skip

for each in (*_TALKING, *_FETCHING, *_ADMINISTERING, *_RUNNING):
    main.add_command(each)
for each in (show, report, compact, prune, vacuum, *QUERIES):
    pipeline.add_command(each)


if __name__ == "__main__":
    main()
