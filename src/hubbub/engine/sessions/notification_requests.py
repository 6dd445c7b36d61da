"""Requests of a session about notifications."""

from __future__ import annotations

from hubbub.domain import requests
from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import NotificationInfo, NotificationsMarked
from hubbub.domain.notifications import Selection
from hubbub.domain.requests import NotificationRequest
from hubbub.engine.hub import SessionState
from hubbub.engine.notifications.service import Notifications


class NotificationRequests:
    """For all sessions of a node. As with history, a session is answered only when its client has
    read most of what it was sent before."""

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications

    async def answer(self, session: SessionState, request: NotificationRequest) -> None:
        """Raises the `HubbubError` that the session is told; one about marks has a form of its
        own."""
        if isinstance(request, requests.MarkNotifications):
            await self._mark(session, request)
            return
        await session.connection.drain()
        session.check_identity()
        if isinstance(request, requests.NotificationQuery):
            page = await self._notifications.page(session.hub, session.identity, request)
            session.send(page)
        else:
            who = session.hub, session.identity
            state = await self._notifications.state(*who, request.channel)
            session.send(NotificationInfo(request.channel, state, request.req_id))

    async def _mark(self, session: SessionState, request: requests.MarkNotifications) -> None:
        req_id = request.req_id or 0
        try:
            session.check_identity()
            which = Selection(request.ids, request.up_to, request.all)
            marked = await self._notifications.mark(
                session.hub, session.identity, request.channel, which
            )
            answer = NotificationsMarked(req_id, marked.marked, marked.state.unread, marked.unknown)
        except HubbubError as error:
            answer = NotificationsMarked(req_id, error=error)
        if request.req_id is not None:
            session.send(answer)
