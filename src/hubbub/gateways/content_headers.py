"""Content headers of responses, for all HTTP handlers.

Tenants determine the content of most responses, and often its content type. A browser must never
treat it as a page, a script, a style sheet or another active document in the hub's origin, which
the dashboard shares. So each response uses `passive`, except for the hub's own files, which use
`own`."""

from __future__ import annotations

import re
from functools import lru_cache

from hubbub.domain.messages import BINARY, JSON, TEXT

SPELT_HEADER = "Hubbub-Content-Type"
"""Carries the content type as spelt by the publisher or service, if it is not sent as
`Content-Type`."""

_NOSNIFF = "X-Content-Type-Options: nosniff\r\n"
_HARMLESS = (
    f"{_NOSNIFF}Content-Security-Policy: sandbox; default-src 'none'; frame-ancestors 'none'\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
)
_SHOWN = frozenset(
    (
        *(JSON, TEXT, "application/ld+json", "text/event-stream"),
        *(f"image/{kind}" for kind in ("avif", "bmp", "gif", "jpeg", "png", "webp")),
        *(f"audio/{kind}" for kind in ("mp4", "mpeg", "ogg", "wav", "webm")),
        *(f"video/{kind}" for kind in ("mp4", "ogg", "webm")),
    )
)
"""Types that a browser may display, since they contain nothing executable."""
_SPELT = re.compile(r'([a-z0-9.+/-]+)(?: *; *charset="?[a-z0-9._-]{1,40}"?)?', re.IGNORECASE)
_PRINTABLE = re.compile(r"[ -~]{1,255}")


@lru_cache(maxsize=1024)
def passive(content_type: str) -> str:
    """Complete header lines for bytes determined by a tenant. A type not known to be passive
    becomes a download of `application/octet-stream`; so does one that browsers and this hub could
    interpret differently, such as a list of types."""
    spelt = _SPELT.fullmatch(content_type)
    if spelt is not None and spelt[1].lower() in _SHOWN:
        return f"Content-Type: {content_type}\r\n{_HARMLESS}"
    lines = f"Content-Type: {BINARY}\r\nContent-Disposition: attachment\r\n{_HARMLESS}"
    if content_type != BINARY and _PRINTABLE.fullmatch(content_type):
        lines += f"{SPELT_HEADER}: {content_type}\r\n"
    return lines


def own(content_type: str) -> str:
    """Complete header lines for the hub's own content: pages, scripts, metrics."""
    return f"Content-Type: {content_type}\r\n{_NOSNIFF}"
