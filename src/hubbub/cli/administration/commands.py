"""Commands that follow from the operations of the admin API: names in the path are arguments,
parameters of the query and fields of the body are options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.operations import AdminOperation, Field, operations, reader_of
from hubbub.cli.administration.options import admin_options, confirm, json_lines_option, yes_option
from hubbub.cli.failures import WRONG, fail
from hubbub.cli.messages.options import hub_option
from hubbub.cli.numbers import FiniteRange
from hubbub.cli.printing import to_json
from hubbub.cli.tables import Columns, json_option, show_entry, show_list

Option = Callable[[Any], Any]
_TAKEN = frozenset(
    ["body", "cafile", "config", "data", "help", "hub", "insecure", "json", "token", "url", "yes"]
)
"""Names of options that commands have anyway."""
_whole_option = click.option(
    "--body", "whole", metavar="JSON", help="The whole body, or @FILE; options replace its fields."
)


def add(
    group: click.Group,
    name: str,
    operation_id: str,
    about: str = "",
    *,
    columns: Columns | None = None,
    nothing: str = "",
    question: str | None = "",
    done: str = "",
    prints: str = "",
    fixed: Mapping[str, Any] | None = None,
    arguments: Mapping[str, Option] | None = None,
    only: Sequence[str] | None = None,
) -> None:
    """Add the command of an operation.

    `about` replaces the summary. `columns` are those of a list, `nothing` is printed in place of an
    empty one. The command asks its `question`; a deletion has one, unless it is None. Afterwards
    `done` is printed, or the field of the answer that `prints` names, or the answer. `fixed` are
    fields of the body that are no options, `arguments` replace options and arguments by their
    names, and `only` names the parameters and fields that are options. Texts are formatted with the
    names in the path, `last` the last of them, with what is given, and `done` with the fields of
    the answer.
    """
    operation = operations()[operation_id]
    replaced, fixed = arguments or {}, fixed or {}
    deletes = operation.method == "DELETE" and question is not None
    asks = question or ("Delete {last!r}?" if deletes else None)
    if deletes and not operation.answers:
        done = done or f"{name.partition('-')[0]}d {{last}}"
    shown = columns or {_title(each): each for each in operation.columns or ()}
    fields = {
        each.name: each
        for each in (*operation.query, *operation.body)
        if each.name not in fixed and (only is None or each.name in only)
    }

    def run(
        admin: AdminClient,
        as_json: bool = False,
        yes: bool = False,
        whole: str | None = None,
        **given: Any,
    ) -> None:
        path = {each: str(given[_place(each)]) for each in operation.parameters}
        values = {
            each: _sent(field, given[_key(each)], each in replaced)
            for each, field in fields.items()
        }
        texts = {**values, **path, "last": next(reversed(path.values()), "")}
        if asks is not None:
            confirm(asks.format(**texts), yes)
        query = {each.name: values[each.name] for each in operation.query if each.name in fields}
        if operation.paged:
            entries = admin.pages(operation_id, path, **query)
            show_list(entries, shown, (nothing or _nothing(operation)).format(**texts), as_json)
            return
        body = _body(operation, whole, {**fixed, **values})
        if isinstance(body, dict) and operation.method == "PUT" and reader_of(operation):
            answer = admin.put_fields(operation_id, path, body, **query)
        else:
            answer = admin.call(operation_id, path, body=body, **query)
        if done:
            click.echo(done.format(**{**texts, **(answer or {})}))
        elif prints:
            click.echo(answer[prints])
        elif operation.columns is not None:
            show_list(answer["items"], shown, nothing.format(**texts), as_json)
        elif isinstance(answer, dict):
            show_entry(answer, as_json)
        elif answer is not None:
            click.echo(to_json(answer))

    command: Callable[..., None] = run
    options = [
        *(
            replaced.get(each) or click.argument(_place(each), metavar=each.upper())
            for each in operation.parameters
            if each != "hub" or each in replaced
        ),
        *(replaced.get(each) or _option(field, operation) for each, field in fields.items()),
        *([_whole_option] if operation.takes_body and only is None else ()),
        *([yes_option] if asks is not None else ()),
        *([_json_option(operation)] if operation.answers and not (done or prints) else ()),
        *([hub_option] if {"hub"} & set(operation.parameters) - replaced.keys() else ()),
        admin_options,
    ]
    for option in reversed(options):
        command = option(command)
    group.command(name, help=about or f"{operation.summary}.")(command)


def _json_option(operation: AdminOperation) -> Option:
    return json_option if operation.columns is None else json_lines_option


def _option(field: Field, operation: AdminOperation) -> Option:
    flag = _kebab(field.name)
    if flag in _TAKEN:
        flag = f"{operation.parameters[-1] if operation.parameters else 'the'}-{flag}"
    key, about = _key(field.name), field.about
    if field.kind == "flag":
        names = f"--{flag}" if field in operation.query else f"--{flag}/--no-{flag}"
        return click.option(names, key, is_flag=True, default=None, help=about)
    kinds: dict[str, Any] = {"whole": click.INT, "number": FiniteRange()}
    return click.option(
        f"--{flag}", key, multiple=field.kind == "texts", help=about,
        type=click.Choice(field.choices) if field.choices else kinds.get(field.kind),
        metavar="JSON" if field.kind == "json" else None,
    )  # fmt: skip


def _sent(field: Field, value: Any, is_argument: bool) -> Any:
    """A value as it is sent; None where the option is not given. A list of arguments is always
    given, also an empty one."""
    if value is None or (value == () and not is_argument):
        return None
    if field.kind == "json" and isinstance(value, str):
        return _json(field.name, value)
    return list(value) if field.kind == "texts" else value


def _body(operation: AdminOperation, whole: str | None, values: Mapping[str, Any]) -> Any:
    if not operation.takes_body:
        return None
    body = {} if whole is None else _json("--body", whole)
    names = {each.name for each in operation.body}
    given = {name: each for name, each in values.items() if name in names and each is not None}
    return {**body, **given} if isinstance(body, dict) else body


def _json(what: str, text: str) -> Any:
    try:
        return msgspec.json.decode(Path(text[1:]).read_bytes() if text[:1] == "@" else text)
    except (msgspec.DecodeError, OSError) as error:
        fail(f"{what} is not JSON: {error}", WRONG)


def _nothing(operation: AdminOperation) -> str:
    """`List the peers of a hub` finds that the hub has no peers."""
    noun = re.sub(r"^List (the |all |open )?| of a hub$", "", operation.summary)
    return f"the hub {{hub!r}} has no {noun}" if "hub" in operation.parameters else f"no {noun}"


def _place(name: str) -> str:
    """The variable of a name in the path; `token` is an option of all commands."""
    return "given_token" if name == "token" else name


def _key(name: str) -> str:
    """The option's variable: no name in a path begins so."""
    return f"given_{name.lower()}"


def _kebab(name: str) -> str:
    """`validAnswerTypes` is `valid-answer-types`, `keyID` is `key-id`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def _title(name: str) -> str:
    return _kebab(name).replace("-", " ").upper()


class _EveryOperation(click.Group):
    """A command for each operation of the admin API, under the name of the operation."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [_kebab(each) for each in operations()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        names = {_kebab(each): each for each in operations()}
        if cmd_name in names and cmd_name not in self.commands:
            add(self, cmd_name, names[cmd_name])
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for tag in dict.fromkeys(each.tag for each in operations().values()):
            found = [each for each in operations().values() if each.tag == tag]
            with formatter.section(tag):
                formatter.write_dl([(_kebab(each.id), f"{each.summary}.") for each in found])


@click.group(cls=_EveryOperation)
def admin() -> None:
    """Every operation of the admin API, by its name in the HTTP reference."""
