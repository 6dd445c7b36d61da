"""Journal events about messages to peers: attempts, verdicts, and dropped messages."""

from __future__ import annotations

from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.policies import DeliveryVerdict
from hubbub.domain.communication.steps import DeliveryRow
from hubbub.domain.journal import ADAPTER_ATTEMPT, DROPPED, POLICY_VERDICT, JournalEvent
from hubbub.domain.names import COMMUNICATION_LOG
from hubbub.ports.clock import Clock
from hubbub.ports.journal import Journal


class CommunicationJournal:
    """Writes the communication events of one hub to the journal."""

    def __init__(self, hub: str, journal: Journal, clock: Clock) -> None:
        self._hub = hub
        self._journal = journal
        self._clock = clock

    def attempt(
        self,
        message: PeerMessage,
        row: DeliveryRow,
        policy: str,
        number: int,
        started: float,
        outcome: str,
        reason: str,
    ) -> None:
        """`policy` is the peer's; `started` is in monotonic seconds."""
        if not self._journal.enabled:
            return
        self._journal.record(
            JournalEvent(
                ADAPTER_ATTEMPT,
                self._now(),
                self._hub,
                channel=COMMUNICATION_LOG,
                technology=row.adapter,
                message_id=message.id,
                conversation_id=message.conversation_id or None,
                attempt=number,
                outcome=outcome,
                reason=reason or None,
                duration=int((self._clock.monotonic() - started) * 1e6),
                peer=row.peer or None,
                adapter=row.adapter,
                policy=policy or None,
                receiver=row.peer or None,
                sender=message.sender or None,
            )
        )

    def refused(self, message: PeerMessage, receiver: str, reason: str) -> None:
        """Records a delivery that cannot be attempted and counts for no verdict."""
        if not self._journal.enabled:
            return
        self._journal.record(
            JournalEvent(
                ADAPTER_ATTEMPT,
                self._now(),
                self._hub,
                channel=COMMUNICATION_LOG,
                message_id=message.id,
                sender=message.sender or None,
                receiver=receiver,
                peer=receiver,
                outcome="refused",
                reason=reason,
            )
        )

    def verdict(
        self, message: PeerMessage, receiver: str, policy: str, verdict: DeliveryVerdict
    ) -> None:
        """`policy` is empty if the receiver was never resolved."""
        if not self._journal.enabled:
            return
        self._journal.record(
            JournalEvent(
                POLICY_VERDICT,
                self._now(),
                self._hub,
                channel=COMMUNICATION_LOG,
                message_id=message.id,
                conversation_id=message.conversation_id or None,
                sender=message.sender or None,
                receiver=receiver,
                outcome=verdict.result,
                reason=verdict.reason or None,
                policy=policy or None,
            )
        )

    def dropped(self, message: PeerMessage, adapter: str, reason: str) -> None:
        """Records that a message from this adapter was refused."""
        if not self._journal.enabled:
            return
        self._journal.record(
            JournalEvent(
                DROPPED,
                self._now(),
                self._hub,
                channel=COMMUNICATION_LOG,
                technology=adapter,
                message_id=message.id,
                sender=message.sender,
                adapter=adapter,
                reason=reason,
                count=1,
            )
        )

    def _now(self) -> int:
        return int(self._clock.now() * 1e6)
