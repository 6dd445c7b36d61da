"""Commands of a session: they run beside its other requests, and beside each other."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from hubbub.domain import notices
from hubbub.domain.commands.objects import HResult, too_deep, write_result
from hubbub.domain.errors import Limited
from hubbub.domain.requests import AnswerCommand, SendCommand
from hubbub.engine.commands.asking import Asker
from hubbub.engine.commands.service import Commands
from hubbub.engine.hub import SessionState
from hubbub.tasks import TaskSet


class CommandRequests:
    """Of one session; made when the first command comes."""

    __slots__ = ("_commands", "_limit", "_session", "_tasks", "_under_way")

    def __init__(
        self, session: SessionState, tasks: TaskSet, commands: Commands, limit: int
    ) -> None:
        self._session = session
        self._tasks = tasks
        self._commands = commands
        self._limit = limit
        self._under_way = 0

    def take(self, request: SendCommand | AnswerCommand) -> None:
        """Raises `InvalidToken`, `NotAuthenticated` or `Limited` at once."""
        session = self._session
        session.check_identity()
        if isinstance(request, AnswerCommand):
            self._commands.extensions.router.answered(session, request.result)
            return
        if self._under_way >= self._limit:
            raise Limited(f"{self._limit} commands are under way in this session; wait for one")
        asker = Asker(session.hub, session.identity, session, session.connection.technology)
        begun = self._commands.begin(asker, request.command)
        if isinstance(begun, HResult):
            self._send(begun, request.req_id)
        else:
            self._under_way += 1
            self._tasks.start(self._serve(begun, request.req_id))

    async def _serve(self, work: Coroutine[Any, Any, HResult], req_id: int) -> None:
        try:
            result = await work
        finally:
            self._under_way -= 1
        if not self._session.closed:
            self._send(result, req_id)

    def _send(self, result: HResult, req_id: int) -> None:
        try:
            self._session.send(notices.CommandAnswered(write_result(result), req_id))
        except RecursionError:  # of a command or result that is nested too deeply to be encoded
            told = write_result(too_deep(result))
            self._session.send(notices.CommandAnswered(told, req_id))
