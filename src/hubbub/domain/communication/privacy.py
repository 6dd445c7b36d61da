"""Privacy policies: which messages a peer accepts, by their properties and the time of day."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from hubbub.domain.communication.messages import AUTH, PeerMessage
from hubbub.domain.communication.peers import PeerInfo, PrivacyPolicy, TimeWindow, check_zone
from hubbub.domain.errors import InvalidAttribute


def is_taken(peer: PeerInfo, message: PeerMessage, now: float) -> bool:
    """Whether all policies of the peer accept the message at this time (seconds since 1970). AUTH
    messages always pass: a peer that never receives a login request could not log in."""
    if message.type == AUTH:
        return True
    return all(_agrees(policy, message, now) for policy in peer.privacy)


def _agrees(policy: PrivacyPolicy, message: PeerMessage, now: float) -> bool:
    return _matches(policy, message, now) == (policy.effect == "allow")


def _matches(policy: PrivacyPolicy, message: PeerMessage, now: float) -> bool:
    for values, text in (
        (policy.types, message.type),
        (policy.subtypes, message.subtype),
        (policy.senders, message.sender),
        (policy.languages, message.language),
    ):
        if values and text not in values:
            return False
    return policy.during is None or is_within(policy.during, now)


def is_within(window: TimeWindow, now: float) -> bool:
    """`begins` is inclusive, `ends` exclusive. Equal bounds mean the whole day. An unknown time
    zone counts as UTC."""
    try:
        zone: tzinfo = check_zone(window.zone)
    except InvalidAttribute:
        zone = UTC
    local = datetime.fromtimestamp(now, UTC).astimezone(zone)
    at = local.strftime("%H:%M")
    if window.begins < window.ends:
        return window.begins <= at < window.ends
    return at >= window.begins or at < window.ends
