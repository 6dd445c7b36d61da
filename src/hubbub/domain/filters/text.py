"""Conditions as text, for command lines: `payload.price lt 10 and not (event eq "draft")`.

    condition  = all { "or" all }
    all        = one { "and" one }
    one        = "not" one | "(" condition ")" | comparison | circle | "relevant" | "irrelevant"
    comparison = path ( "eq" | "ne" ) value | path ( "gt" | "gte" | "lt" | "lte" ) number
               | path ( "in" | "nin" ) "[" [ value { "," value } ] "]"
    circle     = "within" metres "of" latitude "," longitude
    value      = number | "text" | 'text' | true | false | null

`=  !=  >  >=  <  <=` mean `eq ne gt gte lt lte`. A path is written without quotes, or in backquotes
where a name in it has other characters than letters, digits, `_`, `-`, `:` and `$`.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import msgspec

from hubbub.domain.errors import InvalidFilter
from hubbub.domain.filters.values import MAX_DEPTH, is_number, too_deep

_SYMBOLS: Final = {
    "=": "eq",
    "==": "eq",
    "!=": "ne",
    ">": "gt",
    ">=": "gte",
    "<": "lt",
    "<=": "lte",
}
_ORDERS: Final = ("gt", "gte", "lt", "lte")
_COMPARISONS: Final = ("eq", "ne", *_ORDERS, "in", "nin")
_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | `(?P<quoted>[^`]+)`
    | (?P<word>[\w$:-]+(?:\.[\w$:-]+)*)
    | (?P<mark><=|>=|!=|==|[=<>()\[\],])
    )""",
    re.VERBOSE,
)
MAX_TEXT: Final = 16 * 1024


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    """The offset in characters."""


def parse_condition(text: str) -> dict[str, Any]:
    """Parses a condition. Raises `InvalidFilter`, whose message names the position and whose
    details hold it as `position`, in characters from 0."""
    if len(text) > MAX_TEXT:
        raise _wrong(0, f"the text has {len(text)} characters; at most {MAX_TEXT} are allowed")
    parser = _Parser(_tokens(text), len(text))
    condition = parser.condition(1)
    parser.expect_end()
    return condition


def _wrong(at: int, problem: str) -> InvalidFilter:
    error = InvalidFilter(f"character {at + 1}: {problem}")
    error.details["position"] = at
    return error


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            hint = "the text has no closing quote" if text[at] in "\"'`" else "this has no meaning"
            raise _wrong(at, f"{hint}: {text[at : at + 20]!r}")
        kind = match.lastgroup
        assert kind is not None
        found.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return found


class _Parser:
    def __init__(self, tokens: list[_Token], end: int) -> None:
        self._tokens = tokens
        self._next = 0
        self._end = _Token("end", "the end", end)

    def condition(self, depth: int) -> dict[str, Any]:
        return self._joined("or", depth)

    def expect_end(self) -> None:
        token = self._peek()
        if token.kind != "end":
            raise _wrong(token.at, f"expected 'and', 'or' or the end, not {token.text[:20]!r}")

    def _joined(self, word: str, depth: int) -> dict[str, Any]:
        parts = [self._joined("and", depth) if word == "or" else self._one(depth)]
        while self._take_word(word):
            parts.append(self._joined("and", depth) if word == "or" else self._one(depth))
        return parts[0] if len(parts) == 1 else {word: parts}

    def _one(self, depth: int) -> dict[str, Any]:
        if depth > MAX_DEPTH:
            raise too_deep("")
        if self._take_word("not"):
            return {"not": self._one(depth + 1)}
        if self._take_word("relevant"):
            return {"relevant": True}
        if self._take_word("irrelevant"):
            return {"relevant": False}
        if self._take_word("within"):
            return self._circle()
        token = self._take()
        if token.text == "(" and token.kind == "mark":
            inner = self.condition(depth + 1)
            self._expect(")")
            return inner
        if token.kind not in ("word", "quoted"):
            raise _wrong(token.at, f"expected a path like payload.price, not {token.text[:20]!r}")
        return self._comparison(token.text)

    def _comparison(self, path: str) -> dict[str, Any]:
        token = self._take()
        name = _SYMBOLS.get(token.text, token.text) if token.kind in ("word", "mark") else ""
        if name not in _COMPARISONS:
            known = ", ".join(_COMPARISONS)
            raise _wrong(
                token.at, f"expected one of {known} after {path!r}, not {token.text[:20]!r}"
            )
        if name in _ORDERS:
            return {name: {path: self._number()}}
        return {name: {path: self._list() if name in ("in", "nin") else self._value()}}

    def _circle(self) -> dict[str, Any]:
        radius = self._number()
        if not self._take_word("of"):
            token = self._peek()
            raise _wrong(token.at, f"expected 'of' and a place, not {token.text[:20]!r}")
        lat = self._number()
        self._expect(",")
        return {"geo": {"lat": lat, "lng": self._number(), "radius": radius}}

    def _list(self) -> list[Any]:
        self._expect("[")
        values: list[Any] = []
        while self._peek().text != "]":
            if values:
                self._expect(",")
            values.append(self._value())
        self._expect("]")
        return values

    def _value(self) -> Any:
        token = self._take()
        if token.kind == "number":
            return _number(token)
        if token.kind == "text":
            return _unquoted(token)
        if token.kind == "word" and token.text in _NAMED:
            return _NAMED[token.text]
        raise _wrong(
            token.at,
            f"expected a number, text in quotes, true, false or null, not {token.text[:20]!r}",
        )

    def _number(self) -> float:
        token = self._take()
        if token.kind != "number":
            raise _wrong(token.at, f"expected a number, not {token.text[:20]!r}")
        return _number(token)

    def _peek(self) -> _Token:
        return self._tokens[self._next] if self._next < len(self._tokens) else self._end

    def _take(self) -> _Token:
        token = self._peek()
        self._next += 1
        return token

    def _take_word(self, word: str) -> bool:
        token = self._peek()
        if token.kind != "word" or token.text != word:
            return False
        self._next += 1
        return True

    def _expect(self, mark: str) -> None:
        token = self._take()
        if token.kind != "mark" or token.text != mark:
            raise _wrong(token.at, f"expected {mark!r}, not {token.text[:20]!r}")


_ESCAPES: Final = re.compile(r'\\.|"')
_AS_JSON: Final = {"\\'": "'", '"': '\\"'}
"""Translates escapes in single-quoted text to JSON."""
_NAMED: Final = {"true": True, "false": False, "null": None}


def _number(token: _Token) -> float:
    try:
        number: float = msgspec.json.decode(token.text)
    except msgspec.DecodeError:
        raise _wrong(token.at, f"{token.text[:20]!r} is no number") from None
    if not is_number(number):
        raise _wrong(token.at, f"{token.text[:20]!r} is too large")
    return number


def _unquoted(token: _Token) -> str:
    inner = token.text[1:-1]
    if token.text[0] == "'":
        inner = _ESCAPES.sub(lambda match: _AS_JSON.get(match[0], match[0]), inner)
    try:
        return msgspec.json.decode(f'"{inner}"', type=str)
    except msgspec.DecodeError as error:
        raise _wrong(token.at, f"the text is not as JSON writes it: {error}") from None
