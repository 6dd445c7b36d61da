"""Journal events about sessions and their subscriptions."""

from __future__ import annotations

from hubbub.domain.journal import (
    DROPPED,
    SESSION_CLOSED,
    SESSION_OPENED,
    SUBSCRIBED,
    UNSUBSCRIBED,
    JournalEvent,
)
from hubbub.domain.patterns import is_pattern, literal_start
from hubbub.engine.hub import SessionState
from hubbub.ports.clock import Clock
from hubbub.ports.journal import Journal

LOST = "lost"
"""End reason of a session whose connection was lost without a close."""
RESTORED = "restored"
"""End reason of a session that was continued by another one; also the start reason of the
latter."""


class Chronicle:
    """Writes the events of sessions to the journal, if there is one, and counts sessions."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._on = journal.enabled

    def session_opened(self, session: SessionState, reason: str | None = None) -> None:
        event = self._of(SESSION_OPENED, session, reason=reason)
        session.hub.counters.session_opened(event.at)
        if self._on:
            self._journal.record(event)

    def session_closed(self, session: SessionState, reason: str | None = None) -> None:
        event = self._of(SESSION_CLOSED, session, reason=reason or session.reason or LOST)
        event.duration = max(0, event.at - int(session.opened_at * 1e6))
        session.hub.counters.session_ended(event.at - event.duration, event.duration)
        if self._on:
            self._journal.record(event)

    def subscribed(self, session: SessionState, channel: str) -> None:
        self._subscription(SUBSCRIBED, session, channel)

    def unsubscribed(self, session: SessionState, channel: str) -> None:
        self._subscription(UNSUBSCRIBED, session, channel)

    def cut_off(self, session: SessionState, unread_bytes: int) -> None:
        """A slow consumer was disconnected and its backlog dropped."""
        if self._on:
            event = self._of(DROPPED, session, reason="slow_consumer")
            event.size = unread_bytes
            self._journal.record(event)

    def _subscription(self, kind: str, session: SessionState, channel: str) -> None:
        """A pattern is journalled according to the rules for the channels it names."""
        if not self._on:
            return
        place = literal_start(channel) if is_pattern(channel) else channel
        if session.hub.configuration.rules_for(place).journal != "off":
            event = self._of(kind, session)
            event.channel = channel
            self._journal.record(event)

    def _of(self, kind: str, session: SessionState, reason: str | None = None) -> JournalEvent:
        return JournalEvent(
            kind,
            int(self._clock.now() * 1e6),
            session.hub.name,
            session=session.id,
            user=session.identity.user_id,
            technology=session.connection.technology,
            reason=reason,
        )
