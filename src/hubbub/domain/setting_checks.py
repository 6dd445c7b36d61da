"""Checks of a hub's settings beyond their types, as sentences about a value.

Each problem names its key, relative to the given value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import msgspec

from hubbub.domain.communication.settings import CallbackSettings, communication_problems
from hubbub.domain.mercure.keys import MercureKey, mercure_problems
from hubbub.domain.names import MAX_NAME_CHARS
from hubbub.domain.rules import (
    NATS_SCHEME,
    AuthProvider,
    ChannelSettings,
    HubSettings,
    RpcRoute,
    TrustedIssuer,
)
from hubbub.domain.setting import Setting
from hubbub.domain.subjects import is_subject

MAX_METADATA_DEPTH = 32
MAX_METADATA_BYTES = 64 * 1024
MAX_ENTRIES = 100
MAX_TEXT_CHARS = 2048

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:(\d{1,5}|\*))?")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

Problem = tuple[str, str]
"""A key and a sentence about its value."""


def is_origin(text: str) -> bool:
    """Whether the text is `*`, `null`, or an origin in lower case, possibly with any port
    (`:*`)."""
    return text in ("*", "null") or _ORIGIN.fullmatch(text) is not None


def url_problem(url: str) -> str | None:
    """The problem of a URL that the hub will call, without quoting the URL; None if it is valid."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return "is no URL; check its host and port"
    if len(url) > MAX_TEXT_CHARS or not url.isascii() or not url.isprintable() or " " in url:
        return f"is no URL; expected at most {MAX_TEXT_CHARS} printable ASCII characters"
    if "@" in parts.netloc:
        return "holds a user or password; send credentials in headers"
    return None if usable else "is no URL that begins with http:// or https:// and names a host"


def origin_problem(origin: str) -> str | None:
    """The problem of an entry of `allowedOrigins`; None if it is valid."""
    if is_origin(origin):
        return None
    return (
        f"has {origin[:100]!r}; expected an origin in lower case and without a path such as "
        'https://example.org or http://localhost:*, "null", or "*"'
    )


def problems_of(value: Setting | str) -> Iterator[Problem]:
    """The problems of a setting of any type."""
    match value:
        case HubSettings():
            yield from _settings_problems(value)
        case ChannelSettings():
            yield from _channel_problems(value)
        case AuthProvider() | RpcRoute() | CallbackSettings():
            yield from _endpoint_problems(value)
        case MercureKey():
            yield from mercure_problems(value)
        case _:
            yield from communication_problems(value)


def _settings_problems(settings: HubSettings) -> Iterator[Problem]:
    for origin in settings.allowed_origins:
        if problem := origin_problem(origin):
            yield "allowedOrigins", problem
    for subject in settings.nats_subjects:
        if len(subject) > MAX_NAME_CHARS or not is_subject(subject):
            yield (
                "natsSubjects",
                f"has {subject[:100]!r}; expected words with dots between, without wildcards, "
                "without $ before a word and _ before the first",
            )
    seen: set[tuple[str, str]] = set()
    for index, issuer in enumerate(settings.trusted_issuers):
        for key, problem in issuer_problems(issuer):
            yield f"trustedIssuers[{index}].{key}", problem
        if (issuer.issuer, issuer.audience) in seen:
            yield f"trustedIssuers[{index}]", "is there twice, by issuer and audience"
        seen.add((issuer.issuer, issuer.audience))


def issuer_problems(issuer: TrustedIssuer) -> Iterator[Problem]:
    for key, text in (
        ("issuer", issuer.issuer),
        ("audience", issuer.audience),
        ("userClaim", issuer.user_claim),
    ):
        if not text or len(text) > MAX_TEXT_CHARS:
            yield key, f"has {len(text)} characters; expected 1 to {MAX_TEXT_CHARS}"
    if (issuer.jwks_url is None) == (not issuer.keys):
        yield "jwksUrl", "or `keys` is needed, and not both"
    if issuer.jwks_url is not None:
        problem = url_problem(issuer.jwks_url)
        if problem is not None:
            yield "jwksUrl", problem
        elif not issuer.jwks_url.startswith("https:") and not _is_loopback(issuer.jwks_url):
            yield "jwksUrl", "is not https; whoever can change the keys on the way is everyone"


def _is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in _LOOPBACK


def endpoint_problem(url: str) -> str | None:
    """The problem of a URL, or of the subject after `nats:`; None if it is valid."""
    if not url.startswith(NATS_SCHEME):
        return url_problem(url)
    if len(url) > MAX_NAME_CHARS or not is_subject(url[len(NATS_SCHEME) :]):
        return (
            "is no subject; expected `nats:` and words with dots between, without wildcards, "
            "without $ before a word and _ before the first"
        )
    return None


def _endpoint_problems(endpoint: AuthProvider | RpcRoute | CallbackSettings) -> Iterator[Problem]:
    problem = endpoint_problem(endpoint.url)
    if problem is not None:
        yield "url", problem
    if isinstance(endpoint, RpcRoute) and _CONTROL.search(endpoint.method):
        yield "method", "holds control characters; expected a pattern such as cart.*"
    yield from header_problems(endpoint.headers)


def header_problems(headers: Mapping[str, str]) -> Iterator[Problem]:
    """The problems of headers that the hub will send, without their values."""
    if len(headers) > MAX_ENTRIES:
        yield "headers", f"has more than {MAX_ENTRIES} entries"
    for name, value in headers.items():
        if not _HEADER.fullmatch(name):
            yield "headers", f"has the name {name[:100]!r}, which HTTP does not allow"
        elif len(value) > MAX_TEXT_CHARS or not value.isascii() or not value.isprintable():
            yield f"headers.{name}", "holds what HTTP does not allow (value hidden)"


def _channel_problems(settings: ChannelSettings) -> Iterator[Problem]:
    if not is_json(settings.metadata):
        yield "metadata", f"is not JSON of at most {MAX_METADATA_DEPTH} levels"
    elif len(msgspec.json.encode(settings.metadata)) > MAX_METADATA_BYTES:
        yield "metadata", f"is larger than {MAX_METADATA_BYTES} bytes"


def is_json(value: object, depth: int = 0) -> bool:
    if depth > MAX_METADATA_DEPTH:
        return False
    if isinstance(value, dict):
        return all(isinstance(k, str) and is_json(v, depth + 1) for k, v in value.items())
    if isinstance(value, list):
        return all(is_json(item, depth + 1) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int)
