"""Acknowledgements of a batch of publishes: one `Ack`, with results in the order of the batch."""

from __future__ import annotations

from hubbub.domain import notices
from hubbub.domain.notices import PublishResult
from hubbub.engine.hub import SessionState
from hubbub.ports.bus import PublishOutcome


class AckCollector:
    """Collects the results of a batch of publishes and sends them as one Ack, in order."""

    __slots__ = ("_results", "_session", "pending")

    def __init__(self, session: SessionState) -> None:
        self._session = session
        self._results: list[PendingResult] = []
        self.pending = 1
        """The number of unknown results, plus one until all items of the batch were tried."""

    def expect(self, req_id: int) -> PendingResult:
        result = PendingResult(self, req_id)
        self._results.append(result)
        self.pending += 1
        return result

    def concluded(self) -> None:
        """One pending result is known."""
        self.pending -= 1
        if not self.pending:
            results, self._results = self._results, []  # ends the cycle of references
            if not self._session.closed:
                told = notices.Published(tuple([each.result() for each in results]))
                self._session.send(told)


class PendingResult:
    """The result of a single publish that a caller awaits."""

    __slots__ = ("_acknowledgement", "_outcome", "_req_id", "message_id")

    _outcome: PublishOutcome

    def __init__(self, acknowledgement: AckCollector, req_id: int) -> None:
        self._acknowledgement = acknowledgement
        self._req_id = req_id
        self.message_id: str | None = None

    def conclude(self, outcome: PublishOutcome) -> None:
        self._outcome = outcome
        self._acknowledgement.concluded()

    def result(self) -> PublishResult:
        outcome = self._outcome
        if outcome.error is not None:
            return PublishResult(self._req_id, error=outcome.error)
        if outcome.duplicate:
            return PublishResult(self._req_id, outcome.message_id, outcome.serial, duplicate=True)
        return PublishResult(self._req_id, self.message_id, outcome.serial)
