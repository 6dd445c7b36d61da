"""Rows of an external log (CSV, TSV, JSON Lines, or one JSON list), mapped to common roles."""

from __future__ import annotations

import csv
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from hubbub.domain.errors import BadRequest
from hubbub.journal.foreign_text import Line

Format = Literal["csv", "tsv", "jsonl", "json"]
ROLES = ("time", "channel", "sender", "text", "id", "reply-to", "conversation")
NEEDED = ("time", "channel", "text")
MAX_RECORD_LINES = 1000
"""A quote that stays open for more lines is considered a stray one."""
_ALIASES: Mapping[str, tuple[str, ...]] = {
    "time": ("time", "timestamp", "ts", "date", "datetime", "at", "created_at", "created", "sent"),
    "channel": ("channel", "room", "topic", "group", "conversation", "chat", "channel_name"),
    "sender": ("sender", "user", "author", "from", "nick", "username", "name", "user_id"),
    "text": ("text", "message", "body", "content", "msg", "payload"),
    "id": ("id", "message_id", "messageid", "msg_id", "msgid", "uuid"),
    "reply-to": ("reply-to", "reply_to", "replyto", "in_reply_to", "parent", "parent_id"),
    "conversation": ("conversation_id", "conversation-id", "conversationid", "thread", "thread_id"),
}

Scalar = str | int | float | None


class Row(msgspec.Struct, gc=False):
    """One message of the log, and its first line. `guessed`: its encoding was guessed."""

    line: int
    values: dict[str, Scalar]
    raw: str
    guessed: bool = False


class Reject(msgspec.Struct, gc=False):
    """An unreadable record: its first line, the reason, and its beginning."""

    line: int
    reason: str
    record: str = ""


Rows = Iterator[Row | Reject]


class Columns:
    """The mapping of columns to roles, from the options or from common names."""

    def __init__(
        self, given: Mapping[str, str] | None = None, constant: Iterable[str] = ()
    ) -> None:
        """`constant`: roles that need no column. Raises `BadRequest`."""
        self.given = dict(given or {})
        self._constant = frozenset(constant)
        for role in self.given:
            if role not in ROLES:
                raise BadRequest(f"--columns knows {', '.join(ROLES)}, but not {role!r}")
        numbers = [value.isdigit() for value in self.given.values()]
        self.numbered = bool(numbers) and all(numbers)
        if any(numbers) and not self.numbered:
            raise BadRequest("--columns takes either names or numbers, not both")
        if self.numbered and any(int(value) < 1 for value in self.given.values()):
            raise BadRequest("the columns of --columns are counted from 1")
        if self.numbered:
            self._check(self.given)

    def in_header(self, header: list[str]) -> dict[str, int]:
        """The column index of each role. Raises `BadRequest` if one is missing."""
        names = {name.strip().lower(): place for place, name in reversed([*enumerate(header)])}
        places = {}
        for role in ROLES:
            wanted = [self.given[role].lower()] if role in self.given else _ALIASES[role]
            found = next((names[name] for name in wanted if name in names), None)
            if found is not None:
                places[role] = found
            elif role in self.given:
                raise BadRequest(
                    f"there is no column {self.given[role]!r}; the header has {', '.join(header)}"
                )
        self._check(places, f"; the header has {', '.join(header)[:200]}")
        return places

    def by_number(self) -> dict[str, int]:
        return {role: int(value) - 1 for role, value in self.given.items()}

    def of_object(self, found: Mapping[str, Any]) -> dict[str, Scalar]:
        """The values of a JSON object; a dot in a column's name descends into nested objects.
        Raises `ValueError`."""
        values = {}
        for role in ROLES:
            wanted = [self.given[role]] if role in self.given else _ALIASES[role]
            for name in wanted:
                value = _reach(found, name)
                if value is not None:
                    values[role] = _scalar(role, value)
                    break
        for role in NEEDED:
            if role not in values and role not in self._constant:
                raise ValueError(f"there is no {role}")
        return values

    def _check(self, places: Mapping[str, object], hint: str = "") -> None:
        for role in NEEDED:
            if role not in places and role not in self._constant:
                option = " (or --channel)" if role == "channel" else ""
                raise BadRequest(
                    f"no column for the {role}{hint}; name it with --columns {role}=…{option}"
                )


def _reach(found: Mapping[str, Any], name: str) -> Any:
    if name in found:
        return found[name]
    head, dot, rest = name.partition(".")
    inner = found.get(head) if dot else None
    return _reach(inner, rest) if isinstance(inner, dict) else None


def _scalar(role: str, value: Any) -> Scalar:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"the {role} is neither a text nor a number")
    return value


def read_rows(lines: Iterator[Line], kind: Format, columns: Columns) -> Rows:
    """All rows and rejects, in the order of the file. Raises `BadRequest` if the whole file is
    invalid."""
    if kind == "jsonl":
        return _json_lines(lines, columns)
    if kind == "json":
        return _json_list(lines, columns)
    return _separated(lines, "\t" if kind == "tsv" else None, columns)


