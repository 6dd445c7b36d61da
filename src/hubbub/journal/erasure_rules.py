"""What erasure does to one event of a user: who it was goes, what can be counted stays.

An event is the user's own if it names the user as its doer, author, sender or receiver, if it
belongs to one of the user's sessions or durable subscriptions, or to one of the user's own channels
(`u:<user>`, `notification:u:<user>`). Of those the payload, the headers, the extra values, the
language and the location are removed. Names and ids that lead to the user become an alias, the same
one everywhere, so that sessions, users, sequences and threads are counted as before. The alias is
random: nobody can find the user by it.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

import msgspec

from hubbub.domain.commands.jids import Jid
from hubbub.domain.journal import JournalEvent
from hubbub.domain.names import user_channel, user_notifications

REMOVED: Final = ("payload", "headers", "extra", "language", "location")
MAPS: Final = ("headers", "extra")
NAMES: Final = tuple(
    name
    for name in JournalEvent.__struct_fields__
    if JournalEvent.__annotations__[name].startswith("str") and name not in ("kind", "hub", "node")
)
"""Every field that holds a text: whichever of them is just the user's id or address becomes the
alias."""

Row = dict[str, Any]


class Subject:
    """Whom an erasure is about, and what leads to them."""

    def __init__(self, hub: str, user: str) -> None:
        self.hub = hub
        self.user = user
        self.alias = f"erased-{secrets.token_hex(6)}"
        self.channels = {
            of_user(user): of_user(self.alias) for of_user in (user_channel, user_notifications)
        }
        """The user's own channels, and the names that they get."""
        self.sessions: set[str] = set()
        self.subscriptions: set[tuple[str | None, str]] = set()
        """Durable ones, each with its channel: their names may also be others'."""
        self.address = str(Jid(user, hub))
        """As hMessages name the user; those of the user's sessions begin with it and a slash."""
        self._quoted = msgspec.json.encode(user).decode()
        self._aliases: dict[tuple[str, object], str] = {}

    def is_user(self, text: str | None) -> bool:
        """Whether a text is the user's id or address."""
        return text is not None and (
            text in (self.user, self.address) or text.startswith(f"{self.address}/")
        )

    def owns(self, row: Row) -> bool:
        return (
            any(self.is_user(row[name]) for name in ("user", "author", "sender", "receiver"))
            or row["channel"] in self.channels
            or row["session"] in self.sessions
            or (row["channel"], row["subscription"]) in self.subscriptions
        )

    def erase(self, row: Row) -> Row:
        """The row without the user. Only for rows of the subject's hub."""
        own = self.owns(row)
        done = dict(row)
        if own:
            self._hide(row, done)
        for name in NAMES:
            if self.is_user(done[name]):
                done[name] = self.alias
            elif done[name] in self.channels:
                done[name] = self.channels[done[name]]
        for name in MAPS:
            if done[name] is not None:
                done[name] = [pair for pair in done[name] if not self._is_named(pair)]
        return done

    def _is_named(self, pair: tuple[str, str]) -> bool:
        """Whether a name or a value is the user's id or address, or JSON with the id inside."""
        return any(map(self.is_user, pair)) or self._quoted in pair[1]

    def _hide(self, row: Row, done: Row) -> None:
        for name in REMOVED:
            done[name] = None
        if row["session"] in self.sessions:
            done["session"] = self._aliased("session", row["session"])
        if row["producer"] is not None and row["user"] == self.user:
            done["producer"] = self._aliased("producer", row["producer"])
        subscription = (row["channel"], row["subscription"])
        if subscription in self.subscriptions:
            done["subscription"] = self._aliased("subscription", subscription)
            if row["peer"] is not None:
                done["peer"] = self._aliased("peer", row["peer"])
        if row["reason"] is not None and self.user in row["reason"]:
            done["reason"] = None

    def _aliased(self, what: str, value: object) -> str:
        """One alias for each value, the same in every segment."""
        known = self._aliases
        return known.setdefault((what, value), f"{self.alias}-{what}-{len(known) + 1}")
