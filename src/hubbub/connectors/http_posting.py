"""Requests to services and auth providers of a tenant."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from hubbub.ports.outgoing import HttpRequest


def post(
    hub: str, url: str, body: bytes, headers: Mapping[str, str], seconds: float, max_bytes: int
) -> HttpRequest:
    """Makes a POST request that is not repeated, because its receiver may have side effects."""
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


def header_safe(text: str) -> str:
    """Header values are ASCII; other characters are percent-encoded, as in paths."""
    return quote(text, safe=" !#$&'()*+,-./:;=?@[]^_`{|}~")
