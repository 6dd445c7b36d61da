"""Presence of sessions in channels: reports to the owners, and the members that sessions see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from hubbub.domain.asking import FeedEvent
from hubbub.domain.envelope import check_storable
from hubbub.domain.errors import HubbubError, InvalidAttribute, NotFound
from hubbub.domain.notices import Failed, Member, Notice, Occupancy, Presence
from hubbub.engine.delivery.feed import Feed
from hubbub.engine.hub import MEMBER_BYTES, Hub, SessionState
from hubbub.engine.sessions.restore_keys import RestoreKeys
from hubbub.ports.bus import (
    Bus,
    Join,
    Leave,
    MembersJoined,
    MembersLeft,
    MembersPresent,
    MembersQuery,
    OccupancyChanged,
    OccupancyQuery,
    Occupy,
)
from hubbub.tasks import side_by_side

MAX_PRESENCE_BYTES = 4096
"""Maximum size of a session's presence data in one channel, as JSON."""


class SessionPresence:
    """The presence of a node's sessions."""

    def __init__(self, bus: Bus, restore_keys: RestoreKeys) -> None:
        self._bus = bus
        self._restore_keys = restore_keys

    def announce_identity(self, session: SessionState) -> None:
        """Tells the owners the identity of a session that has authenticated."""
        for channel in session.feeds or ():
            by_name = channel not in (session.matched or ())
            if by_name and session.hub.rules_for(channel).presence:
                self._bus.tell(Join(session.hub.name, channel, (session.member(channel),)))

    def show(self, session: SessionState, channel: str, data: dict[str, Any]) -> None:
        """Sets the session's presence data. Raises `InvalidAttribute`, and `NotFound` if the
        session does not follow the channel by name."""
        check_presence_data(data)
        if channel not in (session.feeds or ()) or channel in (session.matched or ()):
            raise NotFound(f"not subscribed to {channel!r}; subscribe, then say what others see")
        session.show(channel, data)
        self._bus.tell(Join(session.hub.name, channel, (session.member(channel),)))
        self._restore_keys.touched(session)

    def announce_members(self, hub: Hub) -> None:
        """Tells the owners the present sessions, after a change of rules that may have enabled
        presence."""
        for channel, feed in hub.feeds.items():
            rules = hub.rules_for(channel)
            if rules.presence:
                present = tuple(
                    session.member(channel)
                    for session in hub.sessions.values()
                    if channel in (session.feeds or ()) and channel not in (session.matched or ())
                )
                self._bus.tell(Join(hub.name, channel, present))
            if rules.occupancy:
                self._bus.tell(Occupy(hub.name, channel, feed.occupants))

    async def tell(self, session: SessionState, feeds: Iterable[Feed]) -> None:
        """Joins the session to channels that it now follows, and sends it their members."""
        asking = []
        for feed in feeds:
            rules = session.hub.rules_for(feed.channel)
            if rules.presence or rules.occupancy:
                asking.append(self._try_send_state(session, feed))
        await side_by_side(asking)

    async def _try_send_state(self, session: SessionState, feed: Feed) -> None:
        try:
            await self._send_state(session, feed)
        except HubbubError as error:
            session.send(Failed(error))

    async def _send_state(self, session: SessionState, feed: Feed) -> None:
        """Sends the current presence and occupancy; changes follow through the feed."""
        hub, channel = session.hub.name, feed.channel
        rules = session.hub.rules_for(channel)
        if channel in (session.matched or ()):
            return
        if session.closed or channel not in (session.feeds or ()):
            if rules.presence and session.hub.sessions.get(session.id) is None:
                self._bus.tell(
                    Leave(hub, channel, (session.id,))
                )  # it may have been restored to it
            return
        members: tuple[Member, ...] = ()
        count = 0
        with feed.watch() as events:
            if rules.presence:
                self._bus.tell(Join(hub, channel, (session.member(channel),)))
                members = await self._bus.ask(MembersQuery(hub, channel))
                await session.hub.take_turn(len(members) * MEMBER_BYTES)
            if rules.occupancy:
                self._bus.tell(Occupy(hub, channel, feed.occupants))
                count = await self._bus.ask(OccupancyQuery(hub, channel))
        # What was told meanwhile is newer than the answers, and the session has heard it.
        state: list[Notice] = []
        if rules.presence:
            state.append(Presence(channel, with_changes(members, events)))
        if rules.occupancy:
            told = [event.count for event in events if isinstance(event, OccupancyChanged)]
            state.append(Occupancy(channel, told[-1] if told else count))
        if state:
            session.send(*state)


def check_presence_data(data: dict[str, Any] | None) -> None:
    """Raises `InvalidAttribute` if the data is too large (all members of the channel receive it) or
    cannot be stored with the session."""
    if data is None:
        return
    check_storable("the presence data", data)
    size = len(msgspec.json.encode(data))
    if size > MAX_PRESENCE_BYTES:
        raise InvalidAttribute(
            f"the presence data has {size} bytes; at most {MAX_PRESENCE_BYTES} are allowed"
        )


def with_changes(members: Iterable[Member], events: Iterable[FeedEvent]) -> tuple[Member, ...]:
    """The members in the owner's response, updated by the events that arrived before the
    response."""
    present = {member.session_id: member for member in members}
    for event in events:
        if isinstance(event, MembersPresent):
            present = {member.session_id: member for member in event.members}
        elif isinstance(event, MembersJoined):
            present |= {member.session_id: member for member in event.members}
        elif isinstance(event, MembersLeft):
            for member in event.members:
                present.pop(member.session_id, None)
    return tuple(present.values())
