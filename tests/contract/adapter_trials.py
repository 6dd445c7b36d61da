"""The adapters that the contract of adapters is tried with, each with servers of its medium."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import hubbub.connectors.adapters.included  # noqa: F401  declares them
from harness.certificates import make_certificate
from harness.ftp import ftp_server
from harness.mail import PASSWORD, dovecot, mail_server
from harness.receivers import Received, Receiver, Reply, whole_answer

Mood = Literal["accepts", "refuses", "later"]
SECRET = PASSWORD


@dataclass(frozen=True)
class Place:
    """Where a server is, and what it got: the key of each attempt."""

    port: int
    keys: Callable[[], list[str]]


@dataclass(frozen=True)
class OutputTrial:
    kind: str
    settings: Callable[[int], dict[str, Any]]
    """For a server at this port, with a time-out of a second."""
    serve: Callable[[Mood], AbstractAsyncContextManager[Place]]
    parameters: Callable[[int], tuple[str, ...]] = lambda _: ()


# -- e-mail ---------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _smtp(mood: Mood) -> AsyncIterator[Place]:
    async with mail_server(login=True) as server:
        server.password = SECRET
        server.data_answer = {"accepts": "250 OK", "refuses": "554 no", "later": "451 busy"}[mood]
        yield Place(server.port, lambda: [str(mail["Message-ID"]) for mail in server.mails])


SMTP = OutputTrial(
    "email",
    lambda port: {
        "host": "127.0.0.1",
        "port": port,
        "security": "none",
        "sender": "hub@example.org",
        "username": "hub",
        "password": SECRET,
        "timeoutSeconds": 1.0,
    },
    _smtp,
    lambda _: ("ann@example.org",),
)


# -- HTTP -----------------------------------------------------------------------------------------


def over_http(
    key_of: Callable[[Received], str], answers: dict[Mood, Reply]
) -> Callable[[Mood], AbstractAsyncContextManager[Place]]:
    @contextlib.asynccontextmanager
    async def serve(mood: Mood) -> AsyncIterator[Place]:
        async with Receiver(lambda _: answers[mood]) as server:
            yield Place(server.port, lambda: [key_of(each) for each in server.received])

    return serve


REST = OutputTrial(
    "rest",
    lambda port: {
        "url": f"http://127.0.0.1:{port}/{SECRET}",
        "authorization": f"Bearer {SECRET}",
        "timeoutSeconds": 1.0,
    },
    over_http(
        lambda request: request.headers["idempotency-key"],
        {"accepts": 201, "refuses": 404, "later": whole_answer(429, retry_after="7")},
    ),
)
# -- chats ----------------------------------------------------------------------------------------


def _json(status: int, **said: Any) -> bytes:
    return whole_answer(status, json.dumps(said).encode())


MATRIX = OutputTrial(
    "matrix",
    lambda port: {
        "homeserver": f"http://127.0.0.1:{port}",
        "accessToken": SECRET,
        "timeoutSeconds": 1.0,
    },
    over_http(
        lambda request: request.path.rpartition("/")[2],
        {
            "accepts": _json(200, event_id="$1"),
            "refuses": _json(403, errcode="M_FORBIDDEN", error=f"not in the room {SECRET}"),
            "later": _json(429, errcode="M_LIMIT_EXCEEDED", retry_after_ms=2000),
        },
    ),
    lambda _: ("!room:example.org",),
)
TELEGRAM = OutputTrial(
    "telegram",
    lambda port: {"token": SECRET, "url": f"http://127.0.0.1:{port}", "timeoutSeconds": 1.0},
    over_http(
        lambda request: request.body.decode(),
        {
            "accepts": _json(200, ok=True, result={"message_id": 1}),
            "refuses": _json(403, ok=False, error_code=403, description="bot was blocked"),
            "later": _json(429, ok=False, error_code=429, parameters={"retry_after": 3}),
        },
    ),
    lambda _: ("42",),
)
SLACK = OutputTrial(
    "slack",
    lambda _: {"timeoutSeconds": 1.0},
    over_http(
        lambda request: request.body.decode(),
        {
            "accepts": whole_answer(200, b"ok"),
            "refuses": whole_answer(404, b"no_service"),
            "later": whole_answer(429, b"", retry_after="30"),
        },
    ),
    lambda port: (f"http://127.0.0.1:{port}/services/{SECRET}",),
)
OUTPUTS = {trial.kind: trial for trial in (SMTP, REST, MATRIX, TELEGRAM, SLACK)}


# -- pulled ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PullTrial:
    """`serve` gives a server with one message, and its port."""

    kind: str
    settings: Callable[[int], dict[str, Any]]
    serve: Callable[[], AbstractAsyncContextManager[int]]
    remembers: bool = True
    """The server does; otherwise the adapter, as long as it lives."""


@contextlib.asynccontextmanager
async def _rest_in() -> AsyncIterator[int]:
    body = json.dumps({"id": "r-1", "type": "BUILD", "subtype": "FAILED", "content": "red"})
    waiting = [body]

    def answer(request: Received) -> Reply:
        if request.method == "DELETE":
            assert request.headers["if-match"] == '"r-1"'
            waiting.clear()
            return 204
        return whole_answer(200, waiting[0].encode(), ETag='"r-1"') if waiting else 204

    async with Receiver(answer) as server:
        yield server.port


REST_IN = PullTrial(
    "rest-pull",
    lambda port: {
        "url": f"http://127.0.0.1:{port}/next",
        "authorization": SECRET,
        "timeoutSeconds": 1.0,
    },
    _rest_in,
)


@contextlib.asynccontextmanager
async def _imap() -> AsyncIterator[int]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with dovecot(folder / "dovecot", make_certificate(folder)) as server:
            raw = b"From: ann@example.org\r\nMessage-ID: <a@b>\r\nSubject: hi\r\n\r\nhello\r\n"
            await asyncio.to_thread(server.append, "hub", raw)
            yield server.port


IMAP = PullTrial(
    "email-in",
    lambda port: {
        "host": "127.0.0.1",
        "port": port,
        "security": "none",
        "username": "hub",
        "password": PASSWORD,
        "timeoutSeconds": 1.0,
    },
    _imap,
)
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><entry><id>urn:1</id>
<title>First</title><link href="https://x.example/1"/></entry></feed>"""


