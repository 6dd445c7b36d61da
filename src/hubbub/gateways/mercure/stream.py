"""The stream of a Mercure subscriber: what was missed, then live updates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from hubbub.domain.errors import HubbubError, NotPermitted
from hubbub.domain.history import HistoryQuery
from hubbub.domain.mercure.updates import read_id, update_id
from hubbub.domain.messages import Message
from hubbub.domain.names import MERCURE_LOG
from hubbub.domain.notices import MessageDelivery, Notice, Ping, Unsubscribed
from hubbub.domain.requests import SubscribeItem
from hubbub.engine.mercure.service import Mercure
from hubbub.engine.node import Node
from hubbub.engine.sessions.session import Session
from hubbub.gateways.content_headers import passive
from hubbub.gateways.http import error_body, error_headers, response_head
from hubbub.gateways.outlet import Outlet
from hubbub.protocols.mercure import update_event
from hubbub.protocols.sse import heartbeat

_HEAD = (
    f"HTTP/1.1 200 OK\r\n{passive('text/event-stream')}Cache-Control: no-cache\r\n"
    "X-Accel-Buffering: no\r\nConnection: close\r\n"
).encode()
_END = b":end\n\n"
"""A comment, as the last one of a stream whose client may read no more."""
_JSON = passive("application/json")


class MercureEncoder:
    """Updates as events. Other notices have no form in this protocol."""

    prepare = None
    in_order = False

    def encode_message(self, message: Message, epoch: str, previous: int | None = None) -> bytes:
        position = update_id(epoch, message.serial) if message.serial else None
        return update_event(message, position)

    def encode(self, notice: Notice) -> bytes:
        if isinstance(notice, Ping):
            return heartbeat()
        if isinstance(notice, MessageDelivery):
            return update_event(notice.message, None)
        return _END if isinstance(notice, Unsubscribed) else b""

    def pack(self, units: Sequence[bytes]) -> bytes:
        return units[0] if len(units) == 1 else b"".join(units)


ENCODER = MercureEncoder()
"""All streams share their bytes."""


class MercureConnection(Outlet):
    """A connection from the request to the end of the stream. The response begins once the
    subscription does, whose position it names; until then an error is a response of its own."""

    __slots__ = ("_begun", "_headers", "_on_end")

    one_way = True
    technology = "mercure"

    def __init__(
        self,
        transport: asyncio.Transport,
        limit: int,
        headers: bytes,
        on_end: Callable[[], None],
    ) -> None:
        """`headers` are complete lines of the response."""
        super().__init__(transport, ENCODER, limit)
        self._headers = headers
        self._begun = False
        self._on_end = on_end

    def begin(self, last_event_id: str) -> None:
        self._begun = True
        line = f"Last-Event-ID: {last_event_id}\r\n\r\n".encode()
        self.send(_HEAD + self._headers + line + heartbeat())

    def data_received(self, data: bytes) -> None:
        """Ignores data from the client, since the connection is one-way."""

    def send(self, data: bytes) -> None:
        if data and self._begun:
            super().send(data)
        if data is _END:
            self.disconnect(NotPermitted("the permission to follow the updates was taken away"))

    def farewell(self, error: HubbubError) -> bytes:
        """A stream that has begun just ends, and the client resumes."""
        if self._begun:
            return b""
        self._begun = True
        body = error_body(error)
        headers = error_headers(error)
        head = response_head(error.http_status, _JSON, len(body), headers, keep_alive=False)
        return head.encode("latin-1") + self._headers + b"\r\n" + body

    def _close_soon(self) -> None:
        super()._close_soon()
        if self._backlog:
            self.transport.write(b"".join(self._backlog))
            self._backlog, self._backlog_bytes = None, 0
        self.transport.close()  # after what is still in its buffer

    def _end_session(self, keep_state: bool = True) -> None:
        super()._end_session(keep_state)
        self._on_end()

    def _lose_session(self) -> None:
        super()._lose_session()
        self._on_end()


async def follow(
    node: Node, connection: MercureConnection, session: Session, last_event_id: str | None
) -> None:
    """Subscribes the stream's session to the log, from the position that the client names."""
    wanted = SubscribeItem(MERCURE_LOG)
    if last_event_id is not None:
        serial = await _position(node, session.hub.name, last_event_id)
        wanted = SubscribeItem(MERCURE_LOG, serial=serial)
    plans, failures = await node.subscriptions.prepare(session, [wanted])
    if failures:
        connection.disconnect(failures[0].error)
        return
    connection.begin(update_id(*plans[0].start()))
    await node.subscriptions.begin(session, plans)
    node.feature(Mercure).begun(session.hub, session.id)


async def _position(node: Node, hub: str, last_event_id: str) -> int:
    """The serial behind which the stream goes on: 0, everything that is kept, for the id of another
    hub and for one from before the log was lost."""
    epoch, serial = read_id(last_event_id)
    if not serial:
        return 0
    page = await node.bus.ask(HistoryQuery(hub, MERCURE_LOG, 1, after=serial))
    return serial if page.epoch == epoch and serial <= page.head else 0
