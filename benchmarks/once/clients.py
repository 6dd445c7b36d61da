"""Clients as thin as can be, so that the servers are measured: raw bytes over one connection each.

Both kinds wait for one answer at a time; an answer is whatever the server sent since the question.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from typing import Any, Protocol

PAYLOAD = b'"' + b"x" * 198 + b'"'
TOPIC = "log:bench"
STREAM = "bench"
_FIN_TEXT, _MASKED = 0x81, 0x80
_ACKED = b'{"event":"TopicAcked"'
_SEQUENCE = re.compile(rb'"channelSerial":"(\d+)"')


class Client(Protocol):
    """One connection to a server."""

    async def put(self) -> None:
        """Put a message; returns when it is on disk."""

    async def subscribe(self) -> None:
        """From now on `get` finds what is put."""

    async def get(self, limit: int, wait: float) -> int:
        """Fetch up to so many, and acknowledge what the last call fetched; the next may be fetched
        before that is confirmed. Answers how many."""

    async def settle(self) -> None:
        """Every acknowledgement is confirmed."""

    async def close(self) -> None: ...


class HubbubClient:
    """A producer and a consumer over WebSocket."""

    def __init__(self, port: int, name: str, topic: str = TOPIC) -> None:
        self._port = port
        self._name = name
        self._topic = topic
        self._sequence = 0
        self._last = 0
        self._unconfirmed = 0

    async def open(self) -> HubbubClient:
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._port, limit=1 << 22
        )
        key = base64.b64encode(b"0123456789abcdef").decode()
        self._writer.write(
            f"GET /v1/hubs/bench/socket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        await self._reader.readuntil(b"\r\n\r\n")
        await self._until("SessionInfo")
        return self

    async def put(self) -> None:
        self._sequence += 1
        self._send(
            b'{"event":"Publish","payload":{"publishes":[{"channel":"%b","event":"m","reqID":7,'
            b'"producer":{"id":"%b","sequence":"%d"},"payload":{"json":%b}}]}}'
            % (self._topic.encode(), self._name.encode(), self._sequence, PAYLOAD)
        )
        answer = await self._until("Ack")
        if b'"success":true' not in answer:
            raise RuntimeError(answer.decode())

    async def subscribe(self) -> None:
        await self._ask("TopicSubscribe", {"name": self._name, "start": "first"})

    async def get(self, limit: int, wait: float) -> int:
        if self._last:
            self._request("TopicAck", {"name": self._name, "upTo": str(self._last)})
            self._unconfirmed += 1
        after = str(self._last)
        self._request(
            "TopicGet", {"name": self._name, "limit": limit, "wait": wait, "after": after}
        )
        while (answer := await self._until("Topic")).startswith(_ACKED):
            self._unconfirmed -= 1
        serials = _SEQUENCE.findall(answer)
        if serials:
            self._last = int(serials[-1])
        return len(serials)

    async def settle(self) -> None:
        while self._unconfirmed:
            await self._until("TopicAcked")
            self._unconfirmed -= 1

    async def close(self) -> None:
        self._writer.close()

    async def _ask(self, event: str, payload: dict[str, Any]) -> bytes:
        self._request(event, payload)
        return await self._until("Topic")

    def _request(self, event: str, payload: dict[str, Any]) -> None:
        body = {"event": event, "payload": {"topic": self._topic, "reqID": 1, **payload}}
        self._send(json.dumps(body).encode())

    def _send(self, text: bytes) -> None:
        """A mask of zeros leaves the text as it is."""
        size = len(text)
        head = (
            bytes((_FIN_TEXT, _MASKED | size))
            if size < 126
            else bytes((_FIN_TEXT, _MASKED | 126)) + size.to_bytes(2, "big")
        )
        self._writer.write(head + b"\0\0\0\0" + text)

    async def _until(self, event: str) -> bytes:
        """The next frame with this event, or one that begins so."""
        wanted = f'{{"event":"{event}'.encode()
        while True:
            head = await self._reader.readexactly(2)
            size = head[1]
            if size == 126:
                size = int.from_bytes(await self._reader.readexactly(2), "big")
            elif size == 127:
                size = int.from_bytes(await self._reader.readexactly(8), "big")
            frame = await self._reader.readexactly(size)
            if b'"event":"Error"' in frame:
                raise RuntimeError(frame.decode())
            if frame.startswith(wanted):
                return frame


class JetStreamClient:
    """The same over the protocol of NATS."""

    def __init__(self, port: int, name: str) -> None:
        self._port = port
        self._name = name
        self._acknowledge = b""
        self._unconfirmed = 0

    async def open(self) -> JetStreamClient:
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._port, limit=1 << 22
        )
        await self._reader.readline()
        inbox = f"_INBOX.{self._name}"
        self._inbox = inbox.encode()
        self._writer.write(
            b'CONNECT {"verbose":false,"headers":true}\r\nSUB %b 1\r\nPING\r\n' % self._inbox
        )
        while await self._reader.readline() != b"PONG\r\n":
            pass
        return self

    async def create_stream(self) -> None:
        await self._request(
            f"$JS.API.STREAM.CREATE.{STREAM}",
            {
                "name": STREAM,
                "subjects": ["bench.>"],
                "storage": "file",
                "num_replicas": 1,
                "retention": "limits",
            },
        )

    async def put(self) -> None:
        self._writer.write(b"PUB bench.m %b %d\r\n%b\r\n" % (self._inbox, len(PAYLOAD), PAYLOAD))
        _, answer = await self._message()
        if b'"seq"' not in answer:
            raise RuntimeError(answer.decode())

    async def subscribe(self) -> None:
        await self._request(
            f"$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{self._name}",
            {
                "stream_name": STREAM,
                "config": {
                    "durable_name": self._name,
                    "ack_policy": "all",
                    "deliver_policy": "all",
                    "max_ack_pending": 10_000,
                },
            },
        )

    async def get(self, limit: int, wait: float) -> int:
        """Acknowledges with an answer, since Hubbub's acknowledgements have one."""
        if self._acknowledge:
            self._publish(self._acknowledge, b"+ACK")
            self._unconfirmed += 1
            self._acknowledge = b""
        question = {"batch": limit, "expires": int(max(wait, 0.001) * 1e9)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{self._name}"
        self._publish(subject.encode(), json.dumps(question).encode())
        count = 0
        while count < limit:
            reply, body = await self._message()
            if reply:
                self._acknowledge = reply
                count += 1
            elif body:
                break  # the wait is over
            else:
                self._unconfirmed -= 1
        return count

    async def settle(self) -> None:
        while self._unconfirmed:
            await self._message()
            self._unconfirmed -= 1

    async def close(self) -> None:
        self._writer.close()

    async def _request(self, subject: str, body: dict[str, Any]) -> None:
        self._publish(subject.encode(), json.dumps(body).encode())
        _, answer = await self._message()
        if b'"error"' in answer:
            raise RuntimeError(answer.decode())

    def _publish(self, subject: bytes, body: bytes) -> None:
        self._writer.write(b"PUB %b %b %d\r\n%b\r\n" % (subject, self._inbox, len(body), body))

    async def _message(self) -> tuple[bytes, bytes]:
        """Where to acknowledge it (empty: nowhere), and its body."""
        while True:
            line = await self._reader.readline()
            words = line.split()
            if words[0] == b"PING":
                self._writer.write(b"PONG\r\n")
            elif words[0] == b"MSG":
                reply = words[3] if len(words) == 5 else b""
                body = await self._reader.readexactly(int(words[-1]) + 2)
                return reply, body[:-2]
            elif words[0] == b"HMSG":
                body = await self._reader.readexactly(int(words[-1]) + 2)
                return b"", body[:-2]
            else:
                raise RuntimeError(line.decode())
