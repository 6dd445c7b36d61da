"""Limits on patterns: of a session, and of a client with all of its sessions."""

from __future__ import annotations

from hubbub.domain.errors import BadRequest, NotPermitted, TooManyMatches
from hubbub.domain.limits import network_of, share_of
from hubbub.domain.patterns import check_pattern
from hubbub.domain.permissions import Identity, Level, Reader, may_read_pattern
from hubbub.domain.requests import SubscribeItem
from hubbub.engine.hub import Hub, HubPatterns, SessionState
from hubbub.engine.limits import EngineLimits


def check_readable(hub: Hub, identity: Identity, pattern: str) -> None:
    """Whether the pattern itself may be subscribed to. Raises `InvalidName`, `NotPermitted`."""
    check_pattern(pattern)
    if not may_read_pattern(Reader(identity), pattern, hub.configuration):
        raise NotPermitted(
            f"no permission covers all that {pattern!r} can match; subscribe to a pattern that "
            "a permission covers"
        )


class PatternBounds:
    def __init__(self, limits: EngineLimits) -> None:
        self._limits = limits

    def check(self, session: SessionState, request: SubscribeItem) -> None:
        """Raises `InvalidName`, `BadRequest`, `NotPermitted` or `TooManyMatches`."""
        pattern, hub = request.channel, session.hub
        session.check_identity()
        check_readable(hub, session.identity, pattern)
        if request.serial is not None or request.epoch is not None:
            raise BadRequest(
                f"{pattern!r} is a pattern: serials are of channels. Give a `timestamp`, or the "
                "serial of each channel with `byPattern`"
            )
        if pattern in (session.patterns or ()):
            return
        if len(session.patterns or ()) >= self._limits.session_patterns:
            raise TooManyMatches(
                f"a session may subscribe to {self._limits.session_patterns} patterns "
                f"(session.maxPatterns); {pattern!r} is one too many"
            )
        known = hub.patterns.sessions if hub.patterns is not None else {}
        if pattern not in known and len(known) >= self._limits.hub_patterns:
            raise TooManyMatches(
                f"the sessions of hub {hub.name!r} are subscribed to {len(known)} different "
                f"patterns (hub.maxPatterns); {pattern!r} is one too many"
            )
        share = share_of(self._limits.hub_patterns)
        if pattern not in known and self._uses_up(session, share):
            raise TooManyMatches(
                f"a client may subscribe to {share} different patterns of the "
                f"{self._limits.hub_patterns} of a hub (hub.maxPatterns); {pattern!r} is one too "
                "many"
            )

    def _uses_up(self, session: SessionState, share: int) -> bool:
        """Whether a client's sessions have the maximum number of different patterns."""
        patterns = session.hub.patterns
        if patterns is None or session.identity.level is not Level.CLIENT:
            return False
        return len(patterns.held.get(holder_of(session), ())) >= share

    def check_match(self, session: SessionState, channel: str, planned: int = 0) -> None:
        """Whether the session may follow one more channel by its patterns. Raises `NotPermitted`
        and `TooManyMatches`."""
        hub = session.hub
        if hub.patterns is None or not hub.patterns.match(session.patterns or (), channel):
            raise NotPermitted(f"no pattern of this session matches {channel!r}")
        if has_hook(session, channel):
            raise NotPermitted(f"{channel!r} has a hook: subscribe to it by its name")
        held = session.matched or {}
        if channel not in held and not self.has_room(session, hub.patterns, planned):
            raise self.too_many(channel, hub)

    def has_room(self, session: SessionState, patterns: HubPatterns, planned: int = 0) -> bool:
        """Whether the session may follow one more channel by its patterns."""
        most = self._limits.hub_matches
        if len(session.matched or ()) + planned >= self._limits.session_matches:
            return False
        if session.identity.level is not Level.CLIENT:
            return patterns.joined < most
        return patterns.joined < most and patterns.joined_by[session.holder] < share_of(most)

    def too_many(self, name: str, hub: Hub) -> TooManyMatches:
        limits = self._limits
        if hub.patterns is not None and hub.patterns.joined >= limits.hub_matches:
            return TooManyMatches(
                f"the sessions of hub {hub.name!r} follow {limits.hub_matches} channels by patterns"
                f" (hub.maxMatches): {name!r} is left out"
            )
        return TooManyMatches(
            f"a session may follow {limits.session_matches} channels by patterns "
            f"(session.maxMatches), and the sessions of a client {share_of(limits.hub_matches)}: "
            f"{name!r} is left out; narrow the pattern"
        )


def holder_of(session: SessionState) -> str:
    """Quota key: the user or network for which the session's patterns count. Services have none."""
    identity = session.identity
    if identity.level is not Level.CLIENT:
        return ""
    if identity.user_id is None:
        return network_of(session.address)
    return f"user {identity.user_id}"


def has_hook(session: SessionState, channel: str) -> bool:
    """Whether a hook decides about subscriptions to the channel. Patterns do not match such
    channels."""
    client = session.identity.level is Level.CLIENT
    return client and session.hub.rules_for(channel).subscribe_hook is not None
