"""`KEY=VALUE` in arguments and options."""

from __future__ import annotations

from hubbub.domain.errors import BadRequest


def pair(text: str) -> tuple[str, str]:
    """Raises `BadRequest`."""
    key, separator, value = text.partition("=")
    if not separator:
        raise BadRequest(f"{text!r} is not KEY=VALUE")
    return key, value
