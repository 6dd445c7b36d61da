"""Services that process clients' calls, and streams that store clients' events."""

from __future__ import annotations

from typing import Protocol

from hubbub.domain.errors import StreamUnavailable
from hubbub.domain.rules import RpcRoute
from hubbub.domain.services import ServiceCall, ServiceReply, StreamEvent


class ServiceCaller(Protocol):
    async def call(
        self, route: RpcRoute | None, call: ServiceCall, seconds: float, max_bytes: int
    ) -> ServiceReply:
        """Returns the response of the route's service; without a route, of any service that serves
        the method.

        Always ends within the timeout. Raises `ServiceNotFound` if no service is configured,
        `ServiceUnavailable` if it is unreachable, `ServiceTimeout`, `ServiceRefused` with the
        service's message, and `ServiceFailed` for everything else, including responses larger than
        `max_bytes`.
        """


class StreamSink(Protocol):
    async def submit(self, event: StreamEvent) -> None:
        """Returns when the event is durable. Raises `StreamUnavailable`; the event may have been
        stored nevertheless, under the same id."""


class NoStreams:
    """Rejects all events: the hub has neither a journal nor a connection to NATS."""

    async def submit(self, event: StreamEvent) -> None:
        raise StreamUnavailable(
            "this hub has nowhere to keep streams; switch its journal on (journal.enabled) or "
            "connect it to NATS (broker.host)"
        )


NO_STREAMS = NoStreams()