@contextlib.asynccontextmanager
async def _feed() -> AsyncIterator[int]:
    async with Receiver(lambda _: whole_answer(200, ATOM, ETag='"1"')) as server:
        yield server.port


FEED = PullTrial(
    "feed",
    lambda port: {
        "url": f"http://127.0.0.1:{port}/feed",
        "authorization": SECRET,
        "timeoutSeconds": 1.0,
    },
    _feed,
    remembers=False,
)


@contextlib.asynccontextmanager
async def _ftp() -> AsyncIterator[int]:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "a.txt").write_text("hello")
        with ftp_server(Path(name), SECRET) as port:
            yield port


FTP = PullTrial(
    "ftp",
    lambda port: {
        "host": "127.0.0.1",
        "port": port,
        "username": "hub",
        "password": SECRET,
        "security": "none",
        "stableSeconds": 0,
        "timeoutSeconds": 1.0,
    },
    _ftp,
)


@contextlib.asynccontextmanager
async def _matrix() -> AsyncIterator[int]:
    position: dict[str, str] = {}
    text = {"msgtype": "m.text", "body": "hello"}
    event = {"type": "m.room.message", "event_id": "$1", "sender": "@ann:x", "content": text}

    def answer(request: Received) -> Reply:
        if request.path.endswith("/whoami"):
            return _json(200, user_id="@hub:x")
        if request.method == "PUT":
            position.update(json.loads(request.body))
        if "/account_data/" in request.path:
            return _json(200, **position) if position else _json(404, errcode="M_NOT_FOUND")
        events = [] if request.query.get("since") == "s2" else [event]
        joined = {"!r:x": {"timeline": {"events": events}}}
        return _json(200, next_batch="s2", rooms={"join": joined})

    async with Receiver(answer) as server:
        yield server.port


MATRIX_IN = PullTrial("matrix-in", MATRIX.settings, _matrix)


@contextlib.asynccontextmanager
async def _telegram() -> AsyncIterator[int]:
    said = {"message_id": 1, "chat": {"id": 42}, "from": {"id": 42}, "text": "hello"}
    updates = [{"update_id": 7, "message": said}]

    def answer(request: Received) -> Reply:
        offset = json.loads(request.body)["offset"]
        updates[:] = [each for each in updates if each["update_id"] >= offset]
        return _json(200, ok=True, result=updates)

    async with Receiver(answer) as server:
        yield server.port


TELEGRAM_IN = PullTrial("telegram-in", TELEGRAM.settings, _telegram)
PULLS = {trial.kind: trial for trial in (REST_IN, IMAP, FEED, FTP, MATRIX_IN, TELEGRAM_IN)}
