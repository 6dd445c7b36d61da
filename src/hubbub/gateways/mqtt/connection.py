"""MQTT connections: packets of a client become requests for its session; deliveries and answers
become packets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from hubbub.domain import notices, requests
from hubbub.domain.errors import (
    HeartbeatTimeout,
    HubbubError,
    InvalidPayload,
    SessionReplaced,
    TooLarge,
    TooManyFilters,
    Unavailable,
    WrongChannelKind,
)
from hubbub.domain.names import takes_notifications
from hubbub.domain.notices import Notice
from hubbub.domain.permissions import may_read
from hubbub.domain.requests import Position
from hubbub.engine.mqtt.devices import DeviceKey
from hubbub.engine.mqtt.requests import (
    FiltersFollowed,
    FiltersSettled,
    FollowFilters,
    WantedChannels,
)
from hubbub.engine.mqtt.settings import Mqtt
from hubbub.engine.sessions.session import Session
from hubbub.gateways.mqtt.encoders import OwnEncoder, SharedEncoders, bare, framed
from hubbub.gateways.mqtt.messages import item_from
from hubbub.gateways.mqtt.options import ChannelOptions, FilterOptions
from hubbub.gateways.mqtt.state import DeviceState, UnreleasedMessage
from hubbub.gateways.outlet import Outlet
from hubbub.gateways.turns import LONG_COST, SLICE_BYTES, SLICE_REQUESTS, AddressUsage, Turns
from hubbub.ports import randomness
from hubbub.ports.clock import Clock
from hubbub.ports.encoding import Encoder
from hubbub.protocols.mqtt import writing
from hubbub.protocols.mqtt.fields import Property
from hubbub.protocols.mqtt.names import SHARED, check_filter, check_topic, matches, topic_of
from hubbub.protocols.mqtt.packets import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    V3,
    V5,
    AckPacket,
    AuthPacket,
    Connect,
    DisconnectPacket,
    MqttPacket,
    MqttReader,
    PingPacket,
    PublishPacket,
    SubscribePacket,
    UnsubscribePacket,
    UnsupportedVersion,
    WantedFilter,
)
from hubbub.protocols.mqtt.reasons import (
    PacketError,
    Reason,
    for_live,
    for_publish,
    for_subscribe,
    violation,
)
from hubbub.protocols.mqtt.window import DeliveryWindow, UnnumberedPublish
from hubbub.protocols.websocket import FrameError, FrameReader, Opcode, close_frame, frame

MAX_CONNECT_BYTES: Final = 65_536
V3_WINDOW: Final = 20
"""MQTT 3.1.1 clients do not say how many messages they take."""
_QOS_SHIFT = 16
"""A request id is the packet id, with the QoS above it."""
_UNSUPPORTED_DATA = 1003
_LAST_SLICES = 4
"""Slices of received packets that are still handled after the client closed the connection."""


def _may_read(session: Session, channel: str) -> bool:
    hub = session.hub
    return may_read(session.reader, channel, hub.configuration, hub.rules_for(channel))


def _ignore() -> None:
    """Nobody keeps the session."""


class _AskedFilter:
    """One filter of a SUBSCRIBE. `options` is None if it is refused, or answered with `code`."""

    __slots__ = ("before", "code", "error", "options", "topic_filter")

    def __init__(
        self,
        topic_filter: str,
        options: FilterOptions | None,
        error: HubbubError | None = None,
        code: int = 0,
    ) -> None:
        self.topic_filter = topic_filter
        self.options = options
        self.error = error
        self.code = code
        self.before: FilterOptions | None = None
        """The options that the client had for the same filter."""

    @property
    def wants_retained(self) -> bool:
        handling = 2 if self.options is None else self.options.retain_handling
        return handling == 0 or (handling == 1 and self.before is None)


class MqttConnection(Outlet):
    """A connection from its first byte to its end."""

    __slots__ = (
        "_aliases",
        "_asked_filters",
        "_closed",
        "_connecting",
        "_counted",
        "_door",
        "_encoders",
        "_frames",
        "_framing",
        "_held",
        "_paused",
        "_publishing",
        "_queued",
        "_reader",
        "_settings",
        "_state",
        "_turns",
        "_unread",
        "_unsubscribing",
        "_wanting",
        "address",
        "check_hub",
        "client_id",
        "expiry",
        "keep_alive",
        "key",
        "max_packet",
        "on_change",
        "on_end",
        "peer",
        "saving",
        "usage",
        "version",
    )

    technology = "mqtt"
    one_way = True
    """The hub sends no pings: the client's keep alive says whether it lives."""

    session: Session | None

    def __init__(
        self,
        transport: asyncio.Transport,
        settings: Mqtt,
        turns: Turns,
        clock: Clock,
        shared: SharedEncoders,
        peer: str,
        connecting: Callable[[MqttConnection, Connect], None],
        closed: Callable[[MqttConnection], None],
        websocket: bool,
    ) -> None:
        """`connecting` is called with the client's CONNECT, while reading is paused; `closed` when
        the connection is gone."""
        self._framing = framed if websocket else bare
        self._frames = FrameReader(settings.max_packet_bytes + SLICE_BYTES) if websocket else None
        own = OwnEncoder(self, V5, self._framing, clock, settings.metadata)
        super().__init__(transport, own, settings.send_buffer_bytes)
        self._settings = settings
        self._turns = turns
        self._connecting = connecting
        self._closed = closed
        self._encoders = shared
        self._reader = MqttReader(min(MAX_CONNECT_BYTES, settings.max_packet_bytes))
        self.address = turns.address_of(peer)
        self.usage = AddressUsage()
        self.peer = peer
        self.version = 0
        """0 until the client has connected."""
        self.client_id = ""
        self.check_hub: Callable[[str], None] | None = None
        """Raises `OriginRefused` if the hub permits no page of the connection's origin."""
        self.key: DeviceKey | None = None
        self.keep_alive = 0.0
        """Seconds without a packet after which the connection ends; 0: never."""
        self.max_packet = 0
        """The client's maximum packet size; 0: no limit."""
        self.on_end: Callable[[bool], None] | None = None
        """Called once when the connection ends, with whether the client took leave."""
        self._state = DeviceState(DeliveryWindow(V5, 0))
        self.expiry = 0.0
        """Seconds for which the session is kept after the connection."""
        self.saving: Callable[[], Awaitable[None]] | None = None
        """Stores the session, if it is kept."""
        self.on_change: Callable[[], None] = _ignore
        """Called when the session's state changed."""
        self._asked_filters: list[_AskedFilter] | None = None
        """The filters of the SUBSCRIBE that is not answered yet."""
        self._unsubscribing: tuple[int, bytes] | None = None
        """The packet id of the UNSUBSCRIBE that is not answered yet, and its answer."""
        self._wanting: tuple[str, ...] = ()
        """Filters whose retained messages are about to be sent."""
        self._aliases: dict[int, str] = {}
        self._publishing = 0
        """Messages with QoS 1 from the client that are not acknowledged yet."""
        self._unread = b""
        self._queued = False
        self._paused = False
        self._held = 0
        self._counted = 0

    # -- in -------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self.session is not None:
            self.session.hear()
        self._unread = self._unread + data if self._unread else data
        if self._held or self._queued or self._turns.left <= 0:
            self._go_on()
        else:
            self._serve()

    def take_turn(self) -> None:
        """Called by `Turns`."""
        self._queued = False
        if not self._closing:
            self._serve()

    def _serve(self) -> None:
        """Handles a slice of the received data; the rest waits for another turn."""
        left, size = SLICE_REQUESTS, len(self._unread)
        try:
            while left > 0 and not (self._held or self._closing or self._over_rate()):
                packet = self._reader.next()
                if packet is not None:
                    left -= 1 + self._take(packet)
                elif self._unread:
                    data, self._unread = self._unread[:SLICE_BYTES], self._unread[SLICE_BYTES:]
                    self._feed(data)
                else:
                    break
        except PacketError as error:
            self._violated(error)
        except FrameError as error:
            self._end_with(close_frame(error.close_code, error.message))
        self._turns.charge(self, SLICE_REQUESTS - left, size - len(self._unread))
        self._go_on(left <= 0)

    def _feed(self, data: bytes) -> None:
        if self._frames is None:
            self._reader.feed(data)
            return
        for event in self._frames.feed(data):
            if event.opcode is Opcode.BINARY:
                self._reader.feed(event.data)
            elif event.opcode is Opcode.PING:
                self.send(frame(Opcode.PONG, event.data))
            elif event.opcode is Opcode.CLOSE:
                self._end_with(close_frame(1000))
            elif event.opcode is not Opcode.PONG:
                self._end_with(close_frame(_UNSUPPORTED_DATA, "MQTT uses binary messages"))

    def _over_rate(self) -> bool:
        """Over the session's rate, reading waits: MQTT has no refusal that clients repeat."""
        session = self.session
        delay = 0.0 if session is None else session.rate_delay()
        if delay > 0:
            self.pause_reading()
            asyncio.get_running_loop().call_later(delay, self.resume_reading)
        return delay > 0

    def _go_on(self, more: bool = False) -> None:
        waits = more or bool(self._unread)
        if waits and not (self._queued or self._held or self._closing):
            self._queued = True
            self._turns.wait(self)
        held = self._reader.held_bytes + len(self._unread)
        if held != self._counted:
            self._counted = held
            self._count()
        pause = len(self._unread) > SLICE_BYTES
        if pause is not self._paused and not self.transport.is_closing():
            self._paused = pause
            (self.transport.pause_reading if pause else self.transport.resume_reading)()

    def pause_reading(self) -> None:
        self._held += 1

    def resume_reading(self) -> None:
        self._held = max(0, self._held - 1)
        if not (self._held or self._closing):
            self._go_on(more=True)

    @property
    def buffered(self) -> int:
        return super().buffered + self._state.window.waiting_bytes

    @property
    def held_bytes(self) -> int:
        window = self._state.window
        received = self._reader.held_bytes + len(self._unread)
        return super().buffered + window.held_bytes + received

    def _take(self, packet: MqttPacket) -> int:
        """Returns the packet's cost besides 1."""
        if isinstance(packet, Connect):
            self.version = packet.version
            self.pause_reading()
            self._connecting(self, packet)
            return LONG_COST
        session = self.session
        if session is None:
            raise violation("a packet before CONNACK")
        if isinstance(packet, PublishPacket):
            self._publish(session, packet)
        elif isinstance(packet, AckPacket):
            self._acknowledged(packet)
        elif isinstance(packet, SubscribePacket):
            self._subscribe(session, packet)
            return LONG_COST * len(packet.filters)
        elif isinstance(packet, UnsubscribePacket):
            self._unsubscribe(session, packet)
            return len(packet.filters)
        elif isinstance(packet, PingPacket):
            self._write(writing.PING_ANSWER)
        elif isinstance(packet, DisconnectPacket):
            self._leave(packet)
        elif isinstance(packet, AuthPacket):
            raise violation("AUTH without an authentication method")
        return 0

    def connected(
        self, session: Session, packet: Connect, answer: bytes, state: DeviceState, goes_on: bool
    ) -> None:
        """The client is admitted: `answer` is its CONNACK. If the session goes on, what is in
        flight is sent again, then what the client missed."""
        self._state = state
        state.window.released = self._released
        for publication in state.incoming.values():
            publication.of_this_connection = False
        self.max_packet = packet.properties.get(Property.MAXIMUM_PACKET, 0)
        self.encoder = OwnEncoder(
            self,
            packet.version,
            self._framing,
            session.clock,
            self._settings.metadata,
            self.max_packet,
        )
        self._reader.most_bytes = self._settings.max_packet_bytes
        if 0 < self.max_packet < len(answer):
            self._end_with(b"")  # the client takes no CONNACK
            return
        self._write(answer)
        if goes_on:
            state.window.drop_channels(partial(_may_read, session))
            self._write(state.window.again())
            self._go_on_following(session)
        self.resume_reading()

    def _go_on_following(self, session: Session) -> None:
        state = self._state
        self._asked_filters = [
            _AskedFilter(topic_filter, options)
            for topic_filter, options in state.filters.all().items()
        ]
        if not self._asked_filters:
            return
        wanted = tuple(WantedChannels(each.names) for each in state.filters.all().values())
        places = tuple(Position(name, at, epoch) for name, (epoch, at) in state.places.items())
        request = FollowFilters(wanted, frozenset(), 0, places, since=state.saved_at)
        session.receive(iter((request,)), 1)

    def _released(self, packet: UnnumberedPublish) -> None:
        if packet.serial:
            self._state.places[packet.channel] = packet.epoch, packet.serial
        if self.expiry:
            self.on_change()

    def keep(self) -> DeviceState:
        """The state that outlives this connection."""
        state, session = self._state, self.session
        state.window.released = None
        state.window.drop_waiting()
        state.incoming = {
            each: known for each, known in state.incoming.items() if known.received or known.key
        }
        feeds = {} if session is None else session.feeds or {}
        for channel, feed in feeds.items():
            if self.options_in(channel).qos:
                state.places.setdefault(channel, (feed.epoch, feed.position))
        state.saved_at = 0 if session is None else int(session.clock.now() * 1000)
        return state

    def refuse(self, reason: Reason) -> None:
        """The client is not admitted."""
        self._end_with(self._framing(writing.connack(self.version, reason)))

    def _leave(self, packet: DisconnectPacket) -> None:
        if packet.session_expiry is not None:
            if packet.session_expiry and not self.expiry:
                raise violation("the session expiry is 0 and cannot be set now")
            self.expiry = min(packet.session_expiry, self._settings.session_expiry)
        self._over(took_leave=packet.reason != Reason.DISCONNECT_WITH_WILL)
        if self.session is not None:
            self.session.reason = "closed"
        self._end_with(b"")

    # -- publishing -----------------------------------------------------------------------------

    def _publish(self, session: Session, packet: PublishPacket) -> None:
        settings = self._settings
        if packet.qos > settings.max_qos:
            raise PacketError(Reason.QOS_NOT_SUPPORTED, f"QoS {packet.qos} is not supported")
        topic = self._unaliased(packet)
        earlier = self._state.incoming.get(packet.packet_id) if packet.qos == 2 else None
        if earlier is not None:
            if not (packet.duplicate or earlier.of_this_connection):
                earlier = None  # the client has forgotten the earlier message
            elif earlier.received:
                self._write(writing.ack(self.version, PUBREC, packet.packet_id))
                return
            elif earlier.of_this_connection:
                return
        in_flight = self._publishing + len(self._state.incoming)
        if self.version == V5 and packet.qos and in_flight >= settings.receive_maximum:
            raise PacketError(
                Reason.RECEIVE_MAXIMUM, f"{in_flight} messages are not acknowledged yet"
            )
        req_id = packet.packet_id | packet.qos << _QOS_SHIFT if packet.qos else None
        if packet.qos == 1:
            self._publishing += 1
        elif packet.qos == 2:
            key = None if earlier is None else earlier.key
            key = key or f"mqtt:{randomness.token_urlsafe(16)}"
            self._state.incoming[packet.packet_id] = UnreleasedMessage(key)
        try:
            channel = check_topic(topic)
            item = item_from(
                channel, packet.payload, packet.qos, packet.retain, packet.properties, req_id
            )
            if packet.qos == 2 and self.expiry:
                key = self._state.incoming[packet.packet_id].key
                item = msgspec.structs.replace(item, idempotency_key=key)
        except HubbubError as error:
            session.hub.counters.messages_refused += 1
            if req_id is not None:
                self._write(self._publish_answer(req_id, error))
            elif isinstance(error, InvalidPayload):
                raise PacketError(Reason.PAYLOAD_FORMAT, error.message) from None
            return
        session.receive(iter((requests.Publish((item,)),)), 1)

    def _unaliased(self, packet: PublishPacket) -> str:
        alias = packet.properties.get(Property.TOPIC_ALIAS)
        if alias is None:
            return packet.topic
        if alias > self._settings.topic_alias_maximum:
            raise PacketError(
                Reason.ALIAS_INVALID,
                f"topic alias {alias} is over {self._settings.topic_alias_maximum}",
            )
        if packet.topic:
            self._aliases[alias] = packet.topic
        elif alias not in self._aliases:
            raise violation(f"topic alias {alias} has no topic")
        return self._aliases[alias]

    def _publish_answer(self, req_id: int, error: HubbubError | None) -> bytes:
        """The PUBACK or PUBREC; with an error that this version cannot express, ends the
        connection."""
        packet_id, qos = req_id & 0xFFFF, req_id >> _QOS_SHIFT
        kind = PUBACK if qos == 1 else PUBREC
        reason = Reason.SUCCESS if error is None else for_publish(error)
        if qos == 1:
            self._publishing -= 1
        elif reason == Reason.SUCCESS:
            self._state.incoming[packet_id].received = True
        else:
            del self._state.incoming[packet_id]
        if error is not None and self._ends_with(error):
            self._disconnect_soon(error)
            return b""
        if self.version != V5 and qos == 2 and reason != Reason.SUCCESS:
            # Acknowledged and dropped: the client goes on with PUBREL.
            self._state.incoming[packet_id] = UnreleasedMessage(None, received=True)
        return writing.ack(self.version, kind, packet_id, reason)

    def _ends_with(self, error: HubbubError) -> bool:
        if isinstance(error, Unavailable | TooLarge):
            return self.version == V5 or isinstance(error, Unavailable)
        if self.version == V5:
            return False
        return error.retry or self._settings.refused_publish == "close"

    def _acknowledged(self, packet: AckPacket) -> None:
        if packet.kind == PUBREL:
            publication = self._state.incoming.get(packet.packet_id)
            if publication is None:
                self._write(
                    writing.ack(self.version, PUBCOMP, packet.packet_id, Reason.PACKET_ID_NOT_FOUND)
                )
            elif publication.received:
                del self._state.incoming[packet.packet_id]
                self._write(writing.ack(self.version, PUBCOMP, packet.packet_id))
            return
        window = self._state.window
        waited = window.waiting_bytes
        self._write(window.acknowledged(packet.kind, packet.packet_id, packet.reason))
        if self.expiry:
            self.on_change()
        if waited and self.buffered <= self._limit // 4:
            self._release_drained()

    # -- subscribing ----------------------------------------------------------------------------

    def _subscribe(self, session: Session, packet: SubscribePacket) -> None:
        """Options are in force before the session joins a channel; those of a refused filter are
        taken back."""
        kept = self._state.filters.names()
        asked = [self._asked(each, packet.identifier) for each in packet.filters]
        for each in asked:
            if each.options is not None:
                each.before = self._state.filters.get(each.topic_filter)
                if each.before is None and len(self._state.filters) >= self._settings.max_filters:
                    each.error = TooManyFilters(
                        f"a client may have {self._settings.max_filters} topic filters "
                        "(mqtt.maxFilters)"
                    )
                    each.options = None
                else:
                    self._state.filters.put(each.topic_filter, each.options)
        self._asked_filters = asked
        valid = [each for each in asked if each.options is not None]
        self._wanting = tuple(each.topic_filter for each in valid if each.wants_retained)
        for each in valid:
            self._regroup(session, each.topic_filter)
        if not valid:
            self._write(self._subscribed(packet.packet_id, ()))
            return
        wanted = tuple(WantedChannels(each.options.names) for each in valid if each.options)
        request = FollowFilters(wanted, kept, packet.packet_id, saving=self.saving)
        session.receive(iter((request,)), 1)

    def _asked(self, wanted: WantedFilter, identifier: int) -> _AskedFilter:
        topic_filter = wanted.topic_filter
        if topic_filter.startswith(SHARED):
            return _AskedFilter(topic_filter, None, code=self._shared(wanted))
        try:
            names = check_filter(topic_filter)
            if takes_notifications(names[0]):
                raise WrongChannelKind(f"{topic_filter!r} are notifications, which MQTT cannot say")
        except HubbubError as error:
            return _AskedFilter(topic_filter, None, error)
        return _AskedFilter(
            topic_filter,
            FilterOptions(
                names,
                min(wanted.qos, self._settings.max_qos),
                wanted.no_local,
                wanted.retain_as_published,
                wanted.retain_handling,
                identifier,
            ),
        )

    @staticmethod
    def _shared(wanted: WantedFilter) -> Reason:
        if wanted.no_local:
            raise violation("No Local with a shared subscription")
        return Reason.SHARED_NOT_SUPPORTED

    def _subscribed(self, packet_id: int, errors: Sequence[HubbubError | None]) -> bytes:
        """The SUBACK; `errors` are those of the filters that were asked for."""
        asked, self._asked_filters = self._asked_filters, None
        found = iter(errors)
        codes = []
        for each in asked or ():
            if each.options is not None:
                each.error = next(found)
            if each.error is None:
                codes.append(each.code if each.options is None else each.options.qos)
                continue
            codes.append(for_subscribe(each.error))
            if each.options is not None:
                self._take_back(each)
        self.on_change()
        return writing.suback(self.version, packet_id, codes) if packet_id else b""

    def _take_back(self, asked: _AskedFilter) -> None:
        if asked.before is not None:
            self._state.filters.put(asked.topic_filter, asked.before)
        else:
            self._state.filters.pop(asked.topic_filter)
        if self.session is not None:
            self._regroup(self.session, asked.topic_filter)

    def _regroup(self, session: Session, topic_filter: str) -> None:
        """The options of channels that the filter matches may have changed."""
        for channel, feed in list((session.feeds or {}).items()):
            if matches(topic_filter, topic_of(channel)):
                feed.rescreen(session, self)

    def _unsubscribe(self, session: Session, packet: UnsubscribePacket) -> None:
        names, codes = set[str](), bytearray()
        for topic_filter in packet.filters:
            options = self._state.filters.pop(topic_filter)
            codes.append(Reason.SUCCESS if options is not None else Reason.NO_SUBSCRIPTION_EXISTED)
            if options is not None:
                names.update(options.names)
        gone = tuple(sorted(names - self._state.filters.names()))
        answer = writing.unsuback(self.version, packet.packet_id, codes)
        if not gone:
            self._write(answer)
        else:
            self._unsubscribing = packet.packet_id, answer
            session.receive(iter((requests.Unsubscribe(gone, packet.packet_id),)), 1)
        for topic_filter in packet.filters:
            self._regroup(session, topic_filter)
        self._state.places = {
            name: place
            for name, place in self._state.places.items()
            if name in (session.feeds or ())
        }
        self.on_change()

    # -- what the engine says -------------------------------------------------------------------

    def encoder_in(self, channel: str) -> Encoder:
        options = self._state.filters.for_channel(channel)
        if options.qos or options.no_local or self.max_packet:
            return self.encoder
        return self._encoders.find(self.version, self._framing, options)

    def options_in(self, channel: str) -> ChannelOptions:
        return self._state.filters.for_channel(channel)

    def own_session(self) -> str | None:
        return None if self.session is None else self.session.id

    def wants_retained(self, channel: str) -> bool:
        topic = topic_of(channel)
        return any(matches(each, topic) for each in self._wanting)

    def number(self, packet: UnnumberedPublish) -> bytes:
        window = self._state.window
        written = window.send(packet)
        if window.waiting_bytes:
            self._count()
            if self.buffered > self._limit:
                asyncio.get_running_loop().call_soon(self.give_up)
        return written

    def told(self, notice: Notice) -> bytes:
        if isinstance(notice, notices.Published):
            answers = [self._publish_answer(each.req_id, each.error) for each in notice.results]
            return b"".join(answers)
        if isinstance(notice, FiltersFollowed):
            return self._subscribed(notice.req_id, notice.errors)
        if isinstance(notice, FiltersSettled):
            self._wanting = ()
        elif isinstance(notice, notices.Unsubscribed):
            if self._unsubscribing is not None and notice.req_id == self._unsubscribing[0]:
                (_, answer), self._unsubscribing = self._unsubscribing, None
                return answer
        elif isinstance(notice, notices.Failed):
            return self._failed(notice.req_id, notice.error)
        elif isinstance(notice, notices.Subscribed) and notice.failures:
            # The client believes to follow channels that it does not: it has to begin again.
            self._disconnect_soon(notice.failures[0].error)
        return b""

    def _failed(self, req_id: int, error: HubbubError) -> bytes:
        asked = self._asked_filters
        if asked is not None and req_id:
            errors = [error for each in asked if each.options is not None]
            self._wanting = ()
            return self._subscribed(req_id, errors)
        self._disconnect_soon(error)
        return b""

    def _disconnect_soon(self, error: HubbubError) -> None:
        asyncio.get_running_loop().call_soon(self.disconnect, error)

    # -- out ------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        if data:
            super().send(data)

    def _write(self, data: bytes) -> None:
        if data:
            super().send(self._framing(data))

    # -- the end --------------------------------------------------------------------------------

    def check_alive(self, now: float) -> None:
        """Called every second, with the clock's monotonic time."""
        session = self.session
        if session is not None and self.keep_alive and now - session.last_seen > self.keep_alive:
            self.disconnect(
                HeartbeatTimeout(f"no packet from the client within {self.keep_alive:g} seconds")
            )

    def taken_over(self) -> None:
        self.disconnect(SessionReplaced("the client id connected again"))

    def _violated(self, error: PacketError) -> None:
        if self.session is not None:
            self.session.reason = "malformed"
            self._end_with(self._last(error.reason))
        elif isinstance(error, UnsupportedVersion):
            self._end_with(self._framing(writing.connack(V3, error.reason)))
        else:
            self._end_with(b"")

    def _last(self, reason: Reason) -> bytes:
        return self._framing(writing.disconnect(self.version, reason))

    def _end_with(self, data: bytes) -> None:
        if self._closing:
            return
        self.send(data)
        if self._frames is not None:
            super().send(close_frame(1000))
        self._close_soon()

    def farewell(self, error: HubbubError) -> bytes:
        last = self._last(for_live(error)) if self.session is not None else b""
        return last if self._frames is None else last + close_frame(1000)

    def goodbye(self) -> bytes:
        return b"" if self._frames is None else close_frame(1000)

    def _close_soon(self) -> None:
        super()._close_soon()
        self._unread = b""
        if self._backlog or self.transport.is_closing():
            return
        if self.transport.can_write_eof():
            self.transport.write_eof()  # and the client's last packets are still read
        else:
            self.transport.close()

    def eof_received(self) -> None:
        """The client's last packets count, if they can be handled at once."""
        for _ in range(_LAST_SLICES):
            if not self._unread or self._held or self._closing:
                break
            self._serve()

    @property
    def is_gone(self) -> bool:
        return self._closing or self.transport.is_closing()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._closed(self)

    def _over(self, took_leave: bool) -> None:
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end(took_leave)

    def _end_session(self, keep_state: bool = True) -> None:
        self._over(took_leave=False)
        super()._end_session(keep_state)

    def _lose_session(self) -> None:
        self._over(took_leave=False)
        super()._lose_session()
