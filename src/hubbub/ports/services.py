"""Services that answer what clients call, and streams that take what clients submit."""

from __future__ import annotations

from typing import Protocol

from hubbub.domain.errors import StreamUnavailable
from hubbub.domain.rules import RpcRoute
from hubbub.domain.services import ServiceAnswer, ServiceCall, StreamEvent


class ServiceCaller(Protocol):
    async def call(
        self, route: RpcRoute | None, call: ServiceCall, seconds: float, max_bytes: int
    ) -> ServiceAnswer:
        """What the service of the route answers; without a route, whoever answers the method.

        Always ends within the seconds. Raises `ServiceNotFound` where nobody can be meant,
        `ServiceUnavailable` where nobody is there, `ServiceTimeout`, `ServiceRefused` with what the
        service says, and `ServiceFailed` for everything else, also for more than `max_bytes`.
        """


class StreamSink(Protocol):
    async def submit(self, event: StreamEvent) -> None:
        """Returns when the event cannot be lost any more. Raises `StreamUnavailable`; then it may
        be there all the same, under the same id."""


class NoStreams:
    """For a hub that keeps neither a journal nor a connection to NATS."""

    async def submit(self, event: StreamEvent) -> None:
        raise StreamUnavailable(
            "this hub has nowhere to keep streams; switch its journal on (journal.enabled) or "
            "connect it to NATS (broker.host)"
        )


NO_STREAMS = NoStreams()
