"""The rarer envelope fields as options of `hubbub publish`, `hubbub put` and `put` in `hubbub
shell`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import click
import msgspec

from hubbub.client import PublishEnvelope
from hubbub.domain.envelope import HIGHEST_PRIORITY, NUMBERS, OBJECTS, TEXTS


class JsonObject(click.ParamType[dict[str, Any]]):
    name = "JSON"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        try:
            return msgspec.json.decode(value, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
            self.fail(f'{value[:60]!r} is no JSON object, like {{"key": 1}}: {error}', param, ctx)


_HELP = {
    "subtype": "A finer name for what the message is.",
    "author": "Who wrote it.",
    "sender": "Who sends it; another than yourself only with a service's token.",
    "receiver": "Whom it is for.",
    "conversation_id": "The conversation that it belongs to.",
    "refers_to": "The id of the message that it answers.",
    "language": "Such as `en`.",
    "delivery_policy": "How receivers are to handle it.",
    "priority": f"0 (lowest) to {HIGHEST_PRIORITY}.",
    "relevant_until": "In ms since 1970; informs only.",
    "ttl": "In ms, after which nobody gets it any more; 0: no limit.",
    "location": 'A JSON object, such as \'{"lat": 48.1, "lng": 11.6}\'.',
    "headers": "A JSON object with whatever you like.",
}


def envelope_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Passes the given envelope fields to a command as `envelope`."""

    @functools.wraps(command)
    def with_envelope(**arguments: Any) -> Any:
        envelope: dict[str, Any] = {}
        for name in (*_HELP, "security_token"):
            value = arguments.pop(name)
            if value is not None:
                envelope[name] = value
        return command(envelope=envelope, **arguments)

    wrapped: Callable[..., Any] = click.option(
        "--security-token",
        envvar="HUBBUB_SECURITY_TOKEN",
        show_envvar=True,
        help="For features of the hub that ask for one; nobody gets to see it.",
    )(with_envelope)
    for name in reversed((*TEXTS, *NUMBERS, *OBJECTS)):
        kind: Any = str
        if name in NUMBERS:
            kind = click.IntRange(0, NUMBERS[name])
        elif name in OBJECTS:
            kind = JsonObject()
        metavar = None if name in OBJECTS else "N" if name in NUMBERS else "TEXT"
        option = click.option(
            f"--{name.replace('_', '-')}", name, type=kind, metavar=metavar, help=_HELP[name]
        )
        wrapped = option(wrapped)
    return wrapped


@click.command(add_help_option=False)
@envelope_options
def _parse(envelope: PublishEnvelope) -> PublishEnvelope:
    return envelope


def parse_envelope(options: list[str]) -> PublishEnvelope:
    """Parses options such as `--ttl 5000`. Raises `click.UsageError`."""
    return cast(PublishEnvelope, _parse.main(options, "put", standalone_mode=False))
