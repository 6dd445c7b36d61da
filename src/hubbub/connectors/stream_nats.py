"""Streams in JetStream: each event is stored as a `StreamEvent` on
`{prefix}.streams.{hub}.{stream}`."""

from __future__ import annotations

from hubbub.domain.errors import StreamUnavailable
from hubbub.domain.services import StreamEvent
from hubbub.domain.subjects import word, words
from hubbub.ports.broker import Broker, LogUnavailable
from hubbub.ports.outgoing import Outgoing
from hubbub.protocols import hubbub_pb2 as pb


class JetStreams:
    """Implements `ports.services.StreamSink`."""

    def __init__(self, broker: Broker, outgoing: Outgoing, prefix: str, seconds: float) -> None:
        self._broker = broker
        self._outgoing = outgoing
        self._prefix = prefix
        self._seconds = seconds

    async def submit(self, event: StreamEvent) -> None:
        entry = pb.StreamEvent(
            hub_id=event.hub,
            stream=event.stream,
            event=event.event,
            payload=event.payload,
            content_type=event.content_type,
            msg_id=event.id,
            timestamp=event.submitted_at,
            user_id=event.user_id or "",
            session_id=event.session_id or "",
        )
        subject = f"{self._prefix}.streams.{word(event.hub)}.{words(event.stream)}"
        try:
            async with self._outgoing.slot(event.hub, "stream", "", self._seconds) as left:
                await self._broker.append(subject, entry.SerializeToString(), event.id, left)
        except LogUnavailable as error:
            told = f"the stream {event.stream!r} does not take the event right now"
            raise StreamUnavailable(told, f"{told}: {error}") from None
