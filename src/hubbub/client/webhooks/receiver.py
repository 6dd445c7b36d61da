"""A receiver of webhooks, for any web framework: proves that a subscription was wanted, checks the
signature, decrypts, drops repeats.

    receiver = Receiver(secret="s3cret")
    answer = receiver.answer("POST", "/", headers, body, lambda delivery: print(delivery.text))

`examples/webhook_receiver.py` is a whole one of twenty lines.
"""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from hubbub.client.webhooks.received import ReceivedKeys
from hubbub.domain.encryption import CONTENT_ENCODING, decrypt
from hubbub.domain.envelope_headers import from_headers
from hubbub.domain.errors import BadRequest, Denied, HubbubError, NotFound
from hubbub.domain.messages import Attributes
from hubbub.domain.webhooks import verify_signature

KEYS = 100_000
"""How many requests are remembered to recognize repeats."""


class Headers(Protocol):
    """Headers of any framework: a mapping of case-insensitive names to values."""

    def items(self) -> Iterable[tuple[str, str]]: ...


class Delivery(msgspec.Struct, frozen=True):
    """One message as its publisher sent it. Hubs other than Hubbub set fewer fields.

    `key` is the same for each delivery attempt; empty if unknown. `transaction`: if the receiver
    has a file, writes to it are committed together with the message's key.
    """

    body: bytes
    content_type: str
    key: str
    message_id: str = ""
    hub: str = ""
    channel: str = ""
    serial: int = 0
    published_at: int = 0
    attempt: int = 1
    topic: str = ""
    event: str = ""
    publisher: str | None = None
    attributes: Attributes | None = None
    """The rarer envelope fields, such as `conversation_id`; None if none is set."""
    transaction: sqlite3.Connection | None = None

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    @property
    def data(self) -> Any:
        """The decoded JSON payload. Raises `msgspec.DecodeError`."""
        return msgspec.json.decode(self.body)


class Answer(msgspec.Struct, frozen=True):
    """The response to the hub. 200: the message was handled, now or before."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain"


class Receiver:
    """Thread-safe; messages are handled one at a time.

    `secret` and `key` (base64url, or bytes) are those of the subscription: with them, unsigned or
    unencrypted requests are rejected. `topics` are the wanted WebSub topics: subscriptions to them
    are confirmed, and unsubscriptions from all others. The set may be changed. `file`: a SQLite
    database, so that repeats are recognized after a restart, too.
    """

    def __init__(
        self,
        secret: str | bytes | None = None,
        key: str | bytes | None = None,
        topics: Iterable[str] = (),
        file: str | PathLike[str] | None = None,
    ) -> None:
        self.topics = set(topics)
        self.denied: dict[str, str] = {}
        """Topics that the hub denied, with its reasons."""
        self._secret = secret.encode() if isinstance(secret, str) else secret
        self._key = _key_bytes(key) if isinstance(key, str) else key
        self._received = ReceivedKeys(file, KEYS)

    def close(self) -> None:
        self._received.close()

    def answer(
        self,
        method: str,
        target: str,
        headers: Headers,
        body: bytes,
        handle: Callable[[Delivery], object],
    ) -> Answer:
        """Handles a request of the hub: `handle` is called for each new message. If it raises an
        exception, this method does, too; respond with 500, and the hub retries."""
        try:
            if method == "GET":
                return Answer(200, self.confirm(target).encode())
            delivery = self.read(headers, body)
        except HubbubError as error:
            return Answer(error.http_status, f"{error.message}\n".encode())
        with self._received.turn(delivery.key) as turn:
            if not turn.repeat:
                handle(msgspec.structs.replace(delivery, transaction=turn.transaction))
        return Answer(200)

    def confirm(self, target: str) -> str:
        """The response body to a hub that verifies a WebSub subscription. `target`: the path with
        its query. Raises `NotFound` if the subscription is not wanted."""
        query = dict(parse_qsl(urlsplit(target).query))
        mode, topic = query.get("hub.mode"), query.get("hub.topic", "")
        wanted = topic in self.topics
        if mode == "denied":
            if wanted:
                self.denied[topic] = query.get("hub.reason", "")
            return ""
        if (mode, wanted) not in (("subscribe", True), ("unsubscribe", False)):
            raise NotFound(f"nobody here asked to {mode} {topic[:200]!r}")
        return query.get("hub.challenge", "")

    def read(self, headers: Headers, body: bytes) -> Delivery:
        """Raises `Denied` if the signature is missing or invalid, `BadRequest` if decryption fails
        or an envelope header is invalid. Does not check for repeats."""
        said = {name.lower(): value for name, value in headers.items()}
        if self._secret is not None and not verify_signature(
            self._secret, said.get("x-hub-signature", ""), body
        ):
            raise Denied("the signature is missing or wrong")
        if self._key is not None:
            if said.get("content-encoding", "").strip().lower() != CONTENT_ENCODING:
                raise BadRequest("the content is not encrypted, but it must be")
            body = decrypt(self._key, body)
        message_id = said.get("hubbub-message-id", "")
        return Delivery(
            body=body,
            content_type=said.get("content-type", "application/octet-stream"),
            key=said.get("idempotency-key") or message_id,
            message_id=message_id,
            hub=unquote(said.get("hubbub-hub", "")),
            channel=unquote(said.get("hubbub-channel", "")),
            serial=_number(said.get("hubbub-serial")),
            published_at=_number(said.get("hubbub-published-at")),
            attempt=_number(said.get("hubbub-attempt")) or 1,
            topic=_self_link(said.get("link", "")),
            event=unquote(said.get("hubbub-event", "")),
            publisher=unquote(said["hubbub-publisher"]) if "hubbub-publisher" in said else None,
            attributes=from_headers(
                {k.encode(): v.encode("latin-1", "replace") for k, v in said.items()}
            ),
        )


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


def _self_link(header: str) -> str:
    for link in header.split(", "):
        url, _, rest = link.partition(">")
        if 'rel="self"' in rest or "rel=self" in rest:
            return url.strip().lstrip("<")
    return ""


def _key_bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
