"""Sessions and subscriptions for the journal: who was here, when, and what they followed."""

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
"""Why a session ended whose connection went without a word."""
RESTORED = "restored"
"""Why a session ended that went on as another one, or began that had been there before."""


class Chronicle:
    """Tells the journal; costs nothing where there is none."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._on = journal.enabled

    def session_opened(self, session: SessionState, reason: str | None = None) -> None:
        if self._on:
            self._journal.record(self._of(SESSION_OPENED, session, reason=reason))

    def session_closed(self, session: SessionState, reason: str | None = None) -> None:
        if self._on:
            event = self._of(SESSION_CLOSED, session, reason=reason or session.reason or LOST)
            event.duration = max(0, event.at - int(session.opened_at * 1e6))
            self._journal.record(event)

    def subscribed(self, session: SessionState, channel: str) -> None:
        self._subscription(SUBSCRIBED, session, channel)

    def unsubscribed(self, session: SessionState, channel: str) -> None:
        self._subscription(UNSUBSCRIBED, session, channel)

    def cut_off(self, session: SessionState, unread_bytes: int) -> None:
        """A slow consumer: what waited for it is dropped."""
        if self._on:
            event = self._of(DROPPED, session, reason="slow_consumer")
            event.size = unread_bytes
            self._journal.record(event)

    def _subscription(self, kind: str, session: SessionState, channel: str) -> None:
        """A pattern is journalled as the rules of what it names say."""
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
