"""Accepts messages at the owner of a hub's log: resolves the sender, verifies its token, and
handles logins, message info requests and forged senders."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec

from hubbub.domain.communication.control import fault, info_reply
from hubbub.domain.communication.following import ORIGINAL, subscription_of
from hubbub.domain.communication.information import MessageInfo, read_question
from hubbub.domain.communication.messages import (
    AUTH,
    AUTHENTICATION_MANAGER,
    COMPONENT,
    CONTROL,
    MAX_TEXT,
    MESSAGEINFO,
    REPLY,
    REQUEST,
    STRANGER,
    PeerMessage,
    check_fields,
    check_handed_in,
    check_question,
    kind_of,
    may_reply,
)
from hubbub.domain.communication.peers import PeerInfo
from hubbub.domain.communication.requests import SendMessage
from hubbub.domain.errors import BadRequest, StaleOwner
from hubbub.engine.communication.dispatcher import Dispatcher
from hubbub.engine.communication.journalling import CommunicationJournal
from hubbub.engine.communication.log_messages import from_logged
from hubbub.engine.communication.logins import Held, Logins
from hubbub.engine.communication.planning import NotDeliverable
from hubbub.ports.clock import Clock
from hubbub.ports.storage.communication import CommunicationStore

logger = logging.getLogger(__name__)


class Intake:
    """Accepts the messages of one hub."""

    def __init__(
        self,
        hub: str,
        *,
        store: CommunicationStore,
        clock: Clock,
        journal: CommunicationJournal,
        dispatcher: Dispatcher,
        logins: Logins,
        next_id: Callable[[str], str],
    ) -> None:
        """`next_id` creates the id of a new message of the hub."""
        self.hub = hub
        self._store = store
        self._clock = clock
        self._journal = journal
        self._dispatcher = dispatcher
        self._logins = logins
        self._next_id = next_id

    async def send(self, request: SendMessage) -> str:
        """Raises `Conflict`, `QuotaExceeded` and the errors of the store. The caller has validated
        the message; messages from adapters are validated here."""
        if request.adapter:
            return await self.take_in(request.adapter, request.message)
        message = await self._to_asker(request.message)
        sent = await self._dispatcher.send(
            message, "communication", request.fresh, not request.transient
        )
        if (message.type, message.subtype) == (MESSAGEINFO, REQUEST):
            await self._inform(message)
        return sent

    async def _original(self, refers_to: str) -> str:
        """A reply to the copy of a channel's message becomes a reply to that message."""
        found = await self._store.read_logged(self.hub, [refers_to])
        headers = from_logged(found[0].message).headers if found else {}
        return headers.get(ORIGINAL, refers_to)

    async def take_in(self, adapter: str, message: PeerMessage) -> str:
        """Accepts a message from an input adapter. The work completes even if the caller is
        cancelled, for example because the adapter is removed."""
        message = check_handed_in(message)
        taking = self._take_in(adapter, message)
        tokens = self._dispatcher.configuration.settings.communication.tokens
        if not message.id and tokens == "off" and message.type not in (AUTH, MESSAGEINFO):
            return await taking  # one append, and nothing behind it
        return await self._dispatcher.run_to_end(taking)

    async def _take_in(self, adapter: str, message: PeerMessage) -> str:
        known = self._dispatcher.configuration.adapters.get(adapter)
        if known is not None and known.awaits and not message.refers_to:
            message = msgspec.structs.replace(message, refers_to=known.awaits)
        if subscription_of(message.refers_to) is not None:
            original = await self._original(message.refers_to)
            message = msgspec.structs.replace(message, refers_to=original)
        fresh = not message.id
        if fresh:
            message = msgspec.structs.replace(message, id=self._next_id(self.hub))
        if not message.sender:
            sender = await self._who_answers(message) or adapter
            message = msgspec.structs.replace(message, sender=sender)
        check_fields(message)
        kind = (message.type, message.subtype)
        if message.type == CONTROL or kind == (MESSAGEINFO, REPLY):
            self._tell_forged(adapter, message)
            return message.id
        if message.type == AUTH:
            return await self._log_in(adapter, message)
        settings = self._dispatcher.configuration.settings.communication
        of_peer = kind_of(message.sender) == "peer" and message.sender != adapter
        if of_peer and not await self._logins.holds(message, settings):
            await self._refuse_token(adapter, message, settings.on_invalid)
            return message.id
        message = await self._to_asker(check_question(message))
        held = self._logins.take_one(message)
        if held is not None:
            await self._dispatcher.release_all([held])
        else:
            durable = known is None or not known.transient
            await self._dispatcher.send(message, adapter, fresh, durable)
        if kind == (MESSAGEINFO, REQUEST):
            await self._inform(message)
        return message.id

    async def _to_asker(self, message: PeerMessage) -> PeerMessage:
        """An answer that names no receiver goes to the peer who asked; a peer's answer also to
        somebody who is no peer and asked by e-mail, if the hub allows it."""
        if message.receiver or not may_reply(message):
            return message
        found = await self._store.read_logged(self.hub, [message.refers_to])
        if not found:
            return message
        asked = from_logged(found[0].message)
        receiver = ""
        if await self._is_peer(asked.sender):
            receiver = asked.sender
        elif self._dispatcher.configuration.settings.communication.strangers:
            address = asked.headers.get("from", "")
            of_adapter = asked.sender in self._dispatcher.configuration.adapters
            if of_adapter and address and await self._may_answer_strangers(message):
                receiver = f"{STRANGER}{address}"[:MAX_TEXT]
        if receiver == message.sender:
            return message
        return msgspec.structs.replace(message, receiver=receiver)

    async def _is_peer(self, name: str) -> bool:
        if kind_of(name) != "peer" or name.startswith(STRANGER):
            return False
        return isinstance(await self._dispatcher.knowledge.peer(name), PeerInfo)

    async def _may_answer_strangers(self, message: PeerMessage) -> bool:
        """The hub does not carry mail between strangers."""
        return message.sender.startswith(COMPONENT) or await self._is_peer(message.sender)

    async def _who_answers(self, message: PeerMessage) -> str:
        """The peer named in the header `peer`, if the header `from` is one of its addresses."""
        peer, address = message.headers.get("peer", ""), message.headers.get("from", "")
        if not peer or not address:
            return ""
        info = await self._dispatcher.knowledge.peer(peer)
        own = () if isinstance(info, NotDeliverable) else info.addresses
        known = {text.casefold() for each in own for text in each.parameters}
        return peer if address.casefold() in known else ""

    async def _log_in(self, adapter: str, message: PeerMessage) -> str:
        addressed = message.receiver in ("", AUTHENTICATION_MANAGER)
        if message.subtype != REQUEST or not addressed or kind_of(message.sender) != "peer":
            self._tell_forged(adapter, message)
            return message.id
        if await self._store.read_logged(self.hub, [message.id]):
            return message.id  # another answer would replace the token that the peer was told
        settings = self._dispatcher.configuration.settings.communication
        answer = await self._logins.log_in(message, settings)
        login = msgspec.structs.replace(message, receiver=AUTHENTICATION_MANAGER)
        released = self._logins.take_held(message.sender) if answer.subtype == REPLY else []
        try:
            await self._dispatcher.log_only(login, adapter, released=released)
        except BaseException:
            self._logins.hold(*released)
            raise
        for held in released:
            self._dispatcher.release(held)
        await self._dispatcher.log(answer)
        await self._inform_all(released)
        return message.id

    async def let_go(self, held: Sequence[Held]) -> None:
        """Releases, in order of arrival, held messages that no longer need a login."""
        try:
            await self._dispatcher.release_all(held)
            await self._inform_all(held)
        except StaleOwner:
            pass  # they are held on disk: the log's next owner lets them go

    async def _refuse_token(self, adapter: str, message: PeerMessage, on_invalid: str) -> None:
        """Holds or drops the message, and asks the peer to log in."""
        if on_invalid == "hold" and self._logins.may_hold(message.sender):
            at = int(self._clock.now() * 1000)
            with self._logins.storing(message.sender):
                serial = await self._dispatcher.hold(message, adapter)
            if serial is not None:
                self._logins.hold(Held(message, at, serial))
        else:
            self._journal.dropped(message, adapter, "token")
        notice = self._logins.notice(message)
        if notice is not None:
            await self._dispatcher.log(notice)

    async def _inform_all(self, released: Sequence[Held]) -> None:
        for held in released:
            if (held.message.type, held.message.subtype) == (MESSAGEINFO, REQUEST):
                await self._inform(held.message)

    async def _inform(self, request: PeerMessage) -> None:
        """Answers a MESSAGEINFO/REQUEST, once."""
        info = await self._info_about(request.content)
        content = '{"known":false}' if info is None else msgspec.json.encode(info).decode()
        reply = info_reply(request, content)
        if not await self._store.read_logged(self.hub, [reply.id]):
            await self._dispatcher.log(reply)

    async def _info_about(self, content: str | bytes) -> MessageInfo | None:
        try:
            question = read_question(content)
        except BadRequest:
            return None
        type_, subtype = question.type, question.subtype
        if question.id:
            found = await self._store.read_logged(self.hub, [question.id])
            if found:
                about = from_logged(found[0].message)
                type_, subtype = about.type, about.subtype
        return self._dispatcher.info_about(type_, subtype)

    def _tell_forged(self, adapter: str, message: PeerMessage) -> None:
        logger.warning(
            "hub %s: adapter %s handed in a %s message, which only the hub makes; dropped",
            self.hub,
            adapter,
            message.type,
        )
        self._journal.dropped(message, adapter, "forged")

    async def tell_refused(self, adapter: str, message: PeerMessage, problem: str) -> None:
        report_id = self._next_id(self.hub)
        await self._dispatcher.log(fault(report_id, adapter, problem, message.id))
