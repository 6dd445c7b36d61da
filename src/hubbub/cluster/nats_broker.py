"""`ports.broker.Broker` over NATS and its JetStream."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import timedelta

import msgspec
import nats
import nats.errors
import nats.js.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.api import RetentionPolicy, StorageType, StreamConfig

from hubbub.cluster.nats_connection import NatsConnection
from hubbub.ports.broker import Answerer, BrokerReply, BrokerRequest, LogUnavailable, NobodyThere
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

MAX_UNDER_WAY = 2048
"""Maximum number of concurrently served requests; further ones wait at NATS. Tenants' shares are
smaller: requests beyond them are refused at once, so that no tenant waits here for another."""

_NOT_ENABLED = (10039, 10076, None)
"""JetStream's error codes: not for this account, not on this server; None: no responder."""


class LogOptions(msgspec.Struct, frozen=True):
    """The stream that is created if none has the subjects yet. 0 means no limit."""

    name: str
    subjects: tuple[str, ...]
    replicas: int = 1
    max_age_seconds: float = 0.0
    max_bytes: int = 0


class NatsBroker:
    def __init__(self, connection: NatsConnection, log: LogOptions) -> None:
        self._connection = connection
        self._log = log
        self._tasks = TaskSet()
        self._served: list[Subscription] = []
        self._room = asyncio.Semaphore(MAX_UNDER_WAY)

    async def open(self) -> None:
        """Raises `Unavailable`."""
        await self._connection.open()

    async def stop_serving(self) -> None:
        """Accepts no new requests; other nodes answer them."""
        served, self._served = self._served, []
        for subscription in served:
            with contextlib.suppress(OSError, nats.errors.Error):
                await subscription.unsubscribe()

    async def close(self) -> None:
        await self._tasks.settle_so_far(seconds=2)
        await self._connection.close()

    @property
    def connected(self) -> bool:
        return self._connection.connected

    @property
    def max_bytes(self) -> int:
        return self._connection.max_payload

    # -- requests -------------------------------------------------------------------------------

    async def request(self, subject: str, data: bytes, seconds: float) -> BrokerReply:
        self._check_connected()
        if len(data) > self.max_bytes:
            raise NobodyThere(f"NATS takes at most {self.max_bytes} bytes")
        try:
            answer = await self._connection.client.request(subject, data, timeout=seconds)
        except nats.errors.NoRespondersError:
            raise NobodyThere("nobody listens on its subject") from None
        except nats.errors.TimeoutError:
            raise TimeoutError from None
        except (OSError, nats.errors.Error) as error:
            logger.warning("a request on %s failed: %s", subject, error)
            raise NobodyThere("NATS is away") from None
        return BrokerReply(answer.data, answer.headers or {})

    def _check_connected(self) -> None:
        """Fails at once without a connection, instead of waiting for one and then failing."""
        if not self._connection.connected:
            raise NobodyThere("NATS is away")

    async def serve(self, subject: str, group: str, answer: Answerer) -> None:
        async def take(message: Msg) -> None:
            await self._room.acquire()
            task = self._tasks.start(self._answer(message, answer))
            task.add_done_callback(lambda _: self._room.release())

        self._served.append(await self._connection.client.subscribe(subject, queue=group, cb=take))
        await self._connection.settle()

    async def _answer(self, message: Msg, answer: Answerer) -> None:
        if not message.reply:
            return
        try:
            reply = await answer(BrokerRequest(message.subject, message.data))
            headers = dict(reply.headers) or None
            client = self._connection.client
            await client.publish(message.reply, reply.data, headers=headers)
        except (OSError, nats.errors.Error) as error:
            logger.warning("an answer on %s was lost: %s", message.subject, error)
        except Exception:
            logger.exception("a request on %s failed in an unforeseen way", message.subject)

    # -- the log --------------------------------------------------------------------------------

    async def has_log(self) -> bool:
        """Whether JetStream is available for this account. Temporary errors count as available:
        there may be no leader yet."""
        try:
            await self._connection.client.jetstream().account_info()
        except nats.js.errors.APIError as error:
            return error.err_code not in _NOT_ENABLED
        except (OSError, nats.errors.Error) as error:
            logger.warning("JetStream did not report whether it is available: %s", error)
        return True

    async def append(self, subject: str, data: bytes, entry_id: str, seconds: float) -> None:
        if not self._connection.connected:
            raise LogUnavailable("NATS is away")
        headers = {"Nats-Msg-Id": entry_id}
        stream = self._connection.client.jetstream(timeout=seconds)
        try:
            async with asyncio.timeout(seconds):
                try:
                    await stream.publish(subject, data, headers=headers)
                except nats.js.errors.NoStreamResponseError:
                    await self._make_log()
                    await stream.publish(subject, data, headers=headers)
        except TimeoutError:
            raise LogUnavailable(f"JetStream did not confirm in {seconds:g} s") from None
        except (OSError, nats.errors.Error) as error:
            raise LogUnavailable(f"JetStream refused: {error}") from None

    async def _make_log(self) -> None:
        log = self._log
        logger.info("making the stream %s in JetStream for %s", log.name, ", ".join(log.subjects))
        await self._connection.client.jetstream().add_stream(
            StreamConfig(
                name=log.name,
                subjects=list(log.subjects),
                storage=StorageType.FILE,
                retention=RetentionPolicy.LIMITS,
                num_replicas=log.replicas,
                max_age=log.max_age_seconds or None,
                max_bytes=log.max_bytes or None,
                duplicate_window=timedelta(minutes=2).total_seconds(),
            )
        )
