"""Commands that other users send to this client, and their handlers."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hubbub.client.connection.supervisor import Supervisor
from hubbub.domain.commands.objects import HResult, write_result
from hubbub.domain.commands.status import CommandRefused, Status
from hubbub.domain.errors import BadRequest, HubbubError
from hubbub.domain.notices import CommandReceived
from hubbub.domain.requests import AnswerCommand
from hubbub.tasks import TaskSet

logger = logging.getLogger("hubbub.client")


class Command(msgspec.Struct, frozen=True):
    """A command sent to this client."""

    cmd: str
    params: Any
    sender: str
    """The sender's full JID, authenticated by the hub."""
    entity: str
    reqid: str
    sent: str
    """The time of sending, in ISO 8601."""


CommandHandler = Callable[[Command], object | Awaitable[object]]
"""Returns the result, None if there is none. Raises `CommandRefused` for another status; other
exceptions become technical failures (1) with their text."""


class CommandHandlers:
    """Handlers by command name, ignoring case. Commands without a handler are left to the user's
    other sessions."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._handlers: dict[str, CommandHandler] = {}
        self._answering = TaskSet()

    def add(self, cmd: str, handler: CommandHandler) -> Callable[[], None]:
        """Raises `BadRequest` if the command already has a handler. Returns a function that removes
        the handler."""
        name = cmd.lower()
        if name in self._handlers:
            raise BadRequest(f"the command {cmd!r} has a handler already")
        self._handlers[name] = handler

        def remove() -> None:
            self._handlers.pop(name, None)

        return remove

    def receive(self, notice: CommandReceived) -> None:
        given = notice.command
        handler = self._handlers.get(str(given.get("cmd")).lower())
        if handler is not None:
            command = msgspec.convert({"params": None, **given}, Command)
            self._answering.start(self._answer(command, handler))

    async def settle(self, seconds: float) -> None:
        """Waits for up to `seconds` until pending results are sent."""
        await self._answering.settle_so_far(seconds)

    async def end(self) -> None:
        await self._answering.end()

    async def _answer(self, command: Command, handler: CommandHandler) -> None:
        result = await _run(command, handler)
        try:
            # Also on a connection that came after the one of the command: the session is the same.
            conversation = await self._supervisor.conversation()
            try:
                await conversation.link.send(AnswerCommand(write_result(result)))
            except BadRequest as error:
                failure = _ended(command, Status.TECHNICAL, f"the result: {error.message}")
                await conversation.link.send(AnswerCommand(write_result(failure)))
        except HubbubError as error:
            logger.warning("the answer to %r was not sent: %s", command.cmd, error)


async def _run(command: Command, handler: CommandHandler) -> HResult:
    try:
        result = handler(command)
        if inspect.isawaitable(result):
            result = await result
    except CommandRefused as error:
        return _ended(command, error.status, error.text)
    except Exception as error:
        logger.exception("the handler of the command %r failed", command.cmd)
        return _ended(command, Status.TECHNICAL, str(error) or type(error).__name__)
    return _ended(command, Status.OK, result)


def _ended(command: Command, status: int, result: object) -> HResult:
    return HResult(command.cmd, command.reqid, status, msgspec.UNSET if result is None else result)
