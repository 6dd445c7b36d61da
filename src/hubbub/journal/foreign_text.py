"""Lines of a file whose encoding nobody vouches for."""

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


class Line(msgspec.Struct, gc=False):
    """`text` is without its end. `guessed`: it is not UTF-8 and was taken for Windows' Latin 1.
    `problem`: it cannot be read, for this reason."""

    number: int
    text: str
    guessed: bool = False
    problem: str | None = None


def read_lines(file: BinaryIO, encoding: str = AUTO) -> Iterator[Line]:
    """Every line, numbered from 1. `auto` goes by the mark at the beginning of the file, else line
    by line: UTF-8 where that is possible. Raises `BadRequest` for an encoding that there is not."""
    wide = _wide_encoding(file, encoding)
    if wide is not None:
        return _decoded(file, wide)
    return _bytewise(file, None if encoding == AUTO else codecs.lookup(encoding).name)


def _wide_encoding(file: BinaryIO, encoding: str) -> str | None:
    """That of a file in which a line end is more than one byte."""
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
    text = io.TextIOWrapper(file, encoding, errors="replace", newline="\n")
    number = 0
    while line := text.readline(MAX_LINE_BYTES):
        number += 1
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
    """Files that were put together also have marks in their middle."""
    return Line(number, text.removesuffix("\n").removesuffix("\r").removeprefix("\ufeff"), guessed)
