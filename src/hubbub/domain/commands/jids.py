"""Addresses: JIDs of users and sessions, and ids of channels.

The domain of a JID is a hub, its user a user id, its resource a session id. Characters that a JID
forbids are percent-encoded in hubs and user ids.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

import msgspec

from hubbub.domain.commands.status import invalid, not_available
from hubbub.domain.errors import InvalidName
from hubbub.domain.names import (
    DEAD_LETTER_SUFFIX,
    ChannelKind,
    check_name,
    kind_of,
    user_channel,
    without_dead_letters,
)
from hubbub.domain.rules import is_collection

HUB_USER: Final = "hnode"
"""The user id that stands for the hub itself."""
RESERVED_CHANNELS: Final = frozenset(
    {"hAdminChannel", "hChannelAdmin", "hChannels", "hMessages", "hSubscriptions"}
)
"""Names of channels that the hub itself uses, besides `COLLECTIONS`."""
_JID: Final = re.compile("([^@/<>'\"]+)@([^@/<>'\"]+)(?:/([^/<>'\"]*))?")
_TO_ENCODE: Final = re.compile("[@/<>'\"%]")
_FORBIDDEN_IN_CHANNELS: Final = re.compile("[@/<>'\"]")


_KNOWN_CHARS: Final = 128
"""JIDs up to this length are cached when parsed: a command names the same JIDs twice, and a client
sends many commands."""


class Jid(msgspec.Struct, frozen=True):
    """The address of a user (`resource` is None), or of one session of a user. The parts are
    decoded: `domain` is a hub, `user` a user id."""

    user: str
    domain: str
    resource: str | None = None

    @property
    def bare(self) -> Jid:
        return self if self.resource is None else Jid(self.user, self.domain)

    def __str__(self) -> str:
        bare = f"{_encoded(self.user)}@{_encoded(self.domain)}"
        return bare if self.resource is None else f"{bare}/{self.resource}"


def parse_jid(text: str) -> Jid | None:
    """Returns None if the text is not a JID. An empty resource means a bare JID."""
    return _parse_known(text) if len(text) <= _KNOWN_CHARS else _parse(text)


def _parse(text: str) -> Jid | None:
    found = _JID.fullmatch(text)
    if found is None:
        return None
    user, domain, resource = found.groups()
    return Jid(unquote(user), unquote(domain), resource or None)


_parse_known = lru_cache(maxsize=4096)(_parse)


def is_usual_jid(text: str) -> bool:
    """Whether the text is a short JID in ASCII, written as the hub itself writes it."""
    return len(text) <= _KNOWN_CHARS and _is_usual(text)


@lru_cache(maxsize=4096)
def _is_usual(text: str) -> bool:
    return text.isascii() and str(_parse(text)) == text


def hub_jid(domain: str) -> Jid:
    return Jid(HUB_USER, domain)


def channel_id(channel: str, domain: str) -> str:
    """The id (chid) of a channel of a hub."""
    return f"#{channel}@{_encoded(domain)}"


def parse_channel(text: str, domain: str) -> str:
    """Returns the name of the channel that a chid means to a sender of the domain. Raises
    `CommandRefused`: 7 for an invalid chid, 9 for a chid of another domain or of a user."""
    target = parse_target(text, domain)
    if isinstance(target, Jid):
        raise not_available(f"chid {text!r} is a user's; give #name@{_encoded(domain)}")
    return target


def parse_target(text: str, domain: str) -> str | Jid:
    """Returns the channel's name, or the user's or session's JID, that a chid means to a sender of
    the domain. Raises `CommandRefused` like `parse_channel`."""
    if not text.startswith("#") and "@" in text:
        jid = parse_jid(text)
        if jid is None:
            raise invalid(f"chid {text!r} is neither a channel nor a JID")
        return jid
    name, separator, of = text.removeprefix("#").partition("@")
    if _FORBIDDEN_IN_CHANNELS.search(name + of) or (separator and not of):
        raise invalid(f"chid {text!r} is malformed; give name, #name or #name@{_encoded(domain)}")
    _check_channel_name(name, text)
    if separator and unquote(of) != domain:
        raise not_available(f"chid {text!r} belongs to another domain than {domain!r}")
    return name


def _check_channel_name(name: str, chid: str) -> None:
    try:
        check_name(name, "channel")
    except InvalidName as error:
        raise invalid(f"chid {chid!r}: {error}") from None
    if name in RESERVED_CHANNELS or is_collection(name):
        raise invalid(f"chid {chid!r} is reserved")
    if (
        kind_of(name) is not ChannelKind.DEFAULT
        or without_dead_letters(name).startswith(user_channel(""))
        or name.endswith(DEAD_LETTER_SUFFIX)
    ):
        raise invalid(f"chid {chid!r} has a prefix or suffix that means another kind of channel")


def _encoded(part: str) -> str:
    return _TO_ENCODE.sub(lambda found: f"%{ord(found.group()):02X}", part)
