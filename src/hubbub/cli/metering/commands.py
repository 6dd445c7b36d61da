"""`hubbub metering`: what a server or a hub did, by five minutes and longer, over restarts."""

from __future__ import annotations

import time
from typing import Any

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.options import admin_options
from hubbub.cli.tables import Columns, json_option, local_time, show_entry, show_list
from hubbub.cli.times import Duration

_COLUMNS: Columns = {
    "TIME": lambda each: local_time(each["at"] * 1000),
    "MESSAGES IN": "messagesIn",
    "OUT": "messagesOut",
    "BYTES IN": "bytesIn",
    "BYTES OUT": "bytesOut",
    "SESSIONS": "sessionsOpened",
    "MEAN SECONDS": lambda each: mean_seconds(each),
    "ACTIVE SESSIONS": "activeSessions",
    "CHANNELS": "activeChannels",
    "HUBS": "activeHubs",
}
_HOURS: Columns = {
    "HOUR (UTC)": "hour",
    "SESSIONS": "sessions",
    "MEAN SECONDS": lambda each: mean_seconds(each),
}


def mean_seconds(each: dict[str, Any]) -> float | None:
    """How long those sessions lasted that have ended; None if none has."""
    ended = each.get("sessionsEnded", each.get("ended"))
    return round(each["sessionUs"] / 1e6 / ended, 1) if ended else None


@click.command()
@click.option("--hub", envvar="HUBBUB_HUB", show_envvar=True, help="Of one hub; else of all.")
@click.option("--last", type=Duration(), default="24h", show_default=True, help="How far back.")
@click.option("--step", type=Duration(), default="1h", show_default=True, help="From 5m on.")
@click.option("--total", is_flag=True, help="What the hub did since it exists.")
@click.option("--hours", is_flag=True, help="Sessions by hour of the day.")
@json_option
@admin_options
def metering(
    admin: AdminClient,
    hub: str | None,
    last: float,
    step: float,
    total: bool,
    hours: bool,
    as_json: bool,
) -> None:
    """Show the counters that survive a restart. The last minute is not in them yet."""
    where = {} if hub is None else {"hub": hub}
    found = admin.call(
        "getAllKeptCounters" if hub is None else "getKeptCounters",
        where,
        since=int(time.time() - last),
        step=int(step),
    )
    if total:
        show_entry({**found["total"], "meanSeconds": mean_seconds(found["total"])}, as_json)
    elif hours:
        show_list(found["hours"], _HOURS, "no sessions in this time", json=as_json)
    else:
        show_list(found["steps"], _COLUMNS, "nothing happened in this time", json=as_json)
