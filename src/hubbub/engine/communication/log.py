"""The log of messages to peers, as the channel that it is."""

from __future__ import annotations

import msgspec

from hubbub.domain.communication.requests import LogMessage
from hubbub.domain.communication.steps import CommunicationStep
from hubbub.domain.documents.steps import Steps
from hubbub.domain.messages import Message
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.rooms import OrderedHandler, PreparedWrite
from hubbub.engine.channels.stored_bytes import size_of
from hubbub.ports.storage.messages import Append


class _Logged(PreparedWrite):
    numbered = True

    def __init__(self, message: Message, step: CommunicationStep) -> None:
        self.message = message
        self.kept_bytes = size_of(message)
        self._step = step

    def complete(self, append: Append) -> Append:
        return msgspec.structs.replace(append, communication=self._step)


class LogWriter(OrderedHandler[LogMessage]):
    """Stores each message in one transaction with the step that follows from it."""

    def size(self, request: LogMessage) -> int:
        return size_of(request.message)

    def prepare(self, channel: Channel, request: LogMessage) -> Steps[PreparedWrite]:
        return _Logged(request.message, request.step)
        yield  # one step
