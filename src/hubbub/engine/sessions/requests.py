"""Requests that need no feature: authentication, subscriptions, publishing, presence and
closing."""

from __future__ import annotations

from collections.abc import Callable

from hubbub.domain.notices import Failed
from hubbub.domain.requests import (
    Authenticate,
    Close,
    History,
    ListFilters,
    Pong,
    PresenceQuery,
    Restore,
    SetFilter,
    Subscribe,
    Threads,
    UndecodableRequest,
    UnsetFilter,
    Unsubscribe,
)
from hubbub.engine.hub import SessionState
from hubbub.engine.rooms import Room
from hubbub.engine.session_requests import AtOnce, InTurn
from hubbub.engine.sessions.authentication import Authentication
from hubbub.engine.sessions.filtering import SessionFilters
from hubbub.engine.sessions.queries import Queries
from hubbub.engine.sessions.restore import Restorer
from hubbub.engine.sessions.subscriptions import Subscriptions


class SessionsOwnRequests(Room):
    def __init__(
        self,
        subscriptions: Subscriptions,
        authentication: Authentication,
        restorer: Restorer,
        queries: Queries,
        filters: SessionFilters,
        close: Callable[[SessionState, bool], None],
    ) -> None:
        """`close` removes a session from its node, with or without keeping its state."""
        self._take_off = close
        self.session_requests = (
            AtOnce(Pong, _ignore, rated=False),
            AtOnce(UndecodableRequest, _reject),
            AtOnce(Close, self._close),
            InTurn(Subscribe, subscriptions.subscribe, lambda request: len(request.channels)),
            AtOnce(Unsubscribe, subscriptions.unsubscribe),
            InTurn(Authenticate, authentication.authenticate),
            InTurn(Restore, restorer.restore),
            InTurn(History, queries.history),
            InTurn(Threads, queries.threads),
            InTurn(PresenceQuery, queries.presence),
            InTurn(SetFilter, filters.answer),
            InTurn(UnsetFilter, filters.answer),
            InTurn(ListFilters, filters.answer),
        )

    def _close(self, session: SessionState, request: Close) -> None:
        session.reason = "closed"
        self._take_off(session, False)
        session.connection.close()


def _ignore(session: SessionState, request: Pong) -> None:
    """The arrival of the frame was already recorded as a sign of life."""


def _reject(session: SessionState, request: UndecodableRequest) -> None:
    session.hub.counters.messages_refused += 1
    session.send(Failed(request.error, request.req_id))
