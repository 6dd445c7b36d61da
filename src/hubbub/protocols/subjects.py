"""Names of hubs, methods and streams as words of a NATS subject."""

from __future__ import annotations

from urllib.parse import quote

_SAFE = ":@!,;=+"
"""Besides letters, digits, `_`, `-` and `~`: what NATS allows and gives no meaning to."""


def word(name: str) -> str:
    """One word. Whatever else is in the name is percent-encoded, the dot as well."""
    return quote(name, safe=_SAFE).replace(".", "%2E")


def words(name: str) -> str:
    """A name whose dots separate words, as in `cart.add`; else one word."""
    parts = name.split(".")
    return ".".join(map(word, parts)) if all(parts) else word(name)