def _separated(lines: Iterator[Line], delimiter: str | None, columns: Columns) -> Rows:
    places = columns.by_number() if columns.numbered else None
    width = 0
    csv.field_size_limit(64 * 1024 * 1024)
    waiting: deque[Line] = deque()
    while (first := _next_line(lines, waiting)) is not None:
        if first.problem is not None:
            yield Reject(first.number, first.problem, first.text[:200])
            continue
        if not first.text.strip():
            continue
        delimiter = delimiter or _likely_delimiter(first.text)
        record = _record(first, lines, waiting, delimiter)
        if record is None:
            yield Reject(first.number, "a quote is opened and not closed", first.text[:200])
            continue
        raw = "\n".join(line.text for line in record)
        try:
            cells = next(csv.reader([raw], delimiter=delimiter))
        except csv.Error as error:
            yield Reject(first.number, f"it cannot be split: {error}", raw[:200])
            continue
        if places is None:
            places, width = columns.in_header(cells), len(cells)
            continue
        width = width or max(len(cells), *(place + 1 for place in places.values()))
        while len(cells) > width and not cells[-1]:
            cells.pop()
        if len(cells) != width:
            reason = f"it has {len(cells)} columns instead of {width}"
            yield Reject(first.number, reason, raw[:200])
            continue
        values: dict[str, Scalar] = {role: cells[place] for role, place in places.items()}
        yield Row(first.number, values, raw[:200], any(line.guessed for line in record))
    if places is None:
        raise BadRequest("the file is empty")


def _next_line(lines: Iterator[Line], waiting: deque[Line]) -> Line | None:
    return waiting.popleft() if waiting else next(lines, None)


def _likely_delimiter(header: str) -> str:
    return max(",;|\t", key=header.count)


def _record(
    first: Line, lines: Iterator[Line], waiting: deque[Line], delimiter: str
) -> list[Line] | None:
    """The lines of the record that begins with this one. None if one of its quotes is never closed:
    the lines read ahead are returned to the queue."""
    record = [first]
    open_quote = _ends_quoted(first.text, delimiter, False)
    while open_quote:
        line = _next_line(lines, waiting)
        if line is None or line.problem is not None or len(record) >= MAX_RECORD_LINES:
            again = record[1:] if line is None else [*record[1:], line]
            waiting.extendleft(reversed(again))
            return None
        record.append(line)
        open_quote = _ends_quoted(line.text, delimiter, True)
    return record


def _ends_quoted(text: str, delimiter: str, quoted: bool) -> bool:
    """Whether a quoted cell continues after this line, given whether one continued into it."""
    place = 0
    while True:
        if not quoted:
            if text[place : place + 1] == '"':
                place += 1
            else:
                place = text.find(delimiter, place) + 1
                if not place:
                    return False
                continue
        end = text.find('"', place)
        if end < 0:
            return True
        if text[end + 1 : end + 2] == '"':
            place, quoted = end + 2, True
            continue
        quoted = False
        place = text.find(delimiter, end + 1) + 1
        if not place:
            return False


def _json_lines(lines: Iterator[Line], columns: Columns) -> Rows:
    for line in lines:
        if line.problem is not None:
            yield Reject(line.number, line.problem, line.text[:200])
        elif line.text.strip():
            try:
                found = msgspec.json.decode(line.text)
            except (msgspec.DecodeError, RecursionError) as error:
                yield Reject(line.number, f"it is not JSON: {error}", line.text[:200])
                continue
            yield _from_object(found, line.number, line.text[:200], columns, line.guessed)


def _json_list(lines: Iterator[Line], columns: Columns) -> Rows:
    """Holds the whole text in memory: the end of a list is known only at its last bracket."""
    numbered = list(lines)
    text = "\n".join(line.text for line in numbered)
    guessed = any(line.guessed for line in numbered)
    decoder = json.JSONDecoder()
    place = _beginning(text)
    line, counted = 1, 0
    while True:
        place = _skip(text, place)
        if place >= len(text) or text[place] == "]":
            return
        line, counted = line + text.count("\n", counted, place), place
        try:
            found, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            reason = f"from here on it is not JSON: {getattr(error, 'msg', error)}"
            yield Reject(line, reason, text[place : place + 200])
            return
        yield _from_object(found, line, text[counted:place][:200], columns, guessed)


def _beginning(text: str) -> int:
    """The position after the opening bracket of the list, which may be a value of an enclosing
    object."""
    start = text.find("[")
    if start < 0 or not (text[:start].strip() in ("",) or text.lstrip().startswith("{")):
        raise BadRequest(
            "there is no JSON list in the file; for an object per line, --format jsonl"
        )
    return start + 1


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n,":
        place += 1
    return place


def _from_object(
    found: object, line: int, raw: str, columns: Columns, guessed: bool
) -> Row | Reject:
    if not isinstance(found, dict):
        return Reject(line, "it is not a JSON object", raw)
    try:
        return Row(line, columns.of_object(found), raw, guessed)
    except ValueError as error:
        return Reject(line, str(error), raw)
