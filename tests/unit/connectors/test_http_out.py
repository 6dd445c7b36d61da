"""The client for requests to strangers, against servers that behave and servers that do not."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.certificates import make_certificate
from harness.receivers import Received, Receiver, Reply, whole_answer
from hubbub.connectors.http_out import HttpOut
from hubbub.domain.callbacks import Reach
from hubbub.ports.outgoing import HttpRequest, SendFailed


@pytest.fixture
async def client() -> AsyncIterator[HttpOut]:
    client = HttpOut()
    yield client
    await client.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


def post(url: str, body: bytes = b"body", **more: Any) -> HttpRequest:
    return HttpRequest("acme", "POST", url, (("X-One", "1"),), body, **more)


async def failure(client: HttpOut, request: HttpRequest, reach: Reach = "loopback") -> SendFailed:
    with pytest.raises(SendFailed) as failed:
        await client.send(request, reach)
    return failed.value


async def test_a_request_arrives_as_it_was_made(client: HttpOut, receiver: Receiver) -> None:
    receiver.respond = lambda request: whole_answer(202, b"thanks", X_Two="2")
    answer = await client.send(post(f"{receiver.url}/a?b=c%20d"), reach="loopback")
    assert (answer.status, answer.body, answer.headers["x-two"]) == (202, b"thanks", "2")
    assert 0 < answer.duration_seconds < 5
    (request,) = receiver.received
    assert (request.method, request.target, request.body) == ("POST", "/a?b=c%20d", b"body")
    assert request.headers == {
        "host": f"127.0.0.1:{receiver.port}",
        "x-one": "1",
        "content-length": "4",
    }


async def test_a_connection_is_used_again(client: HttpOut, receiver: Receiver) -> None:
    for number in range(5):
        await client.send(post(receiver.url, b"%d" % number), reach="loopback")
    assert [request.body for request in receiver.received] == [b"0", b"1", b"2", b"3", b"4"]
    assert receiver.connections == 1


async def test_requests_at_the_same_time_have_connections_of_their_own(
    client: HttpOut, receiver: Receiver
) -> None:
    together = asyncio.Barrier(10)

    async def respond(request: Received) -> Reply:
        await together.wait()
        return 200

    receiver.respond = respond
    answers = await asyncio.gather(
        *(client.send(post(receiver.url), "loopback") for _ in range(10))
    )
    assert {answer.status for answer in answers} == {200}
    assert receiver.connections == 10


async def test_large_bodies_go_both_ways(client: HttpOut, receiver: Receiver) -> None:
    receiver.respond = lambda request: whole_answer(200, request.body)
    body = bytes(range(256)) * 4000
    request = post(receiver.url, body, max_answer_bytes=len(body))
    assert (await client.send(request, "loopback")).body == body
    assert (await failure(client, post(receiver.url, body))).word == "too_large"


async def test_a_connection_that_was_closed_meanwhile_is_replaced(client: HttpOut) -> None:
    receiver = Receiver()
    await receiver.start()
    await client.send(post(receiver.url), "loopback")
    await receiver.stop()
    again = Receiver(port=receiver.port)
    await again.start()
    assert (await client.send(post(again.url), "loopback")).status == 200
    await again.stop()


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ],
)
async def test_the_forms_of_an_answer_are_read(
    client: HttpOut, receiver: Receiver, raw: bytes
) -> None:
    receiver.respond = lambda request: raw
    for _ in range(2):
        answer = await client.send(post(receiver.url), "loopback")
        assert (answer.status, answer.body) == (200, b"ok")


async def scripted(raw: bytes, stay: bool = False) -> tuple[asyncio.Server, str]:
    """A server that says this to everyone, and closes the connection or keeps it open."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(raw)
            await writer.drain()
            if stay:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_an_answer_can_end_with_its_connection(client: HttpOut) -> None:
    server, url = await scripted(b"HTTP/1.1 200 OK\r\n\r\nall of it")
    assert (await client.send(post(url), "loopback")).body == b"all of it"
    server.close()


