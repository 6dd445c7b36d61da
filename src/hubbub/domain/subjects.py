"""Subjects of NATS: names of hubs, methods and streams as words of one, and whose a subject is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

_SAFE = ":@!,;=+"
"""Besides letters, digits, `_`, `-` and `~`: what NATS allows and gives no meaning to."""


def word(name: str) -> str:
    """A name as one word of a subject; other characters, dots included, are percent-encoded."""
    return quote(name, safe=_SAFE).replace(".", "%2E")


def words(name: str) -> str:
    """A name whose dots separate words, as in `cart.add`; else one word."""
    parts = name.split(".")
    return ".".join(map(word, parts)) if all(parts) else word(name)


_SUBJECT = re.compile(r"[!-)+-\-/-=?-~]+(\.[!-)+-\-/-=?-~]+)*")
"""Printable ASCII without '*', '.' and '>', in words with dots between."""


def is_subject(text: str) -> bool:
    """One that a tenant may have at all: no wildcard, no empty word, no word that begins with `$`,
    as subjects of the NATS server itself do, and no `_` at the beginning, as of `_INBOX`."""
    return (
        _SUBJECT.fullmatch(text) is not None
        and not text.startswith("_")
        and not any(part.startswith("$") for part in text.split("."))
    )


def rpc_prefix(root: str, hub: str) -> str:
    """Below it are the methods of a hub, where no route says otherwise."""
    return f"{root}.rpc.{word(hub)}"


def auth_prefix(root: str, hub: str) -> str:
    return f"{root}.auth.{word(hub)}"


def belongs_to(subject: str, hub: str, given: Iterable[str], root: str) -> bool:
    """Whether requests of a hub may go to the subject. Below `root`, under which the hubs' own
    subjects are, a hub has only those that are derived from its name; elsewhere, those at or below
    the prefixes that an operator gave it."""
    if not is_subject(subject):
        return False
    if _is_below(subject, root):
        own = (rpc_prefix(root, hub), auth_prefix(root, hub))
        return any(_is_below(subject, prefix) for prefix in own)
    return any(is_subject(prefix) and _is_below(subject, prefix) for prefix in given)


def _is_below(subject: str, prefix: str) -> bool:
    return subject == prefix or subject.startswith(prefix + ".")
