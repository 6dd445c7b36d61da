"""Logs: one event a line, readable by machines or people, and never a secret in them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from hubbub.server.logs import configure, redact

LOGGER = logging.getLogger("hubbub.test")


def log_event(logger: logging.Logger, level: int, message: str, /, **fields: object) -> None:
    """As the hub logs an event with its fields."""
    logger.log(level, message, extra={"fields": fields}, stacklevel=2)


@pytest.fixture(autouse=True)
def _put_back_logging() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("hubbub")
    handlers, level = list(root.handlers), ours.level
    yield
    root.handlers[:] = handlers
    ours.setLevel(level)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_lines_carry_time_level_logger_message_and_fields() -> None:
    stream = io.StringIO()
    configure("info", "json", stream)
    log_event(LOGGER, logging.INFO, "session opened", hub="demo", session="s1", count=3)
    entry = json.loads(stream.getvalue())
    assert entry.pop("time").endswith("Z")
    assert entry == {
        "level": "info",
        "logger": "hubbub.test",
        "message": "session opened",
        "hub": "demo",
        "session": "s1",
        "count": 3,
    }


def test_text_lines_are_readable() -> None:
    stream = io.StringIO()
    configure("info", "text", stream)
    log_event(LOGGER, logging.WARNING, "hub closed", hub="demo", reason="no sessions", idle=1.5)
    line = stream.getvalue()
    assert line.endswith(
        ' WARNING hubbub.test: hub closed hub=demo reason="no sessions" idle=1.5\n'
    )


def test_auto_is_text_on_a_terminal_and_json_elsewhere() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        configure("info", "auto", stream)
        LOGGER.info("hello")
    assert "INFO    hubbub.test: hello" in terminal.getvalue()
    assert json.loads(pipe.getvalue())["message"] == "hello"


def test_configuring_again_replaces_the_handler_and_the_level() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure("debug", "text", first)
    configure("warning", "text", second)
    LOGGER.info("quiet")
    LOGGER.warning("loud")
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1


def test_a_message_with_percent_signs_is_taken_as_it_is() -> None:
    stream = io.StringIO()
    configure("info", "json", stream)
    log_event(LOGGER, logging.INFO, "100%s done", level="x", message="y")
    entry = json.loads(stream.getvalue())
    assert entry["message"] == "100%s done"
    assert (entry["level"], entry["level_"], entry["message_"]) == ("info", "x", "y")


@pytest.mark.spec("OPS-04")
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("GET /v1/hubs/a/socket?token=hunter2&x=1", "/socket?token=(hidden)&x=1"),
        ("/events?channel=a&access_token=hunter2 HTTP/1.1", "access_token=(hidden) HTTP/1.1"),
        ("/socket?restoreKey=hunter2", "restoreKey=(hidden)"),
        ("/socket?RESTORE_KEY=hunter2", "RESTORE_KEY=(hidden)"),
        ("/login?next=%2F%3Ftoken%3Dhunter2", "token%3D(hidden)"),
        ("Authorization: Bearer hunter2", "Authorization: (hidden)"),
        ("authorization: Basic hunter2", "authorization: (hidden)"),
        ("authorization=Basic hunter2 x", "authorization=(hidden) x"),
        ("{'authorization': 'Bearer hunter2', 'a': 1}", "'a': 1}"),
        ("[(b'Authorization', b'Bearer hunter2'), (b'a', b'b')]", "(b'a', b'b')]"),
        ('{"restoreKey": "hunter2", "a": 1}', '{"restoreKey": "(hidden)", "a": 1}'),
        ('{"token":"hun\\"hunter2"}', '{"token":"(hidden)"}'),
        ("with Bearer hunter2hunter2", "with Bearer (hidden)"),
        ("got eyJhbGciOi.eyJhunter2.hunter2 from a", "got (hidden) from a"),
        ("https://me:hunter2@example.org/", "https://me:(hidden)@example.org/"),
    ],
)
def test_tokens_and_keys_are_redacted_and_the_rest_is_kept(text: str, kept: str) -> None:
    assert "hunter2" not in redact(text)
    assert kept in redact(text)


@pytest.mark.spec("OPS-04")
@pytest.mark.parametrize(
    "text", ["invalid token: expired", "GET /v1/hubs/a/channels/token/messages 200", "tokens=3"]
)
def test_text_about_tokens_is_not_redacted(text: str) -> None:
    assert redact(text) == text


@pytest.mark.spec("OPS-03", "OPS-04", "ADMIN-05")
@pytest.mark.parametrize("log_format", ["json", "text"])
def test_no_secret_and_no_payload_reaches_a_log(log_format: str) -> None:
    stream = io.StringIO()
    configure("info", log_format, stream)
    log_event(
        LOGGER,
        logging.INFO,
        "request with token=hunter2",
        url="/x?token=hunter2",
        token="hunter2",
        restore_key="hunter2",
        headers={"Authorization": "hunter2", "Cookie": "hunter2", "Accept": "*/*"},
        pair=["token=hunter2"],
        payload="hunter2",
        data=b"hunter2",
    )
    LOGGER.info("%s", "access_token=hunter2")
    try:
        raise ValueError("at /x?token=hunter2")
    except ValueError:
        LOGGER.exception("failed")
    assert "hunter2" not in stream.getvalue()
    assert "7 bytes" in stream.getvalue()
    assert "ValueError: at /x?token=(hidden)" in stream.getvalue()


@pytest.mark.spec("OPS-03", "ADMIN-05")
@pytest.mark.parametrize("log_format", ["json", "text"])
def test_hostile_values_stay_on_one_bounded_line(log_format: str) -> None:
    stream = io.StringIO()
    configure("info", log_format, stream)
    hostile = "a\r\n12:00:00.000 INFO hubbub: forged\x1b[2J\u2028\ud800"
    log_event(
        LOGGER,
        logging.INFO,
        hostile,
        name=hostile,
        long="x" * 100_000,
        number=10**30,
        bad=float("nan"),
        thing=object,
    )
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert len(text) < 3000
    text.encode()


@pytest.mark.spec("OPS-03", "ADMIN-05")
def test_an_error_in_text_is_indented_so_that_it_cannot_forge_a_line() -> None:
    stream = io.StringIO()
    configure("info", "text", stream)
    try:
        raise ValueError("a\n12:00:00.000 INFO hubbub: forged\x1b")
    except ValueError:
        LOGGER.exception("failed")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("failed")
    assert all(line.startswith("  ") for line in rest)
    assert "\x1b" not in stream.getvalue()


def _flood(count: int, *about: str, line: str = "hub %s: refused") -> None:
    for _ in range(count):
        for each in about:
            LOGGER.warning(line, each)


def test_a_line_that_one_tenant_causes_again_and_again_is_bounded() -> None:
    stream = io.StringIO()
    configure("info", "json", stream)
    _flood(1000, "hostile")
    written = stream.getvalue().splitlines()
    assert 20 <= len(written) < 30
    _flood(1, "victim")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines[-1]["message"] == "hub victim: refused"
    assert sum(line.get("left_out", 0) for line in lines) == 1000 - len(written)


def test_whom_a_line_is_about_can_be_a_field() -> None:
    stream = io.StringIO()
    configure("info", "json", stream)
    for hub in ["hostile"] * 1000 + ["victim"]:
        log_event(LOGGER, logging.WARNING, "refused", hub=hub)
    assert json.loads(stream.getvalue().splitlines()[-1])["hub"] == "victim"
    assert len(stream.getvalue().splitlines()) < 30


def test_a_line_about_ever_new_names_is_bounded_too() -> None:
    stream = io.StringIO()
    configure("info", "text", stream)
    _flood(1, *(f"name-{n}" for n in range(5000)))
    assert 200 <= len(stream.getvalue().splitlines()) < 300


def test_the_access_log_is_complete() -> None:
    stream = io.StringIO()
    configure("info", "json", stream)
    for _ in range(1000):
        logging.getLogger("hubbub.access").info("request", extra={"fields": {"hub": "demo"}})
    assert len(stream.getvalue().splitlines()) == 1000
