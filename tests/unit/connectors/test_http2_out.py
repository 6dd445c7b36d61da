"""HTTP/2 to Apple's push service: streams within limits, GOAWAY in the middle, resets, silence."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from harness.certificates import make_certificate
from harness.node_programs import node
from harness.push_services import SERVICES, Apns, apns_service, pem
from hubbub.connectors.http2_out import Http2Out
from hubbub.domain.push.content import PushNote, render
from hubbub.domain.push.options import PushOptions
from hubbub.domain.push.requests import apns_provider_token, apns_request
from hubbub.domain.push.tokens import PushToken
from hubbub.ports.outgoing import HttpRequest, SendFailed

pytestmark = pytest.mark.spec("PUSH-01")

KEY = ec.generate_private_key(ec.SECP256R1())
Make = Callable[[str], HttpRequest]


def trusting(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificate))
    context.set_alpn_protocols(["h2"])
    return context


def request(apns: Apns, device: str, body: str = "b", timeout: float = 10) -> HttpRequest:
    note = PushNote("acme", "news", "e", "m1", 1, 1_000_000, PushOptions(title="t", body=body))
    token = PushToken("acme", "ann", "apns", device.ljust(64, "0"))
    bearer = apns_provider_token("TEAMID1234", "KEYID12345", KEY, 1_800_000_000)
    made = apns_request(apns.url, "org.example.app", token, note, render("apns", note), bearer)
    return HttpRequest("acme", "POST", made.url, made.headers, made.body, timeout)


@asynccontextmanager
async def service(
    folder: Path, streams: int = 1000, goaway_every: int = 0
) -> AsyncIterator[tuple[Apns, Http2Out]]:
    certificate = make_certificate(folder)
    async with apns_service(certificate, streams, goaway_every) as apns:
        out = Http2Out(trusting(certificate[0]))
        try:
            yield apns, out
        finally:
            await out.close()


async def test_a_push_passes_the_checks_of_the_service(tmp_path: Path) -> None:
    async with service(tmp_path) as (apns, out):
        answer = await out.send(request(apns, "01"), "loopback")
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["apns-id"] == "0"
        dead = await out.send(request(apns, "dead"), "loopback")
        assert (dead.status, b"Unregistered" in dead.body) == (410, True)
        (first, _) = await apns.got(2)
        assert first["found"] is None
        assert first["headers"]["apns-push-type"] == "alert"


async def test_another_client_library_passes_the_same_checks(tmp_path: Path) -> None:
    """So the service asks for nothing that is not Apple's."""
    certificate = make_certificate(tmp_path)
    key = tmp_path / "AuthKey.p8"
    key.write_text(pem(KEY))
    good, dead = "01".ljust(64, "0"), "dead".ljust(64, "0")
    async with (
        apns_service(certificate) as apns,
        node(SERVICES / "node_apn.js", apns.port, certificate[0], key, good, dead) as process,
    ):
        assert process.stdout is not None
        said = (await asyncio.wait_for(process.stdout.readline(), 20)).decode()
        assert f'"sent":["{good}"]' in said
        assert f'["{dead}",410,"Unregistered"]' in said


@pytest.mark.parametrize("streams", [1, 3])
async def test_no_more_streams_are_open_than_the_service_allows(
    tmp_path: Path, streams: int
) -> None:
    async with service(tmp_path, streams) as (apns, out):
        requests = [request(apns, f"{number:04x}", "x" * 3000) for number in range(60)]
        answers = await asyncio.gather(*(out.send(each, "loopback") for each in requests))
        assert [answer.status for answer in answers] == [200] * 60
        got = await apns.got(60)
        assert {each["connections"] for each in got} == {1}


async def test_goaway_in_the_middle_loses_and_doubles_nothing(tmp_path: Path) -> None:
    async with service(tmp_path, streams=20, goaway_every=7) as (apns, out):
        requests = [request(apns, f"{number:04x}") for number in range(100)]
        answers = await asyncio.gather(*(out.send(each, "loopback") for each in requests))
        assert [answer.status for answer in answers] == [200] * 100
        got = await apns.got(100)
        assert len({each["device"] for each in got}) == 100
        assert got[-1]["connections"] >= 5


async def test_a_stream_that_is_reset_fails_alone(tmp_path: Path) -> None:
    async with service(tmp_path) as (apns, out):
        slow = asyncio.create_task(out.send(request(apns, "slow"), "loopback"))
        with pytest.raises(SendFailed) as caught:
            await out.send(request(apns, "drop"), "loopback")
        assert caught.value.word == "closed"
        assert (await slow).status == 200


async def test_a_service_that_hangs_holds_up_its_own_request_only(tmp_path: Path) -> None:
    async with service(tmp_path, streams=2) as (apns, out):
        hanging = asyncio.create_task(out.send(request(apns, "hang", timeout=1.0), "loopback"))
        for number in range(5):
            assert (await out.send(request(apns, f"{number:02x}"), "loopback")).status == 200
        with pytest.raises(SendFailed) as caught:
            await hanging
        assert caught.value.word == "timeout"
        assert (await out.send(request(apns, "ff"), "loopback")).status == 200


async def test_a_private_address_is_refused(tmp_path: Path) -> None:
    async with service(tmp_path) as (apns, out):
        with pytest.raises(SendFailed) as caught:
            await out.send(request(apns, "01"), "public")
        assert caught.value.word == "refused_address"


@pytest.mark.parametrize(
    "said",
    [b"HTTP/1.1 200 OK\r\n\r\n", b"\x00" * 8, b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\xff", b""],
    ids=["http/1", "half a frame", "goaway before settings", "nothing"],
)
async def test_what_does_not_speak_http2_is_told_so(said: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await writer.drain()
        await reader.read(100)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    out = Http2Out()
    asked = HttpRequest("acme", "POST", f"http://127.0.0.1:{port}/3/device/1", body=b"{}")
    with pytest.raises(SendFailed) as caught:
        await out.send(asked, "loopback")
    assert caught.value.word in ("protocol", "closed", "timeout")
    await out.close()
    server.close()
