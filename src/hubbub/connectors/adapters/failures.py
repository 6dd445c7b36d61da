"""What went wrong with a medium, in the two words that an adapter has for it, without secrets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from hubbub.ports.adapters import AdapterFailed, TemporaryFailure
from hubbub.ports.outgoing import SendFailed

MAX_CHARS = 300
_FINAL = ("refused_address", "too_large", "protocol")


class Concealer:
    """Texts of others without the secrets that an adapter was given."""

    def __init__(self, secrets: Iterable[str | None]) -> None:
        """Longer ones first: one may begin with another."""
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


def need(module: str, extra: str) -> AdapterFailed:
    """What to raise where an optional library is missing."""
    return AdapterFailed(
        f"the Python package {module!r} is not installed; install hubbub[{extra}] on the server"
    )
