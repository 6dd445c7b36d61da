"""The option `--zeromq ENDPOINT` of topic commands."""

from __future__ import annotations

import logging

import click

from hubbub.cli.messages.options import Notes
from hubbub.client.zeromq import ZeroMqTopics

_notes = Notes()
TRIES = 3
"""How often a command sends a request before it gives up."""

zeromq_option = click.option(
    "--zeromq",
    metavar="ENDPOINT",
    help="Over ZeroMQ, such as tcp://127.0.0.1:8001; sent again after 10 s without an answer.",
)


def zeromq_client(endpoint: str) -> ZeroMqTopics:
    """A client with the hub and token of the command."""
    logging.getLogger("hubbub.client.zeromq").addHandler(_notes)
    given = click.get_current_context().params
    return ZeroMqTopics(endpoint, hub=given["hub"], token=given["token"], tries=TRIES)
