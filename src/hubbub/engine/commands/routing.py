"""Routes commands and messages from one client to another, on any node.

The sender's node creates a request id, sends the command to all sessions of the receiver on every
node, and waits. Each node remembers the sessions that received the command: only they may answer,
once each. The first result is returned; later ones are dropped."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from hubbub.domain.commands.jids import Jid, parse_jid
from hubbub.domain.commands.mapping import to_item
from hubbub.domain.commands.objects import HCommand, HMessage, HResult, write_command
from hubbub.domain.commands.routed import (
    CommandAddressee,
    ReturnResult,
    RouteCommand,
    RoutedCommand,
    RoutedMessage,
    RoutedResult,
    RouteMessage,
)
from hubbub.domain.commands.status import CommandRefused, Status, invalid, not_available
from hubbub.domain.filters.view import MessageView
from hubbub.domain.messages import Message
from hubbub.domain.names import user_channel
from hubbub.domain.notices import CommandReceived, MessageDelivery
from hubbub.domain.payloads import MAX_COMMAND_DEPTH, is_deeper
from hubbub.engine.commands.asking import Asker
from hubbub.engine.hub import Hub, SessionState
from hubbub.engine.rooms import Room
from hubbub.ports import randomness
from hubbub.ports.bus import Answers, Bus
from hubbub.ports.clock import Clock

DEFAULT_SECONDS: Final = 5.0
MOST_OF_HUB: Final = 10_000
"""Maximum number of pending commands per hub on the node of their senders."""
MOST_BYTES_OF_HUB: Final = 64 * 1024 * 1024
"""Maximum total size of these commands as JSON."""
MOST_OF_SESSION: Final = 100
"""Maximum number of unanswered commands per receiving session."""
_STREAM: Final = "sse"
"""A one-way stream (SSE) cannot answer."""


class _HandedOut(msgspec.Struct, eq=False):
    """A command for sessions of this node, with the node that waits for the result."""

    asking: str
    sessions: set[str]
    expiry: asyncio.TimerHandle


class ClientRouter(Room):
    """Implements `engine.commands.asking.Router` for one node."""

    def __init__(self, bus: Bus, clock: Clock, hubs: Mapping[str, Hub]) -> None:
        self._bus = bus
        self._clock = clock
        self._hubs = hubs
        self._waiting: dict[str, asyncio.Future[RoutedResult]] = {}
        """Pending commands of this node's clients, by request id."""
        self._waiting_of_hub: Counter[str] = Counter()
        self._bytes_of_hub: Counter[str] = Counter()
        self._asking: set[asyncio.Future[Answers[int]]] = set()
        """Requests to other nodes in progress."""
        self._handed_out: dict[str, _HandedOut] = {}
        self._unanswered: Counter[str] = Counter()
        """Unanswered commands by session."""
        self.node_requests = {
            RouteCommand: self._hand_out,
            ReturnResult: self._take_result,
            RouteMessage: self._hand_message_out,
        }

    # -- for those who ask ----------------------------------------------------------------------

    async def route(self, asker: Asker, command: HCommand, entity: Jid) -> HResult:
        """Raises `CommandRefused`: 9 if the receiver has no session, 10 if no result arrives in
        time."""
        routed = self._routed(asker, command, entity)
        hub, size = asker.hub.name, len(routed.command)
        waiting, waiting_bytes = self._waiting_of_hub[hub], self._bytes_of_hub[hub]
        if waiting >= MOST_OF_HUB or waiting_bytes + size > MOST_BYTES_OF_HUB:
            raise not_available(
                f"{waiting} commands of hub {hub!r} with {waiting_bytes} bytes wait for an answer; "
                "try again later"
            )
        answer: asyncio.Future[RoutedResult] = asyncio.get_running_loop().create_future()
        self._waiting[routed.req_id] = answer
        self._waiting_of_hub[hub] += 1
        self._bytes_of_hub[hub] += size
        try:
            async with asyncio.timeout(routed.seconds):
                await self._hand_to_all(routed, answer)
                result = await answer
        except TimeoutError:
            raise CommandRefused(
                Status.TIMEOUT, f"{entity} gave no answer within {routed.seconds:g} s"
            ) from None
        finally:
            del self._waiting[routed.req_id]
            _count_down(self._waiting_of_hub, hub)
            _count_down(self._bytes_of_hub, hub, size)
        found = msgspec.json.decode(result.result) if result.result else UNSET
        return HResult(command.cmd, command.reqid, result.status, found)

    def _routed(self, asker: Asker, command: HCommand, entity: Jid) -> RoutedCommand:
        """The command with the sender's verified JID and an unguessable request id."""
        req_id = randomness.token_urlsafe(16)
        handed = msgspec.structs.replace(
            command, reqid=req_id, sender=str(asker.jid), requester=None, timeout_ms=None
        )
        seconds = DEFAULT_SECONDS if command.timeout_ms is None else command.timeout_ms / 1000
        receiver = CommandAddressee(entity.domain, entity.user, entity.resource)
        return RoutedCommand(receiver, req_id, _encoded(write_command(handed)), seconds)

    async def _hand_to_all(
        self, routed: RoutedCommand, answer: asyncio.Future[RoutedResult]
    ) -> None:
        """Sends the command to all nodes. Raises `CommandRefused` (9) if none has a session of the
        receiver; a node that crashed before it responded may have delivered the command."""
        asking = asyncio.ensure_future(self._bus.ask_all(RouteCommand(routed)))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        await asyncio.wait((answer, asking), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return
        answers = asking.result()
        perhaps = any(missing.taken for missing in answers.missing.values())
        if not perhaps and not sum(answers.given.values()):
            raise not_available(f"no session of {routed.receiver.user_id!r} is there")

    async def deliver(self, hub: Hub, receiver: Jid, message: HMessage) -> None:
        item = to_item(message, user_channel(receiver.user))
        routed = RoutedMessage(
            CommandAddressee(receiver.domain, receiver.user, receiver.resource),
            Message(
                id=message.msgid or hub.next_message_id(),
                hub=hub.name,
                channel=item.channel,
                event=item.event,
                payload=item.payload,
                content_type=item.content_type,
                published_at=int(self._clock.now() * 1000),
                publisher=_user_of(message.publisher),
                store=message.transient is False,
                attributes=item.attributes,
            ),
        )
        await self._bus.ask_all(RouteMessage(routed))

    # -- for those who are asked ----------------------------------------------------------------

    def answered(self, session: SessionState, result: object) -> None:
        given: Mapping[str, Any] = result if isinstance(result, dict) else {}
        req_id = given.get("reqid")
        handed = self._handed_out.get(req_id) if isinstance(req_id, str) else None
        if handed is None or session.id not in handed.sessions:
            return
        assert isinstance(req_id, str)
        handed.sessions.discard(session.id)
        _count_down(self._unanswered, session.id)
        if not handed.sessions:
            handed.expiry.cancel()
            del self._handed_out[req_id]
        self._bus.send(ReturnResult(_read_result(req_id, given)), handed.asking)

    # -- between nodes, this one included -------------------------------------------------------

    async def _hand_out(self, asking: str, request: RouteCommand) -> int:
        """Returns the number of sessions of this node that received the command."""
        routed = request.routed
        sessions = [
            session
            for session in self._sessions(routed.receiver)
            if self._unanswered[session.id] < MOST_OF_SESSION
        ]
        if not sessions:
            return 0
        loop = asyncio.get_running_loop()
        self._handed_out[routed.req_id] = _HandedOut(
            asking,
            {each.id for each in sessions},
            loop.call_later(routed.seconds, self._expire, routed.req_id),
        )
        notice = CommandReceived(msgspec.json.decode(routed.command))
        for session in sessions:
            self._unanswered[session.id] += 1
            session.send(notice)
        return len(sessions)

    def _expire(self, req_id: str) -> None:
        for session_id in self._handed_out.pop(req_id).sessions:
            _count_down(self._unanswered, session_id)

    def _sessions(self, receiver: CommandAddressee) -> Iterable[SessionState]:
        hub = self._hubs.get(receiver.hub)
        found = [] if hub is None else hub.sessions_of(receiver.user_id)
        return [
            session
            for session in found
            if session.connection.technology != _STREAM
            and receiver.session_id in (None, session.id)
        ]

    async def _take_result(self, _: str, request: ReturnResult) -> None:
        routed = request.routed
        answer = self._waiting.get(routed.req_id)
        if answer is not None and not answer.done():
            answer.set_result(routed)

    async def _hand_message_out(self, _: str, request: RouteMessage) -> int:
        routed = request.routed
        view = MessageView(routed.message, int(self._clock.now() * 1000))
        for session in self._sessions(routed.receiver):
            screen = session.screen(routed.message.channel)
            if screen is None or screen.passes(view):
                session.send(MessageDelivery(routed.message))
        return 0


def _read_result(req_id: str, given: Mapping[str, Any]) -> RoutedResult:
    """An unreadable result counts as a technical failure of the client that sent it."""
    try:
        status = _read_status(given.get("status"))
        result = given.get("result")
        return RoutedResult(req_id, status, b"" if result is None else _encoded(result))
    except (ValueError, CommandRefused):
        text = msgspec.json.encode("the client answered with an hResult that cannot be read")
        return RoutedResult(req_id, Status.TECHNICAL, text)


def _read_status(value: object) -> Status:
    """Raises `ValueError`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(value)
    return Status(value)


def _encoded(value: object) -> bytes:
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise invalid(f"params cannot be handed on: {error}") from None
    if is_deeper(encoded, MAX_COMMAND_DEPTH):
        raise invalid(f"params have more than {MAX_COMMAND_DEPTH} levels; make them flatter")
    return encoded


def _user_of(publisher: str) -> str | None:
    jid = parse_jid(publisher)
    return None if jid is None else jid.user


def _count_down(counter: Counter[str], key: str, by: int = 1) -> None:
    """Removes counters that reach zero."""
    counter[key] -= by
    if not counter[key]:
        del counter[key]
