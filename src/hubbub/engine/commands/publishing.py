"""The command hPublish: sends an hMessage to a channel or a user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hubbub.domain.commands.jids import HUB_USER, Jid, parse_target
from hubbub.domain.commands.mapping import to_item, to_stored_item
from hubbub.domain.commands.objects import (
    HMessage,
    complete,
    read_message,
    write_message,
)
from hubbub.domain.commands.status import invalid, not_available
from hubbub.domain.errors import InvalidAttribute
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import PublishItem
from hubbub.engine.commands.asking import Asker, CommandRouter
from hubbub.engine.commands.parameters import required_object
from hubbub.engine.commands.records import ChannelRecords, check_active, check_participant
from hubbub.engine.publishing import Publisher
from hubbub.engine.storing.hooks import DIRECT_MESSAGES
from hubbub.ports.clock import Clock


class PublishCommand:
    def __init__(
        self,
        publisher: Publisher,
        clock: Clock,
        records: ChannelRecords,
        router: CommandRouter,
    ) -> None:
        self._publisher = publisher
        self._clock = clock
        self._records = records
        self._router = router

    async def publish(self, asker: Asker, params: Any) -> Any:
        message = read_message(required_object(params), asker.jid)
        target = parse_target(message.chid, asker.hub.name)
        if isinstance(target, Jid):
            return await self._send_to(asker, message, target)
        binding = self._records.existing(asker.hub, target)
        check_participant(binding, asker, target)
        check_active(binding, target)
        completed = self._completed(asker, message, await self._records.read(asker.hub, target))
        return await self._publish(asker, completed, to_item(completed, target), asker.identity)

    async def _send_to(self, asker: Asker, message: HMessage, receiver: Jid) -> Any:
        """Sends to a user's sessions; the sender need not be a participant of a channel."""
        if receiver.domain != asker.hub.name or receiver.user == HUB_USER:
            raise not_available(f"chid {message.chid!r} is no user of {asker.hub.name!r}")
        completed = self._completed(asker, message, None)
        if completed.transient is False:
            item = to_stored_item(completed, receiver, DIRECT_MESSAGES)
            identity = asker.hub.service_for(asker.user_id)
            written = await self._publish(asker, completed, item, identity)
        else:
            self._check_direct(asker, completed)
            written = write_message(completed)
        await self._router.deliver(asker.hub, receiver, completed)
        return written

    def _check_direct(self, asker: Asker, message: HMessage) -> None:
        """Applies the limits and quotas of stored messages to one that is not stored. Raises
        `CommandRefused` and `HubbubError`."""
        item = to_item(message, DIRECT_MESSAGES)
        with _in_words_of_hmessages():
            self._publisher.check(asker.hub, asker.hub.service_for(asker.user_id), item)

    async def _publish(
        self, asker: Asker, message: HMessage, item: PublishItem, identity: Identity
    ) -> dict[str, Any]:
        hub, written = asker.hub, write_message(message)
        session = None if asker.session is None else asker.session.id
        with _in_words_of_hmessages():
            _, outcome = await self._publisher.settle(
                hub, identity, item, asker.technology, session, message.msgid
            )
        if outcome.error is not None:
            raise outcome.error
        return written

    def _completed(self, asker: Asker, message: HMessage, record: Any) -> HMessage:
        now = int(self._clock.now() * 1000)
        return complete(message, record, asker.hub.next_message_id(), now)


@contextmanager
def _in_words_of_hmessages() -> Iterator[None]:
    try:
        yield
    except InvalidAttribute as error:
        text = error.message
        for name, known in (("conversationID", "convid"), ("relevantUntil", "relevance")):
            text = text.replace(name, known)
        raise invalid(text) from None
