"""Traces: records for a short time what a channel, or the channels of a session, receive.

A trace is an ordinary session, so the same rules and limits apply; presence shows it. Its events
are returned and not stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from hubbub.domain.errors import BadRequest, HubbubError, Overloaded
from hubbub.domain.fields import wire_name
from hubbub.domain.messages import JSON, TEXT, Message
from hubbub.domain.notices import MessageDelivery, Notice, Subscribed
from hubbub.domain.requests import Subscribe, SubscribeItem
from hubbub.domain.shares import FairShare
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.administration.live import LiveAdministration
from hubbub.engine.node import Node
from hubbub.ports.clock import Clock
from hubbub.ports.encoding import Encoder

MOST_SECONDS = 20
MOST_EVENTS = 500
_AT_ONCE = 8
"""Maximum number of concurrent traces on one node, shared fairly between hubs."""
_MOST_CHANNELS = 20
"""Maximum number of traced channels of a session."""
_SHOWN_BYTES = 2000


class TraceEvent(msgspec.Struct, frozen=True, rename=wire_name, omit_defaults=True):
    """A message (`kind` is Publish) or another notice, such as a join. `payload` is the beginning
    of a text, at most 2,000 bytes. `at` is in ms since 1970."""

    at: int
    kind: str
    channel: str = ""
    event: str = ""
    msg_id: str = ""
    serial: str = ""
    publisher: str | None = None
    content_type: str = ""
    bytes: int = 0
    payload: str | None = None


class Trace(msgspec.Struct, frozen=True, rename=wire_name):
    """`complete` is false where more came than was asked for."""

    channels: list[str]
    events: list[TraceEvent]
    complete: bool


class _Collector:
    """An encoder that collects what it is given."""

    prepare = None
    in_order = True

    def __init__(self, clock: Clock, limit: int) -> None:
        self._clock = clock
        self._limit = limit
        self.events: list[TraceEvent] = []
        self.refused: list[HubbubError] = []
        self.full = asyncio.Event()

    def encode_message(self, message: Message, epoch: str, previous: int | None = None) -> bytes:
        return self.encode(MessageDelivery(message, previous_serial=previous))

    def encode(self, notice: Notice) -> bytes:
        if isinstance(notice, Subscribed):
            self.refused += [failure.error for failure in notice.failures]
        elif isinstance(notice, MessageDelivery):
            self._keep(self._message(notice.message))
        elif channel := getattr(notice, "channel", ""):
            self._keep(TraceEvent(self._now(), type(notice).__name__, channel))
        return b""

    def pack(self, units: Sequence[bytes]) -> bytes:
        return b""

    def _now(self) -> int:
        return int(self._clock.now() * 1000)

    def _keep(self, event: TraceEvent) -> None:
        if len(self.events) < self._limit:
            self.events.append(event)
        else:
            self.full.set()

    def _message(self, message: Message) -> TraceEvent:
        readable = message.content_type in (JSON, TEXT)
        return TraceEvent(
            at=self._now(),
            kind="Publish",
            channel=message.channel,
            event=message.event,
            msg_id=message.id,
            serial=str(message.serial) if message.serial else "",
            publisher=message.publisher,
            content_type=message.content_type,
            bytes=len(message.payload),
            payload=message.payload[:_SHOWN_BYTES].decode(errors="replace") if readable else None,
        )


class _Ear:
    """A one-way connection without a socket."""

    one_way = True
    technology = "trace"
    behind = False
    full = False
    buffered = 0
    fd = -1
    rid = None

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.error: HubbubError | None = None
        self.ended = asyncio.Event()

    def encoder_in(self, channel: str) -> Encoder:
        return self.encoder

    def send(self, data: bytes) -> None:
        """Does nothing: the encoder has collected the notice."""

    def block(self, data: bytes, sent: int) -> None:
        """Does nothing: there is no socket."""

    def lose(self) -> None:
        """Does nothing: there is no socket."""

    def disconnect(self, error: HubbubError) -> None:
        self.error = error
        self.ended.set()

    def close(self) -> None:
        self.ended.set()

    async def drain(self) -> None:
        """Does nothing: nothing is queued."""

    def pause_reading(self) -> None:
        """Does nothing: nothing is read."""

    def resume_reading(self) -> None:
        """Does nothing: nothing is read."""


class Tracer:
    def __init__(self, node: Node, audit: AuditLog, live: LiveAdministration) -> None:
        self._node = node
        self._audit = audit
        self._live = live
        self._share = FairShare(_AT_ONCE)

    async def trace(
        self,
        actor: Actor,
        hub: str,
        channel: str | None,
        session: str | None,
        seconds: float,
        limit: int,
    ) -> Trace:
        """Records for this many seconds, or until the limit is reached. Raises `BadRequest`,
        `NotFound`, `NotPermitted`, `Overloaded`."""
        if (channel is None) == (session is None):
            raise BadRequest("give one of `channel` and `session`")
        if not self._share.may_take(hub):
            raise Overloaded(f"too many traces of hub {hub!r} are under way; try again in a moment")
        self._share.take(hub)
        try:
            channels = [channel] if channel is not None else []
            if session is not None:
                channels = (await self._live.session(hub, session)).channels[:_MOST_CHANNELS]
            about = {"channel": channel, "session": session, "seconds": seconds}
            await self._audit.note(actor, "trace.start", hub, channel or session or "", after=about)
            return await self._listen(actor, hub, channels, seconds, limit)
        finally:
            self._share.give_back(hub)

    async def _listen(
        self, actor: Actor, hub: str, channels: list[str], seconds: float, limit: int
    ) -> Trace:
        collector = _Collector(self._node.clock, limit)
        ear = _Ear(collector)
        session = self._node.open(self._node.hub(hub), ear, actor.identity)
        try:
            wanted = tuple(SubscribeItem(name) for name in channels)
            await self._node.subscriptions.subscribe(session, Subscribe(wanted))
            if collector.refused:
                raise collector.refused[0]
            waits = [asyncio.ensure_future(each.wait()) for each in (collector.full, ear.ended)]
            _, pending = await asyncio.wait(
                waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            for each in pending:
                each.cancel()
        finally:
            self._node.close(session, keep_state=False)
        if ear.error is not None:
            raise ear.error
        return Trace(channels, collector.events, not collector.full.is_set())
