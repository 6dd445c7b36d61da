"""TLS at the listener, for every way in."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from harness.raw import TEXT, RawConnection, RawWebSocket, client_frame
from harness.running_hub import RunningHub, StartHub, open_hub


@pytest.fixture
def trusting(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate[0]))


async def encrypted_hub(
    start_hub: StartHub, certificate: tuple[Path, Path], **more: object
) -> RunningHub:
    return await start_hub(
        open_hub(),
        listener__tls__certificate=str(certificate[0]),
        listener__tls__key=str(certificate[1]),
        **more,
    )


@pytest.mark.spec("OPS-04")
async def test_http_sse_and_websocket_over_tls(
    start_hub: StartHub, certificate: tuple[Path, Path], trusting: ssl.SSLContext
) -> None:
    hub = await encrypted_hub(start_hub, certificate)
    stream = await RawConnection.open(hub.address, trusting)
    stream.request("GET /v1/hubs/acme/events?channel=a")
    await stream.until(b"event: Subscribe")
    socket = await RawWebSocket.connect(hub.address, tls=trusting)
    subscribe = b'{"event":"Subscribe","payload":{"channels":[{"channel":"a"}]}}'
    socket.send(client_frame(TEXT, subscribe))
    assert (await socket.envelopes())[0]["event"] == "Subscribe"
    text = "x" * 100_000
    async with hub.http.post(
        f"https://{hub.address}/v1/hubs/acme/channels/a/messages", data=text, ssl=trusting
    ) as answer:
        assert answer.status == 200
    (delivered,) = await socket.envelopes()
    assert delivered["payload"]["payload"] == {"text": text}
    assert b"x" * 1000 in await stream.read(60_000)
    for connection in (stream, socket):
        await connection.__aexit__()


@pytest.mark.spec("OPS-04")
async def test_a_long_replay_over_tls_arrives_whole(
    start_hub: StartHub, certificate: tuple[Path, Path], trusting: ssl.SSLContext
) -> None:
    """Also with a small send buffer, where the replay has to wait for the client."""
    hub = await encrypted_hub(
        start_hub,
        certificate,
        connection__ws__maxMessageBytes=2048,
        connection__ws__sendBufferBytes=400_000,
        engine__maxLiveHistorySize=600,
        session__messagesPerSecond=0,
    )
    item = {"channel": "a", "payload": {"text": "x" * 1000}}
    batch = {"publishes": [item] * 600}
    url = f"https://{hub.address}/v1/hubs/acme/messages"
    async with hub.http.post(url, json=batch, ssl=trusting) as answer:
        assert answer.status == 200
    async with await RawWebSocket.connect(hub.address, tls=trusting) as socket:
        wanted = b'{"event":"Subscribe","payload":{"channels":[{"channel":"a","serial":"0"}]}}'
        socket.send(client_frame(TEXT, wanted))
        serials: list[int] = []
        while len(serials) < 600:
            for said in await socket.envelopes():
                if said["event"] == "Publish":
                    serials.append(int(said["payload"]["channelSerial"]))
        assert serials == list(range(1, 601))


@pytest.mark.spec("OPS-04", "OPS-03")
async def test_who_does_not_speak_tls_is_turned_away(
    start_hub: StartHub, certificate: tuple[Path, Path]
) -> None:
    hub = await encrypted_hub(start_hub, certificate)
    async with await RawConnection.open(hub.address) as plain:
        plain.request("GET /healthz")
        assert b"200 OK" not in await plain.rest()
    with pytest.raises(ssl.SSLError):
        await RawConnection.open(hub.address, ssl.create_default_context())


@pytest.mark.spec("OPS-04", "LIVE-16")
async def test_a_slow_consumer_over_tls_is_cut_off_with_its_code(
    start_server: StartHub, certificate: tuple[Path, Path], trusting: ssl.SSLContext
) -> None:
    hub = await encrypted_hub(
        start_server,
        certificate,
        connection__ws__maxMessageBytes=65536,
        connection__ws__sendBufferBytes=131072,
    )
    slow = await RawWebSocket.connect(hub.address, tls=trusting)
    subscribe = b'{"event":"Subscribe","payload":{"channels":[{"channel":"a"}]}}'
    slow.send(client_frame(TEXT, subscribe))
    await slow.receive()
    slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
    url = f"https://{hub.address}/v1/hubs/acme/channels/a/messages"
    async with asyncio.timeout(20):
        while not hub.server.node.counters["acme"].slow_consumers:
            async with hub.http.post(url, data=b"x" * 60_000, ssl=trusting) as answer:
                assert answer.status == 200
    slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
    received = await slow.rest()
    assert b'"code":"slow_consumer"' in received
    assert (4431).to_bytes(2, "big") + b"slow_consumer" in received[-200:]
    await slow.__aexit__()
