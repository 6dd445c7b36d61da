"""`hubbub journal replay`: publish a slice of the journal again."""

from __future__ import annotations

from pathlib import Path

import click

from hubbub.cli.failures import FAILED, WRONG, fail, run
from hubbub.cli.journal.options import existing, journal_command
from hubbub.cli.messages.options import Trust, token_option, trust_options, url_option
from hubbub.cli.tables import answer, json_option
from hubbub.cli.times import Moment
from hubbub.domain.names import check_name

MAX, ORIGINAL = "max", "original"


def _speed(_context: click.Context, _option: click.Parameter, value: str) -> float | None:
    """A factor; None for full speed."""
    if value == MAX:
        return None
    try:
        factor = 1.0 if value == ORIGINAL else float(value)
    except ValueError:
        factor = 0.0
    if not 0 < factor < 1e6:
        raise click.BadParameter(f"{value!r} is not original, max, or a factor such as 10")
    return factor


@click.command()
@click.option("--hub", required=True, envvar="HUBBUB_HUB", help="The hub whose messages to take.")
@click.option("--channel", required=True, help="The channel whose messages to take.")
@click.option("--from", "since", metavar="TIME", type=Moment(), help="From this time on.")
@click.option("--until", metavar="TIME", type=Moment(), help="Before this time.")
@click.option("--into", required=True, metavar="CHANNEL", help="The channel to publish them to.")
@click.option("--into-hub", metavar="HUB", help="Its hub, if it is another one.")
@click.option(
    "--speed",
    callback=_speed,
    default=MAX,
    show_default=True,
    help="`original`, `max`, or a factor.",
)
@click.option("--store/--no-store", default=None, help="Keep them or not; else as they were.")
@click.option("--again", is_flag=True, help="Also what an earlier replay has sent there.")
@click.option("--same-channel", is_flag=True, help="Allow to publish to where they came from.")
@click.option("--dry-run", is_flag=True, help="Only say what would be sent.")
@url_option
@token_option
@trust_options
@json_option
@journal_command
def replay(
    journal: Path,
    hub: str,
    channel: str,
    since: int | None,
    until: int | None,
    into: str,
    into_hub: str | None,
    speed: float | None,
    store: bool | None,
    again: bool,
    same_channel: bool,
    dry_run: bool,
    url: str,
    token: str | None,
    trust: Trust,
    as_json: bool,
) -> None:
    """Publish messages of the journal again, into a channel of a running hub.

    What was sent and acknowledged is written down: a replay that is repeated sends the rest.
    """
    from hubbub.cli.journal.replaying import Replay, ReplayTarget
    from hubbub.journal.sealing import seal_all
    from hubbub.journal.slices import JournalSlice, channels_of, read_slice

    target = ReplayTarget(
        url=url,
        hub=into_hub or hub,
        channel=check_name(into, "channel"),
        token=token,
        tls=trust.context(url),
    )
    if since is not None and until is not None and since >= until:
        fail("--from is not before --until: there is nothing between them", WRONG)
    if (target.hub, into) == (hub, channel) and not same_channel:
        fail(
            f"the messages come from {channel!r} itself, and would be journalled there once more;"
            " give another channel, or --same-channel if that is meant",
            WRONG,
        )
    seal_all(existing(journal))
    messages = read_slice(journal, JournalSlice(hub=hub, channel=channel, since=since, until=until))
    if not messages:
        fail(_nothing(hub, channel, channels_of(journal, hub)), FAILED)
    plan = Replay(journal, messages, target, speed=speed, store=store, again=again)
    if not dry_run:
        run(plan.send())
    answer(plan.report(), plan.describe(dry_run), as_json)
    if plan.stopped is not None:
        fail(plan.stopped, FAILED)


def _nothing(hub: str, channel: str, known: list[str]) -> str:
    if channel in known:
        return f"the journal has no messages of {channel!r} in that time"
    if not known:
        return f"the journal has no messages of the hub {hub!r}"
    some = ", ".join(known[:10]) + (" …" if len(known) > 10 else "")
    return f"the journal has no messages of {channel!r}; of {hub!r} it has {some}"
