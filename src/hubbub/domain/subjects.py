"""NATS subjects: encoding of hub, method and stream names, and which hub may use a subject."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

_SAFE = ":@!,;=+"
"""Characters besides letters, digits, `_`, `-` and `~` that NATS allows without a special
meaning."""


def word(name: str) -> str:
    """A name as one token of a subject; other characters, including dots, are percent-encoded."""
    return quote(name, safe=_SAFE).replace(".", "%2E")


def words(name: str) -> str:
    """A name as tokens separated by its dots, as in `cart.add`; or as one token."""
    parts = name.split(".")
    return ".".join(map(word, parts)) if all(parts) else word(name)


_SUBJECT = re.compile(r"[!-)+-\-/-=?-~]+(\.[!-)+-\-/-=?-~]+)*")
"""Printable ASCII except '*', '.' and '>', in tokens separated by dots."""


def is_subject(text: str) -> bool:
    """Whether a tenant may use the subject at all: no wildcard, no empty token, no token that
    begins with `$` (the NATS server's own subjects), no leading `_` (as in `_INBOX`)."""
    return (
        _SUBJECT.fullmatch(text) is not None
        and not text.startswith("_")
        and not any(part.startswith("$") for part in text.split("."))
    )


def rpc_prefix(root: str, hub: str) -> str:
    """The subject prefix of a hub's methods, unless a route sets another."""
    return f"{root}.rpc.{word(hub)}"


def auth_prefix(root: str, hub: str) -> str:
    return f"{root}.auth.{word(hub)}"


def belongs_to(subject: str, hub: str, given: Iterable[str], root: str) -> bool:
    """Whether a hub may send requests to the subject. Below `root`, a hub has only the subjects
    derived from its name; elsewhere, the subjects at or below the prefixes that an operator gave
    it."""
    if not is_subject(subject):
        return False
    if _is_below(subject, root):
        own = (rpc_prefix(root, hub), auth_prefix(root, hub))
        return any(_is_below(subject, prefix) for prefix in own)
    return any(is_subject(prefix) and _is_below(subject, prefix) for prefix in given)


def _is_below(subject: str, prefix: str) -> bool:
    return subject == prefix or subject.startswith(prefix + ".")
