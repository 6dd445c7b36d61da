"""One connection to a hub: sends requests and receives notices, until either side ends it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidMessage,
    InvalidStatus,
    WebSocketException,
)
from websockets.protocol import State
from websockets.typing import Subprotocol

from hubbub.client.connection.tls import check_trust, trusting_context, without_tls
from hubbub.client.errors import ConnectionLost, Unreachable
from hubbub.domain.errors import BadRequest, HeartbeatTimeout, HubbubError, TooLarge
from hubbub.domain.notices import Disconnect, Notice
from hubbub.domain.requests import Ping, Request
from hubbub.protocols.checks import error_from_wire

MAX_FRAME_BYTES = 64 * 1024 * 1024
_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))

Handler = Callable[[list[Notice]], Awaitable[None] | None]


class Codec(Protocol):
    """The client's side of a subprotocol."""

    @property
    def subprotocol(self) -> str: ...
    @property
    def opcode(self) -> int: ...
    def encode_request(self, request: Request) -> bytes: ...
    def join(self, units: Sequence[bytes]) -> bytes: ...
    def decode_notices(self, data: bytes) -> list[Notice]: ...


class _HttpError(msgspec.Struct):
    code: str
    message: str


class HttpFailure(msgspec.Struct):
    """The body of an HTTP error response."""

    error: _HttpError


def parse_address(url: str) -> SplitResult:
    """Parses an address; WebSocket and HTTP URLs of a server are equivalent. Raises
    `BadRequest`."""
    try:
        parts = urlsplit(url if "://" in url else f"ws://{url}")
        known = parts.scheme in _SCHEMES and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise BadRequest(f"{url!r} is not the address of a server, such as ws://127.0.0.1:8000")
    return parts


def is_loopback(url: str) -> bool:
    return parse_address(url).hostname in _LOOPBACK


def socket_url(url: str, hub: str) -> str:
    """The URL of a hub's socket on the server at `url`. Raises `BadRequest`."""
    parts = parse_address(url)
    path = f"{parts.path.rstrip('/')}/v1/hubs/{quote(hub, safe='')}/socket"
    return urlunsplit((_SCHEMES[parts.scheme], parts.netloc, path, "", ""))


def tls_context(url: str, given: ssl.SSLContext | None) -> ssl.SSLContext | None:
    """The TLS context for the socket at `url`. Raises `BadRequest` if one is given for an
    unencrypted address."""
    if urlsplit(url).scheme == "wss":
        return given or trusting_context()
    if given is not None:
        raise BadRequest(f"{url} is not encrypted, so `tls` has no effect; use wss:// or https://")
    return None


