"""An owned channel's access rules, as every protocol enforces them."""

from __future__ import annotations

from hubbub.domain.commands.jids import parse_jid
from hubbub.domain.commands.objects import HChannel
from hubbub.domain.rules import Binding


def binding_of(channel: HChannel, domain: str) -> Binding:
    """Converts a channel record to the hub's binding of the channel. Participants of other domains
    stay in the record, but are not clients of the hub."""
    participants = (user_of(each, domain) for each in channel.participants)
    return Binding(
        owner=user_of(channel.owner, domain) or "",
        participants=frozenset(user for user in participants if user is not None),
        active=channel.active,
    )


def user_of(jid: str, domain: str) -> str | None:
    """Returns the user id that a JID means in a hub; None for a JID of another hub."""
    parsed = parse_jid(jid)
    return parsed.user if parsed is not None and parsed.domain == domain else None
