"""The option `--where`: a condition as text, with errors that mark the position."""

from __future__ import annotations

from typing import Any

import click

from hubbub.client.filters import definition_of
from hubbub.domain.errors import InvalidFilter


class ConditionType(click.ParamType[dict[str, Any]]):
    """A condition such as `payload.price lt 10 and event eq "sale"`."""

    name = "condition"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        try:
            return definition_of("where", str(value)).condition or {}
        except InvalidFilter as error:
            self.fail(_pointed(error, str(value)), param, ctx)


def _pointed(error: InvalidFilter, text: str) -> str:
    place = error.details.get("position")
    if place is None:
        return error.message
    line = " ".join(text.split("\n"))
    return f"{error.message}\n  {line}\n  {' ' * place}^"


where_option = click.option(
    "--where",
    type=ConditionType(),
    metavar="CONDITION",
    help="Only messages that meet it, like 'payload.price lt 10 and event eq \"sale\"'.",
)
