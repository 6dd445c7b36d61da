"""Subscriptions of users: stored, and applied to all present and future sessions of the user. No
messages are queued for absent users."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping

from hubbub.domain.commands.routed import UserFollows
from hubbub.domain.requests import Subscribe, SubscribeItem, Unsubscribe
from hubbub.engine.hub import Hub, SessionState
from hubbub.engine.rooms import Room
from hubbub.engine.sessions.subscriptions import Subscriptions
from hubbub.ports.storage.commands import CommandStore
from hubbub.tasks import TaskSet

_STREAM = "sse"
"""A stream (SSE) declares its channels when it opens, and gets no others."""


class UserSubscriptions(Room):
    """Applies users' subscriptions to the sessions of one node."""

    def __init__(
        self,
        store: CommandStore,
        subscriptions: Subscriptions,
        hubs: Mapping[str, Hub],
        tasks: TaskSet,
    ) -> None:
        self._store = store
        self._hubs = hubs
        self._subscriptions = subscriptions
        self._tasks = tasks
        self.node_requests = {UserFollows: self._follow}

    async def authenticated(self, session: SessionState) -> None:
        """Called when a session authenticated: subscribes it to the channels of its user."""
        user_id, configuration = session.identity.user_id, session.hub.configuration
        if user_id is None or not configuration.settings.commands:
            return
        channels = await self._store.read_user_subscriptions(session.hub.name, user_id)
        await self._begin(session, [each for each in channels if _is_active(session.hub, each)])

    async def _follow(self, _: str, request: UserFollows) -> None:
        """Applies a user's new subscription or unsubscription to the user's sessions."""
        known, channel = self._hubs.get(request.hub), request.channel
        sessions = [] if known is None else _sessions_of(known, (request.user_id,))
        if request.follows:
            await asyncio.gather(*(self._begin(each, (channel,)) for each in sessions))
        else:
            for session in sessions:
                if channel in session.followed():
                    self._subscriptions.unsubscribe(session, Unsubscribe((channel,)))

    def channel_changed(self, hub: str, channel: str) -> None:
        """Called when a channel changed: subscribes the sessions of its subscribers if it is
        active."""
        known = self._hubs.get(hub)
        if known is not None and known.sessions and _is_active(known, channel):
            self._tasks.start(self._resume(known, channel))

    async def _resume(self, hub: Hub, channel: str) -> None:
        users = await self._store.read_subscribed_users(hub.name, channel)
        sessions = _sessions_of(hub, frozenset(users))
        await asyncio.gather(*(self._begin(each, (channel,)) for each in sessions))

    async def _begin(self, session: SessionState, channels: Iterable[str]) -> None:
        wanted = tuple(
            SubscribeItem(channel) for channel in channels if channel not in session.followed()
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
