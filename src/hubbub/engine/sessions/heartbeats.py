"""Heartbeats and deadlines of a node's sessions, without a timer per session."""

from __future__ import annotations

from hubbub.domain.errors import (
    AuthenticationTimeout,
    HeartbeatTimeout,
    HubbubError,
    InvalidToken,
    NotAuthenticated,
)
from hubbub.domain.notices import Ping
from hubbub.domain.permissions import ANONYMOUS
from hubbub.engine.hub import SessionState
from hubbub.engine.limits import EngineLimits
from hubbub.engine.sessions.channel_tokens import drop_ended
from hubbub.engine.sessions.expiries import Expiries
from hubbub.engine.sessions.subscriptions import Subscriptions
from hubbub.ports.clock import Clock


class _Wheel:
    """Returns every session once per interval, a share of them every second."""

    def __init__(self, interval_seconds: float) -> None:
        self.interval_seconds = interval_seconds
        self._slots: list[dict[SessionState, None]] = [
            {} for _ in range(max(1, round(interval_seconds)))
        ]
        self._hand = 0

    def add(self, session: SessionState) -> None:
        """The session's first turn comes after one interval."""
        self._slots[self._hand - 1][session] = None

    def remove(self, session: SessionState) -> None:
        for slot in self._slots:
            slot.pop(session, None)

    def turn(self) -> list[SessionState]:
        """Called every second: returns the sessions whose turn it is."""
        self._hand = (self._hand + 1) % len(self._slots)
        return list(self._slots[self._hand])


class Heartbeats:
    """Pings silent clients, and ends sessions that do not respond, do not authenticate in time, or
    whose identity expired."""

    def __init__(
        self,
        clock: Clock,
        limits: EngineLimits,
        subscriptions: Subscriptions,
        expiries: Expiries,
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._subscriptions = subscriptions
        self._expiries = expiries
        self._pinged: dict[SessionState, float] = {}
        self._unauthenticated: dict[SessionState, float] = {}
        self._wheels = {
            False: _Wheel(limits.ping_interval_seconds),
            True: _Wheel(limits.stream_heartbeat_seconds),
        }
        """Key: is the connection one-way (SSE)?"""

    def add(self, session: SessionState) -> None:
        self.expect_authentication(session)
        self._expiries.watch(session)
        self._wheels[session.connection.one_way].add(session)

    def remove(self, session: SessionState) -> None:
        self._pinged.pop(session, None)
        self._unauthenticated.pop(session, None)
        self._expiries.forget(session)
        self._wheels[session.connection.one_way].remove(session)

    def expect_authentication(self, session: SessionState) -> None:
        """Sets a deadline for an anonymous session if its hub permits no anonymous sessions."""
        settings = session.hub.configuration.settings
        if not settings.allow_anonymous and not session.identity.authenticated:
            deadline = self._clock.monotonic() + self._limits.authenticate_within_seconds
            self._unauthenticated.setdefault(session, deadline)

    def authenticated(self, session: SessionState) -> None:
        """The session authenticated: removes its deadline; its token's expiry remains."""
        self._unauthenticated.pop(session, None)
        self._expiries.watch(session)

    def disconnect_unauthenticated(self, error: HubbubError) -> None:
        """Disconnects all sessions that have not authenticated, including sessions of hubs that do
        not exist, which are in no list of sessions."""
        for session in list(self._unauthenticated):
            session.connection.disconnect(error)

    def sweep(self, now: float) -> None:
        """Called every second."""
        for wheel in self._wheels.values():
            for session in wheel.turn():
                self._look_after(session, now, wheel.interval_seconds)
        for session in self._expiries.take_ended():
            self._check_tokens(session)
        for session, deadline in list(self._pinged.items()):
            if deadline > now:
                break
            del self._pinged[session]
            if session.last_seen < deadline - self._limits.pong_timeout_seconds:
                session.connection.disconnect(HeartbeatTimeout("no answer to a ping; closing"))
        for session, deadline in list(self._unauthenticated.items()):
            if deadline <= now:
                del self._unauthenticated[session]
                seconds = self._limits.authenticate_within_seconds
                session.connection.disconnect(
                    AuthenticationTimeout(
                        f"not authenticated within {seconds:g} seconds: hub "
                        f"{session.hub.name!r} wants a token, or does not exist"
                    )
                )

    def _look_after(self, session: SessionState, now: float, interval_seconds: float) -> None:
        self._check_tokens(session)
        silent = now - session.last_seen
        if silent >= interval_seconds * 0.9 and not session.closed:
            session.send(Ping())
            if not session.connection.one_way:
                # A ping that is still unanswered keeps its deadline.
                self._pinged.setdefault(session, now + self._limits.pong_timeout_seconds)

    def _check_tokens(self, session: SessionState) -> None:
        try:
            session.check_identity()
        except NotAuthenticated:
            pass  # it has a deadline of its own
        except InvalidToken as error:
            self._expire(session, error)
        if session.channel_readers and drop_ended(session, list(session.channel_readers)):
            self._subscriptions.recheck(session)
        self._expiries.watch(session)

    def _expire(self, session: SessionState, error: HubbubError) -> None:
        """The identity expired. The session becomes anonymous if the hub permits that, and ends
        otherwise."""
        if session.hub.configuration.settings.allow_anonymous and not session.connection.one_way:
            session.hub.identify(session, ANONYMOUS)
            self._subscriptions.recheck(session)
        else:
            session.connection.disconnect(error)
