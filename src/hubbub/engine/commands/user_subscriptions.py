"""Subscriptions that belong to a user: they are stored, and serve all sessions of the user, present
and future. Nothing queues for users who are away."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from hubbub.domain.requests import ChannelRequest, Subscribe, Unsubscribe
from hubbub.engine.hub import Hub, SessionState
from hubbub.engine.sessions.subscriptions import Subscriptions
from hubbub.ports.storage.commands import CommandStore
from hubbub.tasks import TaskSet

_STREAM = "sse"
"""A stream names its channels when it begins, and gets no others."""


class UserSubscriptions:
    """Those of the sessions of one node."""

    def __init__(self, store: CommandStore, subscriptions: Subscriptions, tasks: TaskSet) -> None:
        self._store = store
        self._subscriptions = subscriptions
        self._tasks = tasks

    async def welcome(self, session: SessionState) -> None:
        """The session belongs to a user: begin what the user is subscribed to."""
        user_id, configuration = session.identity.user_id, session.hub.configuration
        if user_id is None or not configuration.settings.commands:
            return
        channels = await self._store.read_user_subscriptions(session.hub.name, user_id)
        await self._begin(session, [each for each in channels if _is_active(session.hub, each)])

    async def changed(self, hub: Hub, user_id: str, channel: str, follows: bool) -> None:
        """The user subscribed, or unsubscribed: so do the sessions of the user."""
        sessions = _sessions_of(hub, (user_id,))
        if follows:
            await asyncio.gather(*(self._begin(each, (channel,)) for each in sessions))
        else:
            for session in sessions:
                if channel in session.followed():
                    self._subscriptions.unsubscribe(session, Unsubscribe((channel,)))

    def channel_changed(self, hub: Hub, channel: str) -> None:
        """A channel that is active (again) serves who is subscribed to it."""
        if hub.sessions and _is_active(hub, channel):
            self._tasks.start(self._resume(hub, channel))

    async def _resume(self, hub: Hub, channel: str) -> None:
        users = await self._store.read_subscribed_users(hub.name, channel)
        sessions = _sessions_of(hub, frozenset(users))
        await asyncio.gather(*(self._begin(each, (channel,)) for each in sessions))

    async def _begin(self, session: SessionState, channels: Iterable[str]) -> None:
        wanted = tuple(
            ChannelRequest(channel) for channel in channels if channel not in session.followed()
        )
        if wanted and not session.closed:
            await self._subscriptions.subscribe(session, Subscribe(wanted))


def _sessions_of(hub: Hub, users: Collection[str]) -> list[SessionState]:
    return [
        session
        for user_id in users
        for session in hub.sessions_of(user_id)
        if session.connection.technology != _STREAM
    ]


def _is_active(hub: Hub, channel: str) -> bool:
    binding = hub.configuration.binding_of(channel)
    return binding is not None and binding.active
