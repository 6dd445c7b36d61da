"""A channel with an owner, as it binds every door of the hub."""

from __future__ import annotations

from hubbub.domain.commands.jids import parse_jid
from hubbub.domain.commands.objects import HChannel
from hubbub.domain.rules import Binding


def binding_of(channel: HChannel, domain: str) -> Binding:
    """Users of other domains, who stay in the record, are no clients of the hub."""
    participants = (user_of(each, domain) for each in channel.participants)
    return Binding(
        owner=user_of(channel.owner, domain) or "",
        participants=frozenset(user for user in participants if user is not None),
        active=channel.active,
    )


def user_of(jid: str, domain: str) -> str | None:
    """The user id that a JID means in a hub; None: a user of another one."""
    parsed = parse_jid(jid)
    return parsed.user if parsed is not None and parsed.domain == domain else None
