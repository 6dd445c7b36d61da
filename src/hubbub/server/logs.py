"""Structured logs: one event per line, as JSON for machines or as text for people, without secrets.

Log the event and its subject (hub, session, channel, sizes, codes), never the content of messages.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

import msgspec

from hubbub.server.log_rates import LogRates

HIDDEN = "(hidden)"
MAX_VALUE_CHARS = 1000

_SECRET_NAMES = frozenset(
    (
        *("token", "accesstoken", "refreshtoken", "authorization", "credentials", "cookie"),
        *("restorekey", "secret", "password", "payload", "body"),
    )
)
_NAMES = r"(?:access_?|refresh_?)?token|authorization|restore_?key|secret|password"
_REDACTIONS = (
    # JSON Web Tokens, wherever they turn up
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*"), HIDDEN),
    # token=… in URLs, forms and reprs
    (
        re.compile(
            rf"({_NAMES})(=|%3D)(['\"]?)(?:(?:basic|bearer)\s+)?[^&\s'\"#;,)]+", re.IGNORECASE
        ),
        rf"\1\2\3{HIDDEN}",
    ),
    # "token": "…" in JSON and in dictionaries
    (
        re.compile(
            rf"(['\"](?:{_NAMES})['\"]\s*[:,]\s*)b?(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')",
            re.IGNORECASE,
        ),
        rf'\1"{HIDDEN}"',
    ),
    # Authorization: Bearer … as a header
    (re.compile(r"\b(authorization\s*:\s*)[^\r\n'\"]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"\b(bearer\s+)[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1{HIDDEN}"),
    # https://user:password@host
    (re.compile(r"(://[^/\s:@]*:)[^/\s@]+@"), rf"\1{HIDDEN}@"),
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PLAIN = re.compile(r"[^\s\"=]+")


def redact(text: str) -> str:
    """Removes tokens and keys from the text."""
    for pattern, replacement in _REDACTIONS:
        text = pattern.sub(replacement, text)
    return text


def _is_secret(name: str) -> bool:
    return name.lower().replace("_", "").replace("-", "") in _SECRET_NAMES


def _clean_text(text: str) -> str:
    text = redact(text).encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…"


def _clean(name: str, value: object) -> object:
    """A field's value prepared for the log: no secrets, no bytes, bounded length."""
    if _is_secret(name):
        return HIDDEN
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(name, item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _clean(str(key), item) for key, item in value.items()}
    return _clean_text(str(value))


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, "fields", None)
    if not isinstance(fields, Mapping):
        return {}
    return {str(name): _clean(str(name), value) for name, value in fields.items()}


class _Formatter(logging.Formatter):
    def _error_of(self, record: logging.LogRecord) -> str | None:
        if not record.exc_info:
            return None
        text = redact(self.formatException(record.exc_info))
        return text.encode("utf-8", "replace").decode()


class JsonFormatter(_Formatter):
    """One JSON object per line: time, level, logger, message, the fields, and the error if any."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        entry: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _clean_text(record.getMessage()),
        }
        error = self._error_of(record)
        if error:
            entry["error"] = error
        for name, value in _fields_of(record).items():
            entry[f"{name}_" if name in entry else name] = value
        return msgspec.json.encode(entry).decode()


class TextFormatter(_Formatter):
    """A readable line: time of day, level, logger, message, name=value. Control characters are
    escaped, so that log lines cannot be forged."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).astimezone()
        fields = "".join(f" {name}={_quoted(v)}" for name, v in _fields_of(record).items())
        line = (
            f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03} {record.levelname:7} "
            f"{record.name}: {_clean_text(record.getMessage())}{fields}"
        )
        line = _escape(line)
        error = self._error_of(record) or ""
        return "\n".join([line, *(f"  {_escape(each)}" for each in error.split("\n") if each)])


def _escape(text: str) -> str:
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def _quoted(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return msgspec.json.encode(value).decode()


class _Handler(logging.StreamHandler[TextIO]):
    """The handler that `configure` installs."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._rates = LogRates()

    def emit(self, record: logging.LogRecord) -> None:
        if self._rates.admits(record, time.monotonic()):
            super().emit(record)


def configure(level: str = "info", log_format: str = "auto", stream: TextIO | None = None) -> None:
    """Writes the hub's logs from `level` on, and warnings of libraries, to the stream (stderr).

    `log_format` is json, text or auto: text on a terminal, else JSON. A second call replaces the
    first.
    """
    handler = _Handler(stream if stream is not None else sys.stderr)
    if log_format == "auto":
        log_format = "text" if handler.stream.isatty() else "json"
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    for old in [each for each in root.handlers if isinstance(each, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    logging.getLogger("hubbub").setLevel(level.upper())
