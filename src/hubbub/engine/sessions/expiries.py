"""Finds sessions with a token that expires soon, so that it ends on time without a timer per
session."""

from __future__ import annotations

from hubbub.engine.hub import SessionState
from hubbub.engine.limits import EngineLimits
from hubbub.ports.clock import Clock


class Expiries:
    """Every session is examined once per heartbeat: `watch` remembers those with a token (their own
    or one for a channel) that expires before the next examination."""

    def __init__(self, clock: Clock, limits: EngineLimits) -> None:
        self._clock = clock
        self._soon_seconds = 1 + max(limits.ping_interval_seconds, limits.stream_heartbeat_seconds)
        self._ends: dict[SessionState, int] = {}

    def watch(self, session: SessionState) -> None:
        """Called when the session is examined, and when it presents a token."""
        shown = [session.identity, *(r.identity for r in (session.channel_readers or {}).values())]
        ends = [each.expires_at for each in shown if each.expires_at is not None]
        soon = self._clock.now() + self._soon_seconds
        if ends and min(ends) <= soon and not session.closed:
            self._ends[session] = min(ends)
        else:
            self.forget(session)

    def forget(self, session: SessionState) -> None:
        self._ends.pop(session, None)

    def take_ended(self) -> list[SessionState]:
        """Removes and returns the sessions with an expired token."""
        now = self._clock.now()
        ended = [session for session, end in self._ends.items() if end < now]
        for session in ended:
            del self._ends[session]
        return ended
