"""CURVE: encryption for ZeroMQ, and the owners of client keys.

libzmq asks about each new connection over a socket inside the process (ZAP, RFC 27); this module
responds."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Mapping

import msgspec
import zmq

from hubbub.gateways.zeromq_service import KnownKey

logger = logging.getLogger(__name__)

ZAP_ENDPOINT = "inproc://zeromq.zap.01"
_DOMAIN = b"hubbub"


def has_mail(socket: zmq.Socket[bytes]) -> bool:
    """Whether a message waits: a descriptor signals only once, so it must be checked after partial
    reads."""
    return bool(int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)


class CurveSettings(msgspec.Struct, frozen=True):
    secret_key: bytes
    """The server's secret key, in Z85."""
    clients: Mapping[bytes, KnownKey]
    """Users by their 32-byte public key."""
    allow_unknown: bool = False
    """Accepts clients with unknown keys; they need a token."""

    def __repr__(self) -> str:
        return f"<CurveSettings, {len(self.clients)} clients>"


class Gatekeeper:
    """Accepts or refuses new connections. Lives as long as its socket."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], settings: CurveSettings) -> None:
        self._settings = settings
        self._names = {key.hex(): known for key, known in settings.clients.items()}
        self._socket = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind(ZAP_ENDPOINT)

    def guard(self, socket: zmq.Socket[bytes]) -> None:
        """Call it before the socket is bound."""
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self._settings.secret_key)
        socket.setsockopt(zmq.ZAP_DOMAIN, _DOMAIN)
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._decide_all)

    def who(self, frame: zmq.Frame) -> KnownKey | None:
        """The sender of a frame, if its key is known."""
        try:
            return self._names.get(str(frame.get("User-Id")))
        except zmq.ZMQError:
            return None

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()

    def _decide_all(self) -> None:
        while has_mail(self._socket):
            try:
                self._socket.send_multipart(self._decide(self._socket.recv_multipart(zmq.NOBLOCK)))
            except zmq.Again:
                return

    def _decide(self, frames: list[bytes]) -> list[bytes]:
        version, request_id, domain, _, _, mechanism, *rest = frames
        user = None
        if mechanism == b"CURVE" and domain == _DOMAIN and len(rest) == 1:
            user = self._user(rest[0])
        if user is None:
            logger.info("refused a ZeroMQ client: its key is not known")
            return [version, request_id, b"400", b"the key is not known here", b"", b""]
        return [version, request_id, b"200", b"OK", user, b""]

    def _user(self, key: bytes) -> bytes | None:
        """Compares all keys, so that the time reveals nothing about them."""
        found = None
        for known in self._settings.clients:
            if hmac.compare_digest(known, key):
                found = known.hex().encode()
        if found is None and self._settings.allow_unknown:
            return b""
        return found
