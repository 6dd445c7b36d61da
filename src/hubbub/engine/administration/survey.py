"""Questions that concern all nodes: each answers for itself, and the answers are put together.

A node that does not answer in time is named, never waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from typing import Any, Literal

import msgspec

from hubbub.domain.errors import Denied, Malformed
from hubbub.engine.administration.views import (
    ChannelLoad,
    Counters,
    HubLoad,
    NodeLoad,
    SessionView,
)
from hubbub.engine.counters import HubCounters
from hubbub.engine.hub import Hub, SessionState
from hubbub.engine.node import Node


class NodeFacts(msgspec.Struct, frozen=True):
    """Role, version and load of a node in the cluster."""

    role: Literal["core", "edge"] = "core"
    version: str = ""
    partitions: int = 0
    channels: int = 0
    """Those that it owns and has in memory."""


class FindSessions(msgspec.Struct, frozen=True, tag="sessions"):
    hub: str
    limit: int
    after: str = ""
    user_id: str | None = None
    channel: str | None = None
    session_id: str | None = None


class EndSession(msgspec.Struct, frozen=True, tag="end"):
    hub: str
    session_id: str


class Load(msgspec.Struct, frozen=True, tag="load"):
    hub: str | None
    channels: int


class Count(msgspec.Struct, frozen=True, tag="count"):
    hub: str | None = None


class FindChannels(msgspec.Struct, frozen=True, tag="channels"):
    hub: str


class FindUsers(msgspec.Struct, frozen=True, tag="users"):
    """Who has a session that is subscribed to the channel."""

    hub: str
    channel: str


Question = FindSessions | EndSession | Load | Count | FindChannels | FindUsers

_encode = msgspec.msgpack.Encoder().encode
_decode_question: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)


class Survey:
    """Asks all nodes, and answers for this one."""

    def __init__(self, node: Node, node_name: str, facts: Callable[[], NodeFacts]) -> None:
        self._node = node
        self._node_name = node_name
        self._facts = facts
        self._started_at = node.clock.monotonic()
        node.bus.answer_with(self._answer_from_afar)

    async def ask(self, question: Question, kind: Any) -> tuple[list[Any], list[str]]:
        """The answers of all nodes, this one's first; and who did not answer."""
        answers = [self.answer(question)]
        replies = await self._node.bus.ask_others(_encode(question))
        silent = list(replies.silent)
        for node, data in sorted(replies.answers.items()):
            try:
                answers.append(msgspec.msgpack.decode(data, type=kind))
            except msgspec.MsgspecError:  # of another version
                silent.append(node)
        return answers, sorted(silent)

    async def subscribed(self, hub: str, channel: str) -> set[str]:
        """The users with a session that is subscribed, on all nodes that answer."""
        answers, _ = await self.ask(FindUsers(hub, channel), list[str])
        return {user for users in answers for user in users}

    async def _answer_from_afar(self, data: bytes) -> bytes:
        try:
            question = _decode_question.decode(data)
        except msgspec.MsgspecError as error:
            raise Malformed(f"a question cannot be read: {error}") from error
        return _encode(self.answer(question))

    def answer(self, question: Question) -> Any:
        if isinstance(question, FindSessions):
            return self._find_sessions(question)
        if isinstance(question, EndSession):
            return self._end_session(question)
        if isinstance(question, Load):
            return self._load(question)
        if isinstance(question, Count):
            return self._count(question)
        if isinstance(question, FindUsers):
            return self._find_users(question)
        return self._find_channels(question)

    # -- for this node --------------------------------------------------------------------------

    def _find_sessions(self, question: FindSessions) -> list[SessionView]:
        known = self._node.hubs.get(question.hub)
        sessions = known.sessions if known is not None else {}
        if question.session_id is not None:
            session = sessions.get(question.session_id)
            return [self._view(session)] if session is not None else []
        matching = [
            session
            for session in sessions.values()
            if session.id > question.after
            and question.user_id in (None, session.identity.user_id)
            and (question.channel is None or question.channel in (session.feeds or ()))
        ]
        first = nsmallest(question.limit, matching, key=lambda session: session.id)
        return [self._view(session) for session in first]

    def _view(self, session: SessionState) -> SessionView:
        identity = session.identity
        return SessionView(
            session_id=session.id,
            user_id=identity.user_id,
            level=identity.level.value,
            authenticated=identity.authenticated,
            token_id=identity.token_id,
            expires_at=identity.expires_at,
            opened_at=int(session.opened_at * 1000),
            channels=sorted(session.feeds or ()),
            node=self._node_name,
        )

    def _end_session(self, question: EndSession) -> list[SessionView]:
        """The sessions that were ended: one, or none."""
        known = self._node.hubs.get(question.hub)
        session = known.sessions.get(question.session_id) if known is not None else None
        if session is None:
            return []
        view = self._view(session)
        self._node.end(session, Denied("an administrator ended this session"))
        return [view]

    def _load(self, question: Load) -> NodeLoad:
        facts = self._facts()
        return NodeLoad(
            node=self._node_name,
            uptime_seconds=int(self._node.clock.monotonic() - self._started_at),
            sessions=self._node.session_count,
            hubs=[
                _load_of(each, question.channels)
                for name, each in sorted(self._node.hubs.items())
                if question.hub in (None, name)
            ],
            role=facts.role,
            version=facts.version,
            partitions=facts.partitions,
            channels=facts.channels,
        )

    def _count(self, question: Count) -> dict[str, Counters]:
        every = self._node.counters
        if question.hub is not None:
            return {question.hub: _counters(every.get(question.hub, HubCounters()))}
        return {name: _counters(counters) for name, counters in sorted(every.items())}

    def _find_users(self, question: FindUsers) -> list[str]:
        known = self._node.hubs.get(question.hub)
        if known is None or question.channel not in known.feeds:
            return []
        found = {
            session.identity.user_id
            for session in known.sessions.values()
            if question.channel in (session.feeds or ())
        }
        return sorted(user for user in found if user is not None)

    def _find_channels(self, question: FindChannels) -> dict[str, int]:
        known = self._node.hubs.get(question.hub)
        feeds = known.feeds if known is not None else {}
        return {channel: feed.subscribers for channel, feed in feeds.items()}


def _load_of(hub: Hub, channels: int) -> HubLoad:
    busiest = nsmallest(
        channels, hub.feeds.items(), key=lambda item: (-item[1].subscribers, item[0])
    )
    return HubLoad(
        hub=hub.name,
        sessions=len(hub.sessions),
        subscriptions=hub.counters.subscriptions,
        channel_count=len(hub.feeds),
        channels=[ChannelLoad(name, feed.subscribers) for name, feed in busiest],
    )


def _counters(counters: HubCounters) -> Counters:
    publishes = counters.publishes
    own = [name for name in Counters.__struct_fields__ if hasattr(counters, name)]
    return Counters(
        **{name: getattr(counters, name) for name in own},
        publish_requests=publishes.count,
        publish_seconds_mean=publishes.seconds / publishes.count if publishes.count else 0.0,
    )


def total(every: list[Counters], silent: list[str]) -> Counters:
    """The sum of several counters."""
    apart = ("publish_seconds_mean", "silent")
    names = [name for name in Counters.__struct_fields__ if name not in apart]
    sums = {name: sum(getattr(counters, name) for counters in every) for name in names}
    publishes = sums["publish_requests"]
    seconds = sum(each.publish_seconds_mean * each.publish_requests for each in every)
    return Counters(
        **sums, publish_seconds_mean=seconds / publishes if publishes else 0.0, silent=silent
    )
