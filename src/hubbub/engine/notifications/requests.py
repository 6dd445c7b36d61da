"""Requests of a session about notifications."""

from __future__ import annotations

from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import NotificationInfo, NotificationsMarked
from hubbub.domain.notifications import Selection
from hubbub.domain.requests import MarkNotifications, NotificationQuery, NotificationStateQuery
from hubbub.engine.hub import SessionState
from hubbub.engine.notifications.service import NotificationService
from hubbub.engine.rooms import Room
from hubbub.engine.session_requests import InTurn


class NotificationRequests(Room):
    """As with history, a session gets a response only when its client has read most of what was
    sent before."""

    def __init__(self, notifications: NotificationService) -> None:
        self._notifications = notifications
        self.session_requests = (
            InTurn(MarkNotifications, self._mark),
            InTurn(NotificationQuery, self._page),
            InTurn(NotificationStateQuery, self._state),
        )

    async def _page(self, session: SessionState, request: NotificationQuery) -> None:
        await session.connection.drain()
        session.check_identity()
        session.send(await self._notifications.page(session.hub, session.identity, request))

    async def _state(self, session: SessionState, request: NotificationStateQuery) -> None:
        await session.connection.drain()
        session.check_identity()
        channel = request.channel
        state = await self._notifications.state(session.hub, session.identity, channel)
        session.send(NotificationInfo(channel, state, request.req_id))

    async def _mark(self, session: SessionState, request: MarkNotifications) -> None:
        """A failed mark gets a response of the same form as a successful one."""
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
