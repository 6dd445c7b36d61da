"""How many messages a second the Python client hands to its application, on one core.

A small server of the benchmark's own, in a process of its own, sends frames as a hub sends them
under load (many messages each) as fast as the client takes them. Only the client is measured:

    python -m benchmarks.client_receive
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import time
from multiprocessing.connection import Connection

import uvloop
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from hubbub.client import Options, connect
from hubbub.domain import notices, requests
from hubbub.domain.messages import JSON, Message
from hubbub.protocols.json.codec import JSON_V1, JsonCodec
from hubbub.protocols.protobuf.codec import PROTOBUF_V1, ProtobufCodec

CODECS: dict[str, JsonCodec | ProtobufCodec] = {"protobuf": PROTOBUF_V1, "json": JSON_V1}
CHANNEL = "news"


def frames_of(encoding: str, count: int, per_frame: int, payload_bytes: int) -> list[bytes]:
    codec = CODECS[encoding]
    payload = b'{"text":"%b"}' % (b"x" * (payload_bytes - 11))
    units = [
        codec.encode_message(
            Message(
                f"a1b2c3d4e5{n:x}", "demo", CHANNEL, "tick", payload, JSON, 1_700_000_000_000, n
            )
        )
        for n in range(1, count + 1)
    ]
    return [codec.join(units[n : n + per_frame]) for n in range(0, count, per_frame)]


def run_server(pipe: Connection, encoding: str, frames: list[bytes]) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    uvloop.run(_serve(pipe, encoding, frames))


async def _serve(pipe: Connection, encoding: str, frames: list[bytes]) -> None:
    codec = CODECS[encoding]
    text = codec.opcode == 1
    greeting = notices.SessionInfo("demo", "s", True, False, True, False, None, 25)

    async def talk(connection: ServerConnection) -> None:
        async def say(notice: notices.Notice) -> None:
            await connection.send(codec.join([codec.encode(notice)]), text=text)

        await say(greeting)
        try:
            async for data in connection:
                received = codec.decode(data.encode() if isinstance(data, str) else data)
                for request in received:
                    if isinstance(request, requests.Subscribe):
                        confirmed = notices.SubscribedChannel(CHANNEL, "e", 0)
                        await say(notices.Subscribed((confirmed,), req_id=request.req_id))
                        for frame in frames:
                            await connection.send(frame, text=text)
        except ConnectionClosed:
            pass

    protocols = [Subprotocol(codec.subprotocol)]
    async with serve(talk, "127.0.0.1", 0, subprotocols=protocols, compression=None) as server:
        pipe.send(next(iter(server.sockets)).getsockname()[1])
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)


async def receive(port: int, encoding: str, count: int, look_at_data: bool) -> tuple[float, float]:
    """Wall and CPU seconds to receive all messages."""
    options = Options(encoding="json" if encoding == "json" else "protobuf")
    async with connect(f"ws://127.0.0.1:{port}", options=options) as client:
        wall, cpu = time.perf_counter(), time.process_time()
        subscription = client.subscribe(CHANNEL)
        expected = 1
        async for message in subscription:
            assert message.serial == expected
            if look_at_data:
                assert message.data["text"]
            if expected == count:
                break
            expected += 1
        return time.perf_counter() - wall, time.process_time() - cpu


def measure(encoding: str, count: int, per_frame: int, size: int, look_at_data: bool) -> float:
    """Messages per CPU second of the client."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    frames = frames_of(encoding, count, per_frame, size)
    server = context.Process(target=run_server, args=(theirs, encoding, frames))
    server.start()
    try:
        port = ours.recv()
        wall, cpu = uvloop.run(receive(port, encoding, count, look_at_data))
    finally:
        ours.send(None)
        server.join()
    data = "data decoded" if look_at_data else "payload as bytes"
    print(
        f"{encoding:8}  {per_frame:4} per frame  {size} bytes  {data:16}  "
        f"{count / wall:9,.0f} messages/s   {count / cpu:9,.0f} per CPU second"
    )
    return count / cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {0})  # one core for the client; the server inherits and moves on
    count, size = arguments.messages, arguments.bytes
    if arguments.profile:
        import cProfile

        cProfile.runctx(
            "measure('protobuf', count, 100, size, True)", globals(), locals(), "tottime"
        )
        return
    for encoding in ("protobuf", "json"):
        for per_frame in (10, 100, 1000):
            measure(encoding, count, per_frame, size, look_at_data=True)
    measure("protobuf", count, 100, size, look_at_data=False)


if __name__ == "__main__":
    main()
