"""The payload of a message on the command line: from an argument, a file or standard input."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from hubbub.cli.failures import WRONG, fail
from hubbub.domain.errors import InvalidPayload
from hubbub.domain.messages import BINARY, JSON, TEXT
from hubbub.domain.payloads import is_utf8, json_text

ABOUT_FILE = "Send this file; `-` is standard input."


class PayloadSource(msgspec.Struct, frozen=True):
    """The source of a payload; `kind` is the given content type, if any."""

    data: str | None
    file: Path | None
    kind: str | None

    def read(self) -> tuple[bytes, str]:
        """The payload and its content type."""
        body = self._body()
        kind = self.kind or (TEXT if is_utf8(body) else BINARY)
        if kind == TEXT and not is_utf8(body):
            fail("the data is not UTF-8 text; send it with --binary", WRONG)
        if kind != JSON:
            return body, kind
        try:
            return json_text(body), JSON
        except InvalidPayload as error:
            fail(f"{error.message}; leave out --json to send it as text", WRONG)

    def _body(self) -> bytes:
        if self.data is not None and self.file is not None:
            fail("give either DATA or --file, not both", WRONG)
        if self.data is not None:
            return self.data.encode("utf-8", "surrogateescape")
        if self.file is not None and str(self.file) != "-":
            return self.file.read_bytes()
        if sys.stdin.isatty() and self.file is None:
            fail("there is no data: give DATA, --file, or pipe something in", WRONG)
        return sys.stdin.buffer.read()


def payload_options(
    command: Callable[..., None],
    word: str = "DATA",
    about_file: str = ABOUT_FILE,
) -> Callable[..., None]:
    """Passes the argument `source` to a command."""

    @functools.wraps(command)
    def with_source(
        file: Path | None, kind: str | None, content_type: str | None, **arguments: Any
    ) -> None:
        data = arguments.pop(word.lower())
        command(source=PayloadSource(data, file, content_type or kind), **arguments)

    wrapped: Callable[..., None] = with_source
    for option in reversed((
        click.argument(word.lower(), required=False),
        click.option("--json", "kind", flag_value=JSON, help=f"{word} is JSON; else it is text."),
        click.option("--text", "kind", flag_value=TEXT, help=f"{word} is text."),
        click.option("--binary", "kind", flag_value=BINARY, help=f"{word} is bytes."),
        click.option("--type", "content_type", metavar="TYPE", help="The content type, any other."),
        click.option("--file", type=click.Path(path_type=Path), help=about_file),
    )):  # fmt: skip
        wrapped = option(wrapped)
    return wrapped
