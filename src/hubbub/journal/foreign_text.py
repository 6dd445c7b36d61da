"""Decodes the lines of a file with an unknown or mixed encoding."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from hubbub.domain.errors import BadRequest

AUTO = "auto"
MAX_LINE_BYTES = 8 * 1024 * 1024
_SAMPLE_BYTES = 4096
_WIDE = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

_MARK = "\udcff"
"""Replaces undecodable bytes: no valid text contains it."""
_MARKED = "hubbub.mark"
codecs.register_error(_MARKED, lambda error: (_MARK, error.end))  # type: ignore[attr-defined]


class Line(msgspec.Struct, gc=False):
    """`text` is without the line end. `guessed`: the line is not UTF-8 and was decoded as
    Windows-1252. `problem`: why the line is unreadable."""

    number: int
    text: str
    guessed: bool = False
    problem: str | None = None


def read_lines(file: BinaryIO, encoding: str = AUTO) -> Iterator[Line]:
    """Yields every line, numbered from 1. `auto` uses the byte order mark of the file, or else
    decodes line by line, as UTF-8 if possible. Raises `BadRequest` for an unknown encoding."""
    wide = _wide_encoding(file, encoding)
    if wide is not None:
        return _decoded(file, wide)
    return _bytewise(file, None if encoding == AUTO else codecs.lookup(encoding).name)


def _wide_encoding(file: BinaryIO, encoding: str) -> str | None:
    """The encoding, if it is one whose line end is more than one byte."""
    sample = file.read(_SAMPLE_BYTES)
    file.seek(0)
    if encoding != AUTO:
        try:
            name = codecs.lookup(encoding).name
            is_text = isinstance("\n".encode(name), bytes)
        except (LookupError, TypeError, ValueError):
            is_text = False
        if not is_text:
            raise BadRequest(f"there is no encoding {encoding!r}; try auto, utf-8 or latin-1")
        return name if len("\n".encode(name)) > 1 else None
    for mark, wide in _WIDE.items():
        if sample.startswith(mark):
            return wide
    if sample.count(0) * 5 > len(sample):
        raise BadRequest(
            "the file looks like UTF-16 without its mark; give --encoding utf-16-le or utf-16-be"
        )
    return None


def _decoded(file: BinaryIO, encoding: str) -> Iterator[Line]:
    text = io.TextIOWrapper(file, encoding, errors=_MARKED, newline="\n")
    number = 0
    while line := text.readline(MAX_LINE_BYTES):
        number += 1
        if _MARK in line:
            shown = line.replace(_MARK, "\ufffd").rstrip("\r\n")
            yield Line(number, shown, problem=f"the line is not {encoding}")
        else:
            yield _line(number, line)
    text.detach()


def _bytewise(file: BinaryIO, encoding: str | None) -> Iterator[Line]:
    number = 0
    while data := file.readline(MAX_LINE_BYTES):
        number += 1
        if len(data) == MAX_LINE_BYTES and not data.endswith(b"\n"):
            _skip_line(file)
            shown = data[:200].decode("utf-8", "replace")
            yield Line(number, shown, problem=f"the line is over {MAX_LINE_BYTES:,} bytes long")
            continue
        try:
            yield _line(number, data.decode(encoding or "utf-8"))
        except UnicodeDecodeError as error:
            if encoding is None:
                yield _line(number, _as_latin(data), guessed=True)
            else:
                shown = data.decode("latin-1").rstrip("\r\n")
                problem = f"byte {error.start + 1} of the line is not {encoding}"
                yield Line(number, shown, problem=problem)


def _skip_line(file: BinaryIO) -> None:
    while (rest := file.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
        pass


def _as_latin(data: bytes) -> str:
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _line(number: int, text: str, guessed: bool = False) -> Line:
    """Concatenated files have byte order marks in the middle, too."""
    return Line(number, text.removesuffix("\n").removesuffix("\r").removeprefix("\ufeff"), guessed)
