"""CONNECT: which hub the client means, who it is, and whether it may come in."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from hubbub.domain.errors import (
    HubbubError,
    InvalidName,
    InvalidToken,
    NotAuthenticated,
    NotPermitted,
    TooLarge,
)
from hubbub.domain.permissions import ANONYMOUS, Identity
from hubbub.engine.hub import Hub
from hubbub.engine.mqtt.devices import ConnectedDevices, DeviceKey
from hubbub.engine.mqtt.kept import KeptSessions, KeptState
from hubbub.engine.mqtt.settings import Mqtt
from hubbub.engine.node import Node
from hubbub.engine.publishing import check_place
from hubbub.engine.sessions.session import Session
from hubbub.gateways.credentials import require_authenticated
from hubbub.gateways.mqtt.connection import V3_WINDOW, MqttConnection
from hubbub.gateways.mqtt.messages import item_from
from hubbub.gateways.mqtt.state import DeviceState
from hubbub.ports import randomness
from hubbub.protocols.mqtt import writing
from hubbub.protocols.mqtt.fields import Property
from hubbub.protocols.mqtt.names import check_topic
from hubbub.protocols.mqtt.packets import V5, Connect, Will
from hubbub.protocols.mqtt.reasons import PacketError, Reason, for_connect
from hubbub.protocols.mqtt.window import DeliveryWindow

logger = logging.getLogger(__name__)

TECHNOLOGY: Final = "mqtt"
TOKEN_METHOD: Final = "hubbub-token"  # noqa: S105 - the name of a method
MAX_CLIENT_ID_CHARS: Final = 255
_KEPT_BYTES: Final = 64 * 1024
"""Messages in flight to a device whose session is kept, together at most."""
_GRACE: Final = 1.5
"""A client is given up after this many keep alives without a packet."""


class Entrance:
    """Admits clients: after a CONNECT there is a session, or the connection ends."""

    def __init__(
        self, node: Node, settings: Mqtt, admit: Callable[[str], None], keeps_sessions: bool
    ) -> None:
        """`admit` accepts a new connection from an address, or raises `HubbubError`."""
        self._kept = node.feature(KeptSessions)
        self._longest = settings.session_expiry if keeps_sessions else 0.0
        self._node = node
        self._devices = node.feature(ConnectedDevices)
        self._settings = settings
        self._admit = admit
        self._entering: dict[DeviceKey, asyncio.Event] = {}
        """Devices whose session is being found: a second connection waits."""

    async def enter(self, connection: MqttConnection, packet: Connect, place: str | None) -> None:
        """`place` is the hub of the listener or path, if it names one."""
        try:
            await self._open(connection, packet, place)
        except PacketError as error:
            connection.refuse(error.reason)
        except HubbubError as error:
            connection.refuse(for_connect(error))
        except Exception:
            logger.exception("a CONNECT failed in an unforeseen way")
            connection.refuse(Reason.UNSPECIFIED)

    async def _open(self, connection: MqttConnection, packet: Connect, place: str | None) -> None:
        self._admit(connection.peer)
        client_id = _client_id(packet)
        hub, identity = await self._identify(connection, packet, place)
        if connection.check_hub is not None:
            connection.check_hub(hub.name)
        if hub.missing is not None:
            raise hub.missing
        if packet.will is not None:
            self._check_will(hub, identity, packet.will)
        key = DeviceKey(hub.name, identity.user_id, client_id)
        expiry = self._expiry(packet)
        while key in self._entering:
            await self._entering[key].wait()
        entered = self._entering[key] = asyncio.Event()
        try:
            found = await self._found(key, expiry)
            if connection.is_gone:
                return
            session = self._node.open(hub, connection, identity, connection.peer)
            connection.session, connection.key = session, key
            self._devices.enter(key, connection)  # which may hand over its state
            self._begin(connection, packet, key, found, expiry, session)
        finally:
            del self._entering[key]
            entered.set()

    async def _found(self, key: DeviceKey, expiry: float) -> KeptState | bytes | None:
        """The device's session. Raises `QuotaExceeded`, `StoreUnavailable`."""
        if not self._longest:
            return None
        found = await self._kept.find(key)
        if expiry and found is None:
            await self._kept.check_room(key.hub, self._settings.max_sessions)
        return found

    def _begin(
        self,
        connection: MqttConnection,
        packet: Connect,
        key: DeviceKey,
        found: KeptState | bytes | None,
        expiry: float,
        session: Session,
    ) -> None:
        """A session in memory is newer than what was found: another connection had it."""
        known = self._kept.in_memory(key)
        state = None if packet.clean else known
        sizes = packet.version, self._window(packet), self._in_flight_bytes(expiry)
        if isinstance(state, DeviceState):
            state.window.tune(*sizes)
        elif isinstance(found, bytes) and not packet.clean:
            state = DeviceState.decode(found, DeliveryWindow(*sizes))
        else:
            state = None
        if state is None:
            if known is not None or found is not None:
                self._kept.forget(key)
            fresh = DeviceState(DeliveryWindow(*sizes))
            self._connect(connection, packet, key, fresh, False, expiry, session)
        else:
            self._connect(connection, packet, key, state, True, expiry, session)

    def _connect(
        self,
        connection: MqttConnection,
        packet: Connect,
        key: DeviceKey,
        state: DeviceState,
        present: bool,
        expiry: float,
        session: Session,
    ) -> None:
        if expiry:
            self._kept.begin(key, state, expiry)
            connection.expiry = expiry
            connection.on_change = partial(self._kept.changed, key)
            connection.saving = partial(self._kept.save, key)
        elif present:
            self._kept.forget(key)
        connection.on_end = partial(
            self._ended, connection, key, session.hub, session.identity, packet.will
        )
        connection.keep_alive = _GRACE * self._keep_alive(packet)
        answer = self._accepted(packet, key.client_id, present, expiry)
        connection.connected(session, packet, answer, state, present)

    def _expiry(self, packet: Connect) -> float:
        if packet.version != V5:
            return 0.0 if packet.clean else self._longest
        asked: int = packet.properties.get(Property.SESSION_EXPIRY, 0)
        return float(min(asked, int(self._longest)))

    def _in_flight_bytes(self, expiry: float) -> int:
        """Messages in flight are kept in memory as long as the session."""
        return _KEPT_BYTES if expiry else self._settings.send_buffer_bytes

    # -- who ------------------------------------------------------------------------------------

    async def _identify(
        self, connection: MqttConnection, packet: Connect, place: str | None
    ) -> tuple[Hub, Identity]:
        token = self._token(packet)
        named, user_name = _split(packet.user_name, place)
        if named is not None and place is not None and named != place:
            raise NotPermitted("the user name and the address name different hubs")
        name = named or place or (self._settings.default_hub if token is None else None)
        if token is not None:
            return await self._by_token(token, name, connection.peer)
        if name is None:
            raise NotAuthenticated("nothing names a hub: see docs/mqtt.md")
        hub = self._node.visit(name, connection.peer)
        if packet.password is not None:
            return hub, await self._by_password(hub, packet, user_name or "", connection.peer)
        require_authenticated(ANONYMOUS, hub)
        return hub, ANONYMOUS

    def _token(self, packet: Connect) -> str | None:
        method = packet.properties.get(Property.AUTH_METHOD)
        if method is not None:
            if method != TOKEN_METHOD:
                raise PacketError(Reason.BAD_METHOD, f"the method {method!r} is not known")
            return _as_text(packet.properties.get(Property.AUTH_DATA, b"")) or ""
        if packet.password is not None:
            password = _as_text(packet.password)
            return password if password is not None and _is_token(password) else None
        user_name = packet.user_name
        return user_name if user_name is not None and _is_token(user_name) else None

    async def _by_token(self, token: str, name: str | None, peer: str) -> tuple[Hub, Identity]:
        credentials = self._node.credentials
        if name is None:
            name, identity = self._of_token(token, peer)
            return self._node.visit(name, peer), identity
        hub = self._node.visit(name, peer)
        identity = await credentials.verify_fetching(token, hub.name, peer)
        return hub, identity

    def _of_token(self, token: str, peer: str) -> tuple[str, Identity]:
        """A foreign token names no hub, and one of an administrator names all."""
        name, identity = self._node.credentials.identify(token, peer)
        if name == "*":
            name = self._settings.default_hub or ""
        if not name:
            raise NotAuthenticated("the token is for all hubs: name one")
        return name, identity

    async def _by_password(self, hub: Hub, packet: Connect, user_name: str, peer: str) -> Identity:
        password = packet.password or b""
        given: dict[str, Any] = {
            "username": user_name,
            "password": _as_text(password),
            "clientID": packet.client_id,
            "protocol": TECHNOLOGY,
        }
        if given["password"] is None:
            given["password"] = {"base64": base64.b64encode(password).decode()}
        try:
            identity, issued = await self._node.authentication.exchange(
                hub, packet.client_id, peer, msgspec.json.encode(given)
            )
        except NotAuthenticated as error:
            raise InvalidToken(error.message) from None
        return msgspec.structs.replace(
            identity, token_id=issued.token_id, issued_at=issued.issued_at
        )

    # -- the will -------------------------------------------------------------------------------

    def _check_will(self, hub: Hub, identity: Identity, will: Will) -> None:
        if will.qos > self._settings.max_qos:
            raise PacketError(Reason.QOS_NOT_SUPPORTED, f"QoS {will.qos} is not supported")
        try:
            item = item_from(
                check_topic(will.topic), will.payload, will.qos, will.retain, will.properties
            )
        except InvalidName as error:
            raise PacketError(Reason.TOPIC_INVALID, error.message) from None
        if len(will.payload) > self._node.limits.message_bytes:
            raise TooLarge(f"the will has {len(will.payload)} bytes")
        check_place(hub, identity, item)

    def _ended(
        self,
        connection: MqttConnection,
        key: DeviceKey,
        hub: Hub,
        identity: Identity,
        will: Will | None,
        took_leave: bool,
    ) -> None:
        """The will waits for its delay as long as the session is kept."""
        self._devices.leave(key, connection)
        wanted = None if will is None or took_leave else will
        publish = (
            None
            if wanted is None
            else partial(self._publish_will, connection.own_session(), key, hub, identity, wanted)
        )
        delay: int = 0 if wanted is None else wanted.properties.get(Property.WILL_DELAY, 0)
        state = connection.keep()
        if connection.expiry:
            self._kept.lose(key, state, connection.expiry, publish, delay)
            return
        self._kept.end(key, state)
        if publish is not None:
            publish()

    def _publish_will(
        self, session: str | None, key: DeviceKey, hub: Hub, identity: Identity, will: Will
    ) -> None:
        item = item_from(
            check_topic(will.topic), will.payload, will.qos, will.retain, will.properties
        )
        try:
            self._node.publisher.publish(hub, identity, item, None, TECHNOLOGY, session)
        except HubbubError as error:
            hub.counters.messages_refused += 1
            logger.info("the will of %r in hub %r is refused: %s", key.client_id, hub.name, error)

    # -- the answer -----------------------------------------------------------------------------

    def _keep_alive(self, packet: Connect) -> int:
        most = self._settings.max_keep_alive
        if packet.version == V5 and not 0 < packet.keep_alive <= most:
            return most
        return packet.keep_alive

    def _window(self, packet: Connect) -> int:
        if packet.version != V5:
            return V3_WINDOW
        asked: int = packet.properties.get(Property.RECEIVE_MAXIMUM, 65_535)
        return min(asked, self._settings.max_inflight)

    def _accepted(self, packet: Connect, client_id: str, present: bool, expiry: float) -> bytes:
        settings = self._settings
        if packet.version != V5:
            return writing.connack(packet.version, Reason.SUCCESS, present)
        given: list[tuple[Property, Any]] = []
        if settings.topic_alias_maximum:
            given.append((Property.ALIAS_MAXIMUM, settings.topic_alias_maximum))
        if not packet.client_id:
            given.append((Property.ASSIGNED_CLIENT_ID, client_id))
        keep_alive = self._keep_alive(packet)
        if keep_alive != packet.keep_alive:
            given.append((Property.SERVER_KEEP_ALIVE, keep_alive))
        if packet.properties.get(Property.SESSION_EXPIRY, 0) != expiry:
            given.append((Property.SESSION_EXPIRY, int(expiry)))
        if settings.max_qos < 2:
            given.append((Property.MAXIMUM_QOS, settings.max_qos))
        if Property.AUTH_METHOD in packet.properties:
            given.append((Property.AUTH_METHOD, TOKEN_METHOD))
        given.append((Property.MAXIMUM_PACKET, settings.max_packet_bytes))
        given.append((Property.RECEIVE_MAXIMUM, settings.receive_maximum))
        given.append((Property.SHARED_AVAILABLE, 0))
        return writing.connack(V5, Reason.SUCCESS, present, given)


def _client_id(packet: Connect) -> str:
    """The client's id, or a new one."""
    if len(packet.client_id) > MAX_CLIENT_ID_CHARS or not (
        packet.client_id or packet.clean or packet.version == V5
    ):
        raise PacketError(
            Reason.CLIENT_ID_INVALID, f"a client id has 1 to {MAX_CLIENT_ID_CHARS} characters"
        )
    return packet.client_id or f"auto-{randomness.token_urlsafe(16)}"


def _split(user_name: str | None, place: str | None) -> tuple[str | None, str | None]:
    """The hub and the user of `hub:user`; where the address names the hub, the whole is a user."""
    if user_name is None or place is not None:
        return None, user_name
    hub, separator, user = user_name.partition(":")
    return (hub, user) if separator else (None, user_name)


def _as_text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _is_token(text: str) -> bool:
    """Whether the text looks like a JWT."""
    if text.count(".") != 2:
        return False
    header = text.partition(".")[0]
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    except (ValueError, msgspec.DecodeError):
        return False
    return isinstance(found, dict)