@pytest.mark.spec("WEB-05")
@pytest.mark.parametrize(
    ("raw", "stay", "word", "status"),
    [
        (b"", False, "closed", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", False, "closed", 200),
        (b"", True, "timeout", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", True, "timeout", 200),
        (b"HTTP/1.1 100 Continue\r\n\r\n", True, "timeout", None),
        (b"nonsense\r\n\r\n", True, "protocol", None),
        (b"\x16\x03\x01\x00", True, "protocol", None),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            True,
            "protocol",
            None,
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 70000, True, "too_large",
         200),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50000, True, "too_large", None),
    ],
)  # fmt: skip
async def test_bad_answers_end_within_bounds(
    client: HttpOut, raw: bytes, stay: bool, word: str, status: int | None
) -> None:
    server, url = await scripted(raw, stay)
    failed = await failure(client, post(url, timeout_seconds=0.3))
    assert (failed.word, failed.status) == (word, status)
    server.close()


@pytest.mark.spec("WEB-05")
async def test_redirects_are_answers(client: HttpOut, receiver: Receiver) -> None:
    receiver.respond = lambda request: whole_answer(302, Location="http://127.0.0.1:1/")
    assert (await client.send(post(receiver.url), "loopback")).status == 302
    assert len(receiver.received) == 1


@pytest.mark.spec("WEB-05")
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "0"]
)
async def test_addresses_that_are_not_public_are_refused(
    client: HttpOut, receiver: Receiver, host: str
) -> None:
    failed = await failure(client, post(f"http://{host}:{receiver.port}/"), reach="public")
    assert failed.word == "refused_address"
    assert receiver.connections == 0


@pytest.mark.spec("WEB-05")
async def test_a_connection_to_a_private_address_is_not_lent_to_others(
    client: HttpOut, receiver: Receiver
) -> None:
    assert (await client.send(post(receiver.url), reach="loopback")).status == 200
    assert (await failure(client, post(receiver.url), "public")).word == "refused_address"
    assert len(receiver.received) == 1


@pytest.mark.spec("WEB-05")
async def test_a_name_is_refused_if_one_of_its_addresses_is_private(
    client: HttpOut, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(*_: object, **__: object) -> list[Any]:
        return [(0, 0, 0, "", ("93.184.215.14", 0)), (0, 0, 0, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    failed = await failure(client, post(f"http://a.example:{receiver.port}/"), "public")
    assert failed.word == "refused_address"
    assert receiver.connections == 0


async def test_who_is_not_there_is_told_apart(client: HttpOut) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        assert (await failure(client, post(f"http://127.0.0.1:{port}/"))).word == "connect"
    assert (await failure(client, post("http://nowhere.invalid/"))).word == "resolve"


async def test_a_server_without_tls_is_no_secure_one(client: HttpOut, receiver: Receiver) -> None:
    url = receiver.url.replace("http:", "https:")
    assert (await failure(client, post(url, timeout_seconds=5))).word in ("tls", "timeout")


@pytest.mark.spec("WEB-05")
async def test_certificates_are_checked_against_the_name(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate, key)
    receiver = Receiver()
    await receiver.start(serving)
    trusting = HttpOut(ssl.create_default_context(cafile=str(certificate)))
    doubtful = HttpOut()
    url = f"https://127.0.0.1:{receiver.port}/"
    for _ in range(2):
        assert (await trusting.send(post(url), "loopback")).status == 200
    assert receiver.connections == 1
    assert (await failure(doubtful, post(url))).word == "tls"
    assert (await failure(trusting, post(url.replace("127.0.0.1", "localhost")))).word == "tls"
    assert len(receiver.received) == 2
    await trusting.close()
    await doubtful.close()
    await receiver.stop()


async def test_no_header_can_be_smuggled_in(client: HttpOut, receiver: Receiver) -> None:
    request = HttpRequest("acme", "POST", receiver.url, (("X-One", "1\r\nX-Two: 2"),))
    assert (await failure(client, request)).word == "protocol"
    assert receiver.received == []


async def test_closing_ends_what_is_under_way(receiver: Receiver) -> None:
    client = HttpOut()
    receiver.respond = lambda request: asyncio.Event().wait()
    sending = asyncio.ensure_future(client.send(post(receiver.url), "loopback"))
    await receiver.got(1)
    await client.close()
    with pytest.raises(SendFailed):
        await sending