class Link:
    """One WebSocket connection, created by `open_link`."""

    def __init__(self, socket: ClientConnection, codec: Codec) -> None:
        self._socket = socket
        self._codec = codec
        self._text = codec.opcode == 1
        self._farewell: HubbubError | None = None
        self.heard_at = time.monotonic()
        self.max_message_bytes = 0
        """The largest message that the hub accepts; 0: unknown."""

    @property
    def note(self) -> str | None:
        """A human-readable note of the hub about the connection."""
        answer = self._socket.response
        return answer.headers.get("Hubbub-Note") if answer is not None else None

    @property
    def is_open(self) -> bool:
        return self._socket.state is State.OPEN

    async def send(self, *requests: Request) -> None:
        """Raises `TooLarge`, `BadRequest`, `ConnectionLost`, or the error with which the hub
        disconnected."""
        await self.transmit(self.encode(*requests))

    def encode(self, *requests: Request) -> bytes:
        """Encodes one WebSocket message. Raises `TooLarge` if it exceeds the hub's limit, and
        `BadRequest` if it cannot be encoded."""
        try:
            data = self._codec.join([self._codec.encode_request(request) for request in requests])
        except (TypeError, ValueError, OverflowError) as error:
            raise BadRequest(f"this cannot be sent: {error}") from error
        limit = self.max_message_bytes
        if limit and len(data) > limit:
            raise TooLarge(f"{len(data)} bytes in all, and the hub takes at most {limit}")
        return data

    async def transmit(self, data: bytes) -> None:
        """Raises `ConnectionLost`, or the error with which the hub ended the connection."""
        try:
            await self._socket.send(data, text=self._text)
        except ConnectionClosed:
            raise self._lost() from None

    async def receive(self, handle: Handler) -> HubbubError:
        """Passes notices on until the connection ends; returns the reason. If `handle` returns an
        awaitable, reading pauses until it completes."""
        recv, decode = self._socket.recv, self._codec.decode_notices
        try:
            while True:
                data = await recv(decode=False)
                self.heard_at = time.monotonic()
                notices = decode(data)
                if isinstance(notices[-1] if notices else None, Disconnect):
                    self._note_farewell(notices[-1])
                waiting = handle(notices)
                if waiting is not None:
                    await waiting
                if self._farewell is not None:  # nothing follows the last words
                    return self._farewell
        except ConnectionClosed:
            return self._lost()
        except HubbubError as error:
            return error

    async def watch(self, interval_seconds: float, timeout_seconds: float) -> None:
        """Sends a ping when the hub is silent; without a response, ends the connection."""
        while True:
            await asyncio.sleep(max(self.heard_at + interval_seconds - time.monotonic(), 0.001))
            if time.monotonic() - self.heard_at < interval_seconds:
                continue
            asked_at = time.monotonic()
            with contextlib.suppress(TimeoutError):  # a stalled connection takes no Ping either
                async with asyncio.timeout(timeout_seconds):
                    await self.send(Ping())
            await asyncio.sleep(max(asked_at + timeout_seconds - time.monotonic(), 0))
            if self.heard_at < asked_at:
                seconds = interval_seconds + timeout_seconds
                self.abort(HeartbeatTimeout(f"the hub said nothing for {seconds:g} seconds"))
                return

    def abort(self, error: HubbubError) -> None:
        """Ends the connection at once, without the closing handshake."""
        self._farewell = self._farewell or error
        self._socket.transport.abort()

    async def close(self) -> None:
        await self._socket.close()

    def _note_farewell(self, notice: Notice) -> None:
        if isinstance(notice, Disconnect):
            self._farewell = notice.error

    def _lost(self) -> HubbubError:
        """Why the connection ended: the hub's disconnect notice, or else its close code."""
        if self._farewell is not None:
            return self._farewell
        reason = self._socket.close_reason or ""
        code, separator, message = reason.partition(": ")
        if separator and (self._socket.close_code or 0) >= 4000:
            return error_from_wire(code, message)
        return ConnectionLost("the connection to the hub was lost")


async def open_link(
    url: str, codec: Codec, *, token: str | None, tls: ssl.SSLContext | None
) -> Link:
    """Connects to a hub's socket, without a time limit. Raises `Unreachable`, `UntrustedServer`, or
    the hub's error."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        socket = await connect(
            url,
            subprotocols=[Subprotocol(codec.subprotocol)],
            additional_headers=headers,
            compression=None,
            ping_interval=None,  # the protocol has heartbeats of its own
            max_size=MAX_FRAME_BYTES,
            open_timeout=None,  # the caller has a timeout for more than this
            close_timeout=2,
            proxy=None if is_loopback(url) else True,
            ssl=tls,  # must be None for ws://
        )
    except InvalidStatus as error:
        raise _refusal(url, error.response.status_code, error.response.body) from None
    except (OSError, WebSocketException) as error:  # TimeoutError is an OSError
        check_trust(error, url)
        hint = without_tls(url) if isinstance(error, InvalidMessage) else ""
        raise Unreachable(f"no hub answers at {url}: {_why(error)}{hint}") from None
    if socket.subprotocol != codec.subprotocol:
        await socket.close()
        raise BadRequest(f"the server at {url} does not speak {codec.subprotocol}")
    return Link(socket, codec)


def _refusal(url: str, status: int, body: bytes | bytearray | None) -> HubbubError:
    """The error for a handshake that received an HTTP error response."""
    try:
        answer = msgspec.json.decode(body or b"", type=HttpFailure)
    except msgspec.DecodeError:
        if status >= 500:
            return Unreachable(f"the server at {url} answers with HTTP {status}")
        return BadRequest(f"there is no hub at {url}: HTTP {status}")
    return error_from_wire(answer.error.code, answer.error.message)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or error}); is it an address for ws:// or http://?"
    return str(error) or type(error).__name__
