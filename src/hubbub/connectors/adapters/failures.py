"""Converts errors of a medium to `AdapterFailed` or `TemporaryFailure`, without secrets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NoReturn

from hubbub.ports.adapters import AdapterContext, AdapterFailed, TemporaryFailure
from hubbub.ports.outgoing import SendFailed

logger = logging.getLogger(__name__)
MAX_CHARS = 300
_MOST_NAMED = 3
_FINAL = ("refused_address", "too_large")
"""A garbled answer is not final: a proxy on the way may have given it."""


class Concealer:
    """Removes an adapter's secrets from external texts."""

    def __init__(self, secrets: Iterable[str | None]) -> None:
        """Longer secrets are replaced first, since one may be a prefix of another."""
        self._secrets = sorted((each for each in secrets if each), key=len, reverse=True)

    def __call__(self, text: object) -> str:
        """One printable line of at most 300 characters."""
        shown = str(text)
        for secret in self._secrets:
            shown = shown.replace(secret, "(hidden)")
        shown = "".join(letter if letter.isprintable() else " " for letter in shown)
        return " ".join(shown.split())[:MAX_CHARS]


def raise_send_failed(error: SendFailed, conceal: Concealer) -> NoReturn:
    """Raises `AdapterFailed` or `TemporaryFailure`."""
    text = conceal(error.message)
    if error.word in _FINAL:
        raise AdapterFailed(text) from None
    raise TemporaryFailure(text) from None


def tell_left(context: AdapterContext, refusals: Sequence[str]) -> None:
    """Reports what stays at the source and why, in the log and as the adapter's last error. Raises
    `AdapterFailed` unless the list is empty."""
    if refusals:
        more = len(refusals) - _MOST_NAMED
        text = "; ".join(refusals[:_MOST_NAMED]) + (f"; {more} more" if more > 0 else "")
        logger.warning("adapter %s of hub %r: %s", context.name, context.hub, text)
        raise AdapterFailed(text)


def need(module: str, extra: str) -> AdapterFailed:
    """The error for a missing optional library."""
    return AdapterFailed(
        f"the Python package {module!r} is not installed; install hubbub[{extra}] on the server"
    )
