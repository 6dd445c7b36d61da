"""Requests to services and auth providers of a tenant."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from hubbub.domain.callbacks import Reach
from hubbub.ports.outgoing import HttpRequest


def post(
    hub: str, url: str, body: bytes, headers: Mapping[str, str], seconds: float, max_bytes: int
) -> HttpRequest:
    """Sent once: who answers it may do something."""
    return HttpRequest(
        hub,
        "POST",
        url,
        tuple(headers.items()),
        body,
        timeout_seconds=seconds,
        max_answer_bytes=max_bytes,
        repeatable=False,
    )


def reach_of(addresses: Reach | None) -> Reach:
    """Of an endpoint whose hub has had its say."""
    return addresses or "public"


def header_safe(text: str) -> str:
    """Header values are ASCII; other characters go percent-encoded, as in paths."""
    return quote(text, safe=" !#$&'()*+,-./:;=?@[]^_`{|}~")
