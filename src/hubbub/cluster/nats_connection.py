"""The connection to NATS: authenticates, and reconnects without limit."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import nats
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nats.aio.client import Client
from nats.aio.msg import Msg

from hubbub.cluster.nats_settings import NatsSettings
from hubbub.domain.errors import Unavailable
from hubbub.domain.secret import Secret
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

RECONNECT_SECONDS = 0.1
PING_SECONDS = 2
UNANSWERED_PINGS = 2
"""After this many unanswered pings a connection is given up, if another server may be reachable."""
PATIENT_PINGS = 30
"""The limit for a single server. While that server hangs, a new connection to it gains nothing, and
nodes that reconnect one after another would consider each other dead."""
_PENDING_BYTES = 8 * 1024 * 1024
_SEED_BYTES = 32
_TELLING = ("authorization", "authentication", "certificate", "permission")

Heard = Callable[[bytes], None]


class NatsConnection:
    """`changed` is called when the connection is lost, and when it is back."""

    def __init__(self, options: NatsSettings, name: str) -> None:
        self._options = options
        self._name = name
        self._client = Client()
        self._tasks = TaskSet()
        self._problem = ""
        self._begun = False
        self._closing = False
        self.changed: Callable[[], None] = lambda: None

    @property
    def connected(self) -> bool:
        return self._client.is_connected

    @property
    def client(self) -> Client:
        """The NATS client, for calls that this class does not wrap."""
        return self._client

    @property
    def max_payload(self) -> int:
        return self._client.max_payload

    async def open(self) -> None:
        """Raises `Unavailable` if no server responds or the credentials are refused."""
        self._begun = True
        options = self._options
        signature, jwt = _credentials(options.credentials_file)
        connecting = self._client.connect(
            servers=list(options.servers),
            name=self._name,
            user=options.user,
            password=_revealed(options.password),
            token=_revealed(options.token),
            signature_cb=signature,
            user_jwt_cb=jwt,
            tls=_tls(options),
            allow_reconnect=True,
            max_reconnect_attempts=-1,
            reconnect_time_wait=RECONNECT_SECONDS,  # type: ignore[arg-type]  # seconds of any kind
            connect_timeout=2,
            ping_interval=PING_SECONDS,
            max_outstanding_pings=UNANSWERED_PINGS if len(options.servers) > 1 else PATIENT_PINGS,
            pending_size=_PENDING_BYTES,
            error_cb=self._failed,
            disconnected_cb=self._lost,
            reconnected_cb=self._back,
        )
        try:
            await asyncio.wait_for(connecting, options.connect_seconds)
        except (TimeoutError, OSError, nats.errors.Error) as error:
            servers = ", ".join(options.servers)
            reason = self._problem or str(error) or "no answer"
            raise Unavailable(
                "NATS cannot be reached",
                f"NATS at {servers} cannot be reached ({reason}); start it, or check broker.host "
                "and the credentials under broker",
            ) from error

    async def close(self) -> None:
        self._closing = True
        await self._tasks.end()
        if self._begun and not self._client.is_closed:
            await self._client.close()

    async def hear(self, subject: str, heard: Heard) -> None:
        """Calls `heard` with every message on the subject, in order. Each call is a turn of the
        event loop: heartbeats and clients are served in between."""

        async def pass_on(message: Msg) -> None:
            heard(message.data)
            await asyncio.sleep(0)

        await self._client.subscribe(subject, cb=pass_on)
        await self.settle()

    async def settle(self) -> None:
        """Waits until the server knows all subscriptions. Pings twice, since the client's ping
        overtakes its unwritten data."""
        await self._client.flush()
        await self._client.flush()

    async def say(self, subject: str, data: bytes) -> None:
        """Waits while the server lags far behind. A message that cannot be sent now is lost."""
        if not self.connected:
            return
        try:
            await self._client.publish(subject, data)
        except (OSError, nats.errors.Error) as error:
            logger.debug("lost on the way to NATS: %s", error)

    async def flush(self) -> None:
        """Waits until the server has received everything, if it is reachable."""
        if self.connected:
            with contextlib.suppress(TimeoutError, OSError, nats.errors.Error):
                await self._client.flush(timeout=1)

    def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Runs a task until the connection is closed."""

        async def guarded() -> None:
            await work()

        self._tasks.start(guarded())

    async def _failed(self, error: Exception) -> None:
        problem = str(error) or type(error).__name__
        if problem != self._problem and (_is_telling(problem) or not _is_telling(self._problem)):
            self._problem = problem
            logger.warning("NATS: %s", problem)

    async def _lost(self) -> None:
        if self._closing:
            return
        logger.warning("the connection to NATS is lost; connecting again")
        self.changed()

    async def _back(self) -> None:
        self._problem = ""
        logger.info("connected to NATS again")
        self.changed()


def _revealed(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()


def _is_telling(problem: str) -> bool:
    """Whether the error names a cause: a server that refuses also closes the connection, which does
    not."""
    return any(word in problem.lower() for word in _TELLING)


def _tls(options: NatsSettings) -> ssl.SSLContext | None:
    encrypted = any(server.startswith(("tls:", "wss:")) for server in options.servers)
    tls = options.tls
    if not (tls.enabled or encrypted):
        return None
    context = ssl.create_default_context(cafile=tls.root_cert)
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key)
    return context


def _credentials(
    path: Path | None,
) -> tuple[Callable[[str], bytes] | None, Callable[[], bytearray] | None]:
    """A callback that signs the server's challenge with the key in a credentials file, read each
    time since it may be replaced."""
    if path is None:
        return None, None

    def sign(nonce: str) -> bytes:
        seed = _part(path, "USER NKEY SEED")
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
        key = Ed25519PrivateKey.from_private_bytes(raw[2 : 2 + _SEED_BYTES])
        return base64.b64encode(key.sign(nonce.encode()))

    def jwt() -> bytearray:
        return bytearray(_part(path, "NATS USER JWT").encode())

    return sign, jwt


def _part(path: Path, title: str) -> str:
    """Reads the line below the title. Raises `Unavailable`."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise _unusable(f"{path}: {error.strerror}") from error
    for line, following in pairwise(lines):
        if f"BEGIN {title}" in line:
            return following.strip()
    raise _unusable(f"{path} has no part {title!r}")


def _unusable(detail: str) -> Unavailable:
    return Unavailable(
        "the credentials for NATS cannot be used", f"{detail}; check broker.credentialsFile"
    )
