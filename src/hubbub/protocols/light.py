"""Light-PubSubHubbub: its four requests, in text or JSON, and their responses.

The requests are those of figures 3 to 6 of the paper. Extensions are optional: a key for the
topic's owner, a path in the callback, `https`, a signing secret and an encryption key.
"""

from __future__ import annotations

import base64
import binascii
import re
from ipaddress import IPv6Address, ip_address
from typing import Literal

import msgspec

from hubbub.domain.callbacks import check_callback
from hubbub.domain.errors import BadRequest, Malformed
from hubbub.domain.names import check_name
from hubbub.domain.payloads import is_utf8, read_json
from hubbub.domain.webhooks import Algorithm, WantedWebhook, check_key, check_secret

Scheme = Literal["http", "https"]
_HOST_NAME = re.compile(r"(?=.{1,253}\.?$)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+={0,2}")


class Registration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`key`: only publishers with a key may publish to the topic; the response contains it once."""

    topic: str
    key: bool = False


class _Subscription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    address: str
    port: int | str
    topic: str
    path: str = "/"
    scheme: Scheme = "http"
    secret: str | None = None
    algorithm: Algorithm = "sha256"
    key: str | None = None


class Unsubscription(msgspec.Struct, frozen=True):
    """The parameters of the request; `path` and `scheme` must be given if the subscription had
    them."""

    address: str = ""
    topic: str = msgspec.field(default="", name="idTopic")
    port: str = ""
    path: str = "/"
    scheme: Scheme = "http"


_registration = msgspec.json.Decoder(Registration)
_subscription = msgspec.json.Decoder(_Subscription)


def read_registration(body: bytes, with_key: bool = False) -> Registration:
    """The body is the topic's id, surrounded by optional whitespace, or an object that contains it.
    Raises `Malformed`, `InvalidName`."""
    if body.lstrip()[:1] == b"{":
        said = read_json(_registration, body, 'a registration, like {"topic": "sports"}')
        topic, with_key = said.topic, said.key or with_key
    else:
        topic = _text(body)
    return Registration(check_name(topic.strip(), "topic"), with_key)


def read_subscription(body: bytes) -> WantedWebhook:
    """Raises `Malformed`, `BadRequest`, `InvalidName`."""
    said = read_json(
        _subscription,
        body,
        'a subscription, like {"address":"127.0.0.1","port":"50355","topic":"sports"}',
    )
    return WantedWebhook(
        kind="light",
        channel=check_name(said.topic.strip(), "topic"),
        callback=callback_of(said.address, said.port, said.path, said.scheme),
        secret=read_secret(said.secret),
        algorithm=said.algorithm,
        key=read_key(said.key),
    )


def read_unsubscription(query: Unsubscription) -> WantedWebhook:
    """Raises `Malformed`, `BadRequest`, `InvalidName`."""
    needed = {"address": query.address, "idTopic": query.topic, "port": query.port}
    missing = next((name for name, value in needed.items() if not value), None)
    if missing is not None:
        raise Malformed(
            f"the parameter {missing!r} is missing; give /unsubscribe/?address=…&idTopic=…&port=…"
        )
    topic = check_name(query.topic.strip(), "topic")
    callback = callback_of(query.address, query.port, query.path, query.scheme)
    return WantedWebhook("light", topic, callback)


def callback_of(address: str, port: int | str, path: str = "/", scheme: Scheme = "http") -> str:
    """A subscriber's callback: `http://address:port/`. Raises `BadRequest`."""
    host = _host(address.strip())
    number = _port(port)
    if not path.startswith("/"):
        raise BadRequest(f"the path {path[:40]!r} of the callback must begin with '/'")
    url = f"{scheme}://{host}:{number}{path}"
    check_callback(url)
    return url


def read_secret(text: str | None) -> bytes | None:
    """Raises `BadRequest`."""
    try:
        return check_secret(None if text is None else text.encode())
    except UnicodeEncodeError:
        raise BadRequest("the secret holds text that is not UTF-8") from None


def read_key(text: str | None) -> bytes | None:
    """The encryption key of payloads, in base64url. Raises `BadRequest`."""
    if text is None:
        return None
    try:
        return check_key(_base64url(text))
    except binascii.Error:
        raise BadRequest(
            "the key is not base64url; make one with `openssl rand 16 | basenc --base64url`"
        ) from None


def _base64url(text: str) -> bytes:
    if not _BASE64URL.fullmatch(text):
        raise binascii.Error
    bare = text.rstrip("=")
    return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))


def _text(body: bytes) -> str:
    if not is_utf8(body):
        raise Malformed("the topic's id is not UTF-8")
    return body.decode()


def _host(address: str) -> str:
    try:
        found = ip_address(address.strip("[]"))
    except ValueError:
        if not _HOST_NAME.fullmatch(address):
            raise BadRequest(
                f"the address {address[:60]!r} is neither an IP address nor the name of a host; "
                "port and path have fields of their own"
            ) from None
        return address
    if isinstance(found, IPv6Address):
        if found.scope_id is not None:
            raise BadRequest(f"the address {address[:60]!r} has a zone, which only its host knows")
        return f"[{found}]"
    return str(found)


def _port(port: int | str) -> int:
    number = port if isinstance(port, int) else _digits(port.strip())
    if not 1 <= number <= 65535:
        raise BadRequest(f"the port {str(port)[:20]!r} is not a number from 1 to 65535")
    return number


def _digits(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 0
