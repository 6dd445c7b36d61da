"""Acknowledgements of a batch of publishes: one `Ack`, with results in the order of the batch."""

from __future__ import annotations

from hubbub.domain import notices
from hubbub.domain.notices import PublishResult
from hubbub.engine.hub import SessionState
from hubbub.ports.bus import PublishOutcome


class Acknowledgement:
    """Collects the results of a batch of publishes and sends them as one Ack, in order."""

    __slots__ = ("_answers", "_complete", "_pending", "_session")

    def __init__(self, session: SessionState, pending: int) -> None:
        self._session = session
        self._pending = pending
        self._answers: list[_PendingResult] = []
        self._complete = False

    def expect(self, req_id: int | None) -> _PendingResult | None:
        if req_id is None:
            return None
        answer = _PendingResult(self, req_id)
        self._answers.append(answer)
        return answer

    def complete(self) -> None:
        """All items of the batch were tried: the Ack may go when the last result is in."""
        self._complete = True
        self._send_if_done()

    def concluded(self) -> None:
        self._pending -= 1
        if self._complete:
            self._send_if_done()

    def _send_if_done(self) -> None:
        if self._pending:
            return
        answers, self._answers = self._answers, []  # ends the cycle of references
        if not self._session.closed:
            results = tuple(answer.result() for answer in answers)
            self._session.send(notices.Published(results))


class _PendingResult:
    """The result of one publish that somebody waits for."""

    __slots__ = ("_acknowledgement", "_outcome", "_req_id", "message_id")

    def __init__(self, acknowledgement: Acknowledgement, req_id: int) -> None:
        self._acknowledgement = acknowledgement
        self._req_id = req_id
        self._outcome = PublishOutcome()
        self.message_id: str | None = None

    def conclude(self, outcome: PublishOutcome) -> None:
        self._outcome = outcome
        self._acknowledgement.concluded()

    def result(self) -> PublishResult:
        if self._outcome.error is not None:
            return PublishResult(self._req_id, error=self._outcome.error)
        outcome = self._outcome
        if outcome.duplicate:
            return PublishResult(self._req_id, outcome.message_id, outcome.serial, duplicate=True)
        return PublishResult(self._req_id, self.message_id, outcome.serial)
