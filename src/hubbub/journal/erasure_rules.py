"""How erasure changes one event of a user: the identity is removed, countable data stays.

An event belongs to the user if it names the user as its actor, author, sender or receiver, or if it
belongs to one of the user's sessions or durable subscriptions, or to one of the user's own channels
(`u:<user>`, `notification:u:<user>`). Payload, headers, extra values, language and location of
these events are removed. Names and ids that identify the user are replaced by an alias, the same
everywhere, so that counts of sessions, users, sequences and threads stay the same. The alias is
random and cannot be traced to the user.
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
"""Every text field: if its whole value is the user's id or address, it is replaced by the alias."""

Row = dict[str, Any]


class ErasureSubject:
    """The user to erase, and the ids that identify the user."""

    def __init__(self, hub: str, user: str) -> None:
        self.hub = hub
        self.user = user
        self.alias = f"erased-{secrets.token_hex(6)}"
        self.channels = {
            of_user(user): of_user(self.alias) for of_user in (user_channel, user_notifications)
        }
        """The user's own channels, and their new names."""
        self.sessions: set[str] = set()
        self.subscriptions: set[tuple[str | None, str]] = set()
        """Durable subscriptions with their channels: other users may have used the same names."""
        self.address = str(Jid(user, hub))
        """The user's JID in hMessages; the JIDs of the user's sessions begin with it and a
        slash."""
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
        """The row without the user's data. Only for rows of the subject's hub."""
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
        """Whether the name or the value is the user's id or address, or JSON that contains the
        id."""
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
        """The alias of a value, the same in every segment."""
        known = self._aliases
        return known.setdefault((what, value), f"{self.alias}-{what}-{len(known) + 1}")
