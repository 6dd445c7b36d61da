"""Commands of a session, executed concurrently with its other requests."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from hubbub.domain.commands.objects import HResult, too_deep, write_result
from hubbub.domain.notices import CommandAnswered
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import AnswerCommand, SendCommand
from hubbub.engine.commands.asking import Asker
from hubbub.engine.commands.service import Commands
from hubbub.engine.hub import SessionState
from hubbub.engine.rooms import Room
from hubbub.engine.session_requests import AtOnce, Beside, Subject


class CommandRequests(Room):
    def __init__(self, commands: Commands, session_calls: int) -> None:
        self._commands = commands
        self.session_requests = (
            Beside(SendCommand, Subject("commands", session_calls), self._begin),
            AtOnce(AnswerCommand, self._answered),
        )

    def _answered(self, session: SessionState, request: AnswerCommand) -> None:
        """Raises `InvalidToken` and `NotAuthenticated`."""
        session.check_identity()
        self._commands.router.answered(session, request.result)

    def _begin(
        self, session: SessionState, identity: Identity, request: SendCommand
    ) -> Coroutine[Any, Any, None] | None:
        asker = Asker(session.hub, identity, session, session.connection.technology)
        begun = self._commands.begin(asker, request.command)
        if not isinstance(begun, HResult):
            return _serve(session, begun, request.req_id)
        _send(session, begun, request.req_id)
        return None


async def _serve(session: SessionState, work: Coroutine[Any, Any, HResult], req_id: int) -> None:
    result = await work
    if not session.closed:
        _send(session, result, req_id)


def _send(session: SessionState, result: HResult, req_id: int) -> None:
    try:
        session.send(CommandAnswered(write_result(result), req_id))
    except RecursionError:  # of a command or result that is nested too deeply to be encoded
        session.send(CommandAnswered(write_result(too_deep(result)), req_id))
