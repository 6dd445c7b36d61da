"""The ZeroMQ gateway: a ROUTER socket on the hub's event loop.

The socket is read when its descriptor signals, and written without blocking: a client that does not
read loses messages beyond its queue, and never delays another. (pyzmq's own asyncio sockets queue
unsent messages of all clients in one line.)"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import msgspec
import zmq

from hubbub.domain.errors import GoingAway, HubbubError, Internal, Malformed, Overloaded, TooLarge
from hubbub.domain.requests import TopicGet
from hubbub.gateways.zeromq_curve import CurveSettings, Gatekeeper, has_mail
from hubbub.gateways.zeromq_relay import CONNECTIONS_WAITING, Relay, RelayLimits
from hubbub.gateways.zeromq_service import KnownKey, ReplyFrames, TopicService, topic_of
from hubbub.protocols.zeromq.answers import refused
from hubbub.protocols.zeromq.requests import ZeromqRequest, read_request, split_envelope
from hubbub.protocols.zeromq.zmtp import CURVE_OVERHEAD

logger = logging.getLogger(__name__)

MESSAGES_PER_TURN = 16
"""Messages read before other tasks of the event loop run."""
HANDSHAKE_MILLISECONDS = 10_000
DRAIN_SECONDS = 3.0
FLUSH_MILLISECONDS = 1000
_FRAME_SLACK = 64 * 1024
_LAST = int(
    zmq.NOBLOCK
)  # as plain numbers: pyzmq's own are enums, which cost more than the sending
_MORE = int(zmq.NOBLOCK | zmq.SNDMORE)


class ZeroMqSettings(msgspec.Struct, frozen=True):
    endpoint: str
    max_message_bytes: int
    max_in_flight: int
    max_in_flight_per_peer: int
    max_connections: int = 1000
    max_buffered_bytes: int = 32 << 20
    """Maximum size of incomplete or unread messages of all connections together."""
    curve: CurveSettings | None = None


class ZeroMqDoor:
    """Call `start`, later `stop`."""

    def __init__(self, service: TopicService, settings: ZeroMqSettings) -> None:
        self._service = service
        self._settings = settings
        self._tasks: dict[asyncio.Task[None], bool] = {}
        """Requests in progress, and whether they only wait."""
        self._of_peer: Counter[bytes] = Counter()
        self.waiting = 0
        """The number of gets that wait for a message."""
        self._draining = False
        self._read_later = False
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._gatekeeper: Gatekeeper | None = None
        frame = 2 * settings.max_message_bytes + _FRAME_SLACK
        self.relay = Relay(
            RelayLimits(
                connection_bytes=frame,
                total_bytes=max(settings.max_buffered_bytes, 2 * frame),
                connections=settings.max_connections,
            ),
            0 if settings.curve is None else CURVE_OVERHEAD,
            service.clock,
        )
        self.undelivered = 0
        """Responses whose client had disconnected or did not read."""

    async def start(self) -> str:
        """Listens; returns the address. Raises `OSError`."""
        self._loop = asyncio.get_running_loop()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        try:
            self._configure()
            self._socket.bind(f"ipc://{self.relay.make_inner()}")
            endpoint = await self.relay.start(self._settings.endpoint)
        except (zmq.ZMQError, OSError) as error:
            if self._gatekeeper is not None:
                self._gatekeeper.close()
            self._context.destroy(linger=0)
            self._context = None
            self.relay.close()
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise OSError(error.errno, reason, self._settings.endpoint) from None
        self._loop.add_reader(self._socket.fileno(), self._read)
        self._loop.call_soon(self._read)
        return endpoint

    def _configure(self) -> None:
        socket, settings = self._socket, self._settings
        socket.linger = 0
        queue = 2 * settings.max_in_flight_per_peer
        socket.setsockopt(zmq.SNDHWM, queue)
        socket.setsockopt(zmq.RCVHWM, queue)
        socket.setsockopt(zmq.BACKLOG, CONNECTIONS_WAITING)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MILLISECONDS)
        # A frame over this ends the connection; below it there is time for an answer.
        socket.setsockopt(zmq.MAXMSGSIZE, 2 * settings.max_message_bytes + _FRAME_SLACK)
        if settings.curve is not None:
            assert self._context is not None
            self._gatekeeper = Gatekeeper(self._context, settings.curve)
            self._gatekeeper.guard(socket)

    async def stop(self) -> None:
        """Accepts no more requests, and waits until those in progress are answered."""
        if self._context is None:
            return
        self._draining = True
        for task, waits in self._tasks.items():
            if waits:
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=DRAIN_SECONDS)
        self.relay.stop()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close(linger=FLUSH_MILLISECONDS)
        if self._gatekeeper is not None:
            self._gatekeeper.close()
        context, self._context = self._context, None
        await asyncio.to_thread(context.term)
        self.relay.close()

    # -- in -------------------------------------------------------------------------------------

    def _read(self) -> None:
        """The descriptor signals once, and not again before everything was read."""
        self._read_later = False
        if self._context is None:
            return
        for _ in range(MESSAGES_PER_TURN):
            try:
                (peer, *frames), key, address = self._next()
            except zmq.Again:
                return
            self._receive(peer, frames, key, address)
        self._read_soon()

    def _next(self) -> tuple[list[bytes], KnownKey | None, str]:
        """The next message, the owner of its key if known, and its address. Raises `zmq.Again`."""
        frames = self._socket.recv_multipart(_LAST, copy=False)
        key = None if self._gatekeeper is None else self._gatekeeper.who(frames[0])
        return [frame.bytes for frame in frames], key, self.relay.handed_out(frames)

    def _read_soon(self) -> None:
        if not self._read_later:
            self._read_later = True
            self._loop.call_soon(self._read)

    def _receive(
        self, peer: bytes, frames: Sequence[bytes], key: KnownKey | None, address: str
    ) -> None:
        envelope = [b""]
        try:
            envelope, body = split_envelope(frames)
            self._check_message(peer, frames)
            request = read_request(body)
            waits = isinstance(request.command, TopicGet) and request.command.wait_seconds > 0
            self._admit(peer, waits)
        except HubbubError as error:
            self._send([peer, *envelope, *refused(error)])
            return
        self._of_peer[peer] += 1
        self.waiting += waits
        task = self._loop.create_task(self._serve(peer, envelope, request, key, address))
        self._tasks[task] = waits
        task.add_done_callback(lambda done: self._ended(done, peer))

    def _check_message(self, peer: bytes, frames: Sequence[bytes]) -> None:
        if peer[:1] != b"\0":
            # Else somebody else could come under the same id, and get the answers.
            raise Malformed("the socket has an identity (routing id) of its own; do not set one")
        size = sum(map(len, frames))
        if size > self._settings.max_message_bytes:
            raise TooLarge(
                f"the message has {size} bytes; at most {self._settings.max_message_bytes} are "
                "allowed"
            )

    def _admit(self, peer: bytes, waits: bool) -> None:
        settings = self._settings
        if self._draining:
            raise GoingAway("the server is shutting down; connect again")
        if self._of_peer[peer] >= settings.max_in_flight_per_peer:
            raise Overloaded(
                f"{settings.max_in_flight_per_peer} requests of this connection are under way "
                "already; wait for their answers"
            )
        # Whoever waits must leave room for those that would end the waiting.
        full = waits and self.waiting >= settings.max_in_flight // 2
        if full or len(self._tasks) >= settings.max_in_flight:
            raise Overloaded("too many requests are under way; try again later")

    # -- out ------------------------------------------------------------------------------------

    async def _serve(
        self,
        peer: bytes,
        envelope: list[bytes],
        request: ZeromqRequest,
        key: KnownKey | None,
        address: str,
    ) -> None:
        answer = await self._answer(request, key, address)
        if not self._send([peer, *envelope, *answer.frames]) and answer.articles:
            with suppress(HubbubError):
                await self._service.give_back(request, answer)

    async def _answer(
        self, request: ZeromqRequest, key: KnownKey | None, address: str
    ) -> ReplyFrames:
        try:
            return await self._service.answer(request, key, address)
        except HubbubError as error:
            return ReplyFrames(refused(error, topic_of(request)))
        except asyncio.CancelledError:
            return ReplyFrames(refused(GoingAway("the server is shutting down; connect again")))
        except Exception:
            logger.exception("a ZeroMQ request failed")
            return ReplyFrames(refused(Internal("the hub made a mistake; its log says which")))

    def _send(self, frames: list[bytes]) -> bool:
        if self._context is None:
            return False
        try:
            for frame in frames[:-1]:
                self._socket.send(frame, _MORE)
            self._socket.send(frames[-1], _LAST)
        except zmq.ZMQError as error:
            self.undelivered += 1
            logger.debug("a ZeroMQ client did not read its response: %s", error)
            return False
        finally:
            # Sending may have noticed what the descriptor would have told.
            if has_mail(self._socket):
                self._read_soon()
        return True

    def _ended(self, task: asyncio.Task[None], peer: bytes) -> None:
        self.waiting -= self._tasks.pop(task)
        self._of_peer[peer] -= 1
        if not self._of_peer[peer]:
            del self._of_peer[peer]
        if not task.cancelled() and task.exception() is not None:
            logger.error("a ZeroMQ request failed", exc_info=task.exception())
