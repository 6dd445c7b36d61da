"""Calls of services and events for streams: permissions, concurrency, timeouts and size limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from hubbub.domain.errors import (
    Limited,
    NotPermitted,
    QuotaExceeded,
    StreamUnavailable,
    Timeout,
    TooLarge,
    Unavailable,
)
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import Call, Enqueue
from hubbub.domain.services import (
    ServiceCall,
    ServiceReply,
    StreamEvent,
    check_method,
    check_stream,
    may_call,
    may_submit,
    route_for,
)
from hubbub.engine.hub import Hub
from hubbub.engine.limits import EngineLimits
from hubbub.ports import randomness
from hubbub.ports.clock import Clock
from hubbub.ports.services import ServiceCaller, StreamSink

EVENT_BYTES = 200
"""Size of a stream event besides its payload."""


class Services:
    """Serves sessions and plain HTTP alike."""

    def __init__(
        self, caller: ServiceCaller, streams: StreamSink, clock: Clock, limits: EngineLimits
    ) -> None:
        self._caller = caller
        self._streams = streams
        self._clock = clock
        self._limits = limits
        self._under_way: Counter[str] = Counter()

    async def call(
        self, hub: Hub, identity: Identity, request: Call, session_id: str | None = None
    ) -> ServiceReply:
        """Returns the service's response. Raises `InvalidName`, `NotPermitted`, `TooLarge`,
        `Limited` and the errors of `ServiceCaller.call`."""
        method = check_method(request.method)
        if not may_call(identity, method):
            raise NotPermitted(f"no permission to call {method!r}")
        self._check_size(request.payload)
        return await self.ask(
            hub,
            method,
            request.payload,
            request.content_type,
            identity.user_id,
            session_id,
            request.timeout_seconds,
        )

    async def ask(
        self,
        hub: Hub,
        method: str,
        payload: bytes,
        content_type: str,
        user_id: str | None,
        session_id: str | None,
        timeout_seconds: float = 0.0,
    ) -> ServiceReply:
        """A call by the hub itself on behalf of a user. Raises `Limited` and the errors of
        `ServiceCaller.call`."""
        route = route_for(hub.configuration.rpc_routes, method)
        if route is not None:
            route = hub.configuration.usable(route, self._limits.subject_root)
        longest = self._limits.call_seconds if route is None else route.timeout_seconds
        seconds = min(timeout_seconds or longest, longest)
        call = ServiceCall(hub.name, method, payload, content_type, user_id, session_id)
        with self._counted(hub):
            hub.counters.calls += 1
            try:
                return await self._caller.call(route, call, seconds, self._limits.message_bytes)
            except (Timeout, Unavailable):
                hub.counters.calls_failed += 1
                raise

    async def submit(
        self,
        hub: Hub,
        identity: Identity,
        request: Enqueue,
        technology: str,
        session_id: str | None = None,
    ) -> str:
        """Returns the id of the event in the stream. Raises `InvalidName`, `NotPermitted`,
        `TooLarge`, `Limited`, `QuotaExceeded` and `StreamUnavailable`."""
        stream = check_stream(request.stream)
        if not may_submit(identity, stream):
            raise NotPermitted(f"no permission to submit to the stream {stream!r}")
        self._check_size(request.payload)
        event = StreamEvent(
            id=randomness.token_urlsafe(15),
            hub=hub.name,
            stream=stream,
            event=request.event,
            payload=request.payload,
            content_type=request.content_type,
            submitted_at=int(self._clock.now() * 1000),
            user_id=identity.user_id,
            session_id=session_id,
            technology=technology,
        )
        size, now = len(request.payload) + EVENT_BYTES, self._clock.monotonic()
        if not hub.streams.take(size, now):
            raise QuotaExceeded(
                f"hub {hub.name!r} hands in more than its quota of bytes per second to streams; "
                "slow down and try again",
                hub.streams.seconds_until(size),
            )
        with self._counted(hub):
            hub.counters.stream_events += 1
            try:
                await self._streams.submit(event)
            except StreamUnavailable:
                hub.counters.stream_events_failed += 1
                raise
        return event.id

    def _check_size(self, payload: bytes) -> None:
        largest = self._limits.message_bytes
        if len(payload) > largest:
            raise TooLarge(f"the payload has {len(payload)} bytes; at most {largest} are allowed")

    @contextmanager
    def _counted(self, hub: Hub) -> Iterator[None]:
        """Bounds the calls in progress of a session and a hub: services are slower than the hub."""
        if self._under_way[hub.name] >= self._limits.hub_calls:
            raise Limited(
                f"hub {hub.name!r} has {self._limits.hub_calls} calls under way; try again later"
            )
        self._under_way[hub.name] += 1
        try:
            yield
        finally:
            self._under_way[hub.name] -= 1
            if not self._under_way[hub.name]:
                del self._under_way[hub.name]
