"""The HTTP side over real sockets: publish, batches, history, presence, and hostile requests."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any
from urllib.parse import quote

import pytest

from harness.raw import RawConnection
from harness.running_hub import ANSWER_SECONDS, RunningHub, StartHub, open_hub
from hubbub.domain.rules import Rules
from hubbub.engine.sessions.filtered_history import FilteredHistory
from hubbub.gateways.exchange import HttpExchange

shared = pytest.mark.asyncio(loop_scope="module")
MESSAGES = "/v1/hubs/acme/channels/news/messages"


# -- publish ------------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-02")
@shared
async def test_publish_over_http_reaches_a_socket(shared_hub: RunningHub) -> None:
    subscriber = await shared_hub.socket()
    await subscriber.subscribe("h:publish")
    path = "/v1/hubs/acme/channels/h:publish/messages?event=greeting"
    async with shared_hub.http.post(path, json={"a": 1}) as answer:
        assert answer.status == 200
        result = await answer.json()
    delivered = await subscriber.find("Publish")
    assert delivered["msgID"] == result["msgID"]
    assert delivered["channelSerial"] == result["channelSerial"] == "1"
    assert delivered["event"] == "greeting"
    assert delivered["payload"] == {"json": {"a": 1}}


@pytest.mark.spec("LIVE-02")
@pytest.mark.parametrize(
    ("content_type", "body", "payload"),
    [
        ("text/plain", "grüß".encode(), {"text": "grüß"}),
        ("application/octet-stream", b"\x00\xff", {"base64": "AP8="}),
        ("application/json", b'{"a":\n1}', {"json": {"a": 1}}),
        ("application/json; charset=utf-8", b"[]", {"json": []}),
        ("text/plain", b"", {"text": ""}),
    ],
)
@shared
async def test_a_body_is_delivered_as_its_content_type_says(
    shared_hub: RunningHub, content_type: str, body: bytes, payload: object
) -> None:
    subscriber = await shared_hub.socket()
    await subscriber.subscribe("h:types")
    path = "/v1/hubs/acme/channels/h:types/messages"
    async with shared_hub.http.post(path, data=body, headers={"Content-Type": content_type}) as got:
        assert got.status == 200
    assert (await subscriber.find("Publish"))["payload"] == payload


@pytest.mark.spec("OPS-03")
@pytest.mark.parametrize(
    ("target", "body", "status", "code"),
    [
        (MESSAGES, b"{", 422, "invalid_payload"),
        (MESSAGES, b"\xff", 422, "invalid_payload"),
        (MESSAGES, b"[" * 5000 + b"]" * 5000, 422, "invalid_payload"),
        (f"{MESSAGES}?store=perhaps", b"1", 400, "malformed"),
        (f"{MESSAGES}?event=%0a", b"1", 400, "invalid_name"),
        (f"{MESSAGES}?event={'e' * 256}", b"1", 400, "invalid_name"),
        ("/v1/hubs/acme/channels/a%2A/messages", b"1", 400, "invalid_name"),
        ("/v1/hubs/acme/channels/a%00/messages", b"1", 400, "invalid_name"),
        ("/v1/hubs/acme/channels//messages", b"1", 400, "invalid_name"),
        (f"/v1/hubs/acme/channels/{'n' * 256}/messages", b"1", 400, "invalid_name"),
        ("/v1/hubs/acme/channels/%ff/messages", b"1", 400, "malformed"),
        ("/v1/hubs/acme/channels/%zz/messages", b"1", 400, "malformed"),
        ("/v1/hubs/acme/channels/%/messages", b"1", 400, "malformed"),
        (f"{MESSAGES}?event=%ff", b"1", 400, "malformed"),
        ("/v1/hubs/nowhere/channels/a/messages", b"1", 401, "not_authenticated"),
        ("/v1/hubs/%00/channels/a/messages", b"1", 400, "invalid_name"),
        ("/v1/hubs/acme/channels/notification:a/messages", b"1", 409, "wrong_channel_kind"),
        ("/v1/hubs/acme/channels/a/b/messages", b"1", 404, "not_found"),
        ("/v1/hubs/acme/channels/a/messages/", b"1", 404, "not_found"),
        ("/v1/hubs/acme", b"1", 404, "not_found"),
        ("/", b"1", 404, "not_found"),
    ],
)
@shared
async def test_a_wrong_publish_gets_a_clear_error_and_the_connection_goes_on(
    shared_hub: RunningHub, target: str, body: bytes, status: int, code: str
) -> None:
    async with await RawConnection.open(shared_hub.address) as client:
        client.request(f"POST {target}", "Content-Type: application/json", body=body)
        answer = await client.response()
        assert (answer.status, answer.error) == (status, code), answer.body
        client.request("GET /healthz")
        assert (await client.response()).status == 200


@pytest.mark.spec("OPS-03")
@pytest.mark.parametrize(
    ("request_line", "status", "code"),
    [
        (f"DELETE {MESSAGES}", 405, "method_not_allowed"),
        (f"PUT {MESSAGES}", 405, "method_not_allowed"),
        ("GET /v1/hubs/acme/messages", 405, "method_not_allowed"),
        ("POST /healthz", 405, "method_not_allowed"),
        ("POST /v1/hubs/acme/events?channel=a", 405, "method_not_allowed"),
        ("GET /v1/hubs/acme/socket", 426, "upgrade_required"),
        ("OPTIONS *", 404, "not_found"),
        (f"GET {MESSAGES}?after=x", 400, "malformed"),
        (f"GET {MESSAGES}?after=-1", 400, "malformed"),
        (f"GET {MESSAGES}?after={'9' * 19}", 400, "malformed"),
        (f"GET {MESSAGES}?after=1&before=2", 400, "bad_request"),
        ("GET /v1/hubs/acme/channels/news/presence", 404, "not_found"),
        ("GET /v1/hubs/acme/channels/news/nothing", 404, "not_found"),
        ("GET /v1/hubs/acme/events", 400, "bad_request"),
    ],
)
@shared
async def test_a_wrong_request_gets_a_clear_error(
    shared_hub: RunningHub, request_line: str, status: int, code: str
) -> None:
    async with await RawConnection.open(shared_hub.address) as client:
        client.request(request_line)
        answer = await client.response()
        assert (answer.status, answer.error) == (status, code), answer.body


SPELLINGS = (
    "/v1/hubs/acme/../other/channels/secret/messages",
    "/v1/hubs/acme/%2e%2e/other/channels/secret/messages",
    "//v1/hubs/other/channels/secret/messages",
    "/./v1/hubs/other/channels/secret/messages",
    "/v1/hubs/acme%2F..%2Fother/channels/secret/messages",
    "/v1/hubs/other%00/channels/secret/messages",
    "/v1/hubs/OTHER/channels/secret/messages",
    "/v1/hubs/other%20/channels/secret/messages",
    "/v1/hubs/acme/channels/..%2F..%2Fother%2Fchannels%2Fsecret/messages",
    "http://other/v1/hubs/acme/channels/secret/messages",
)


@pytest.mark.spec("OPS-03")
async def test_no_spelling_of_a_path_reaches_another_hub(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(), open_hub("other"))
    secret = "what only other knows"
    async with hub.http.post("/v1/hubs/other/channels/secret/messages", data=secret) as answer:
        assert answer.status == 200
    async with await RawConnection.open(hub.address) as client:
        for target in SPELLINGS:
            client.request(f"GET {target}")
            assert secret.encode() not in (await client.response()).body, target
        client.request("GET /v1/hubs/other/channels/secret/messages")
        assert secret.encode() in (await client.response()).body


# -- batches, history, presence -----------------------------------------------------------------


@pytest.mark.spec("LIVE-08")
async def test_a_batch_answers_for_each_message_in_order(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(namespaces={"private": Rules(), "kept": Rules(
        public=True, client_publish=True, allow_anonymous=True, store=True)}))  # fmt: skip
    batch = {
        "publishes": [
            {"channel": "a", "event": "e", "payload": {"json": 1}},
            {"channel": "private:x", "payload": {"json": 2}},
            {"channel": "kept:x", "payload": {"text": "3"}, "extra": {"store": True}},
            {"channel": "a*", "payload": {"json": 4}},
            {"channel": "a"},
            {"channel": 7, "payload": {"json": 6}},
            {"channel": "a", "payload": {"json": 7}},
        ]
    }
    async with hub.http.post("/v1/hubs/acme/messages", json=batch) as answer:
        assert answer.status == 200
        results = (await answer.json())["published"]
    codes = [each.get("error", {}).get("code") for each in results]
    assert codes == [None, "not_permitted", None, "invalid_name", "malformed", "malformed", None]
    assert [each.get("channelSerial") for each in results if each["success"]] == ["1", "1", "2"]


@pytest.mark.spec("LIVE-08", "OPS-03")
@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"publishes":[]}', b'{"publishes":7}', b"\xff", b"[" * 100_000]
)
@shared
async def test_a_batch_that_cannot_be_read_is_refused(shared_hub: RunningHub, body: bytes) -> None:
    async with shared_hub.http.post("/v1/hubs/acme/messages", data=body) as answer:
        assert answer.status == 400
        assert (await answer.json())["error"]["code"] in ("malformed", "bad_request")


@pytest.mark.spec("LIVE-08")
@shared
async def test_the_largest_batch_does_not_hold_up_the_others(shared_hub: RunningHub) -> None:
    item = {"channel": "h:large", "payload": {"json": 1}}
    publish = shared_hub.http.post("/v1/hubs/acme/messages", json={"publishes": [item] * 1000})
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with publish as answer:
        assert len((await answer.json())["published"]) == 1000
    assert loop.time() - started < 1.0  # server and client share this thread
    too_many = {"publishes": [item] * 1001}
    async with shared_hub.http.post("/v1/hubs/acme/messages", json=too_many) as answer:
        assert answer.status == 413


@pytest.mark.spec("LIVE-13")
@shared
async def test_history_over_http_pages_both_ways(shared_hub: RunningHub) -> None:
    path = "/v1/hubs/acme/channels/h:history/messages"
    for number in range(1, 6):
        async with shared_hub.http.post(path, json=number) as answer:
            assert answer.status == 200

    async def page(query: str) -> tuple[list[int], bool, bool]:
        async with shared_hub.http.get(f"{path}?{query}") as got:
            found = await got.json()
        numbers = [each["payload"]["json"] for each in found["messages"]]
        return numbers, found["recovered"], found.get("more", False)

    assert await page("") == ([1, 2, 3, 4, 5], True, False)
    assert await page("limit=2") == ([4, 5], True, True)
    assert await page("after=1&limit=2") == ([2, 3], True, True)
    assert await page("before=3&limit=5") == ([1, 2], True, False)
    assert await page("after=5") == ([], True, False)
    assert await page("after=9") == ([], False, False)
    assert await page("after=1&epoch=another") == ([], False, False)


@pytest.mark.spec("LIVE-12")
async def test_presence_over_http_names_who_is_there(start_hub: StartHub) -> None:
    with_presence = Rules(public=True, allow_anonymous=True, presence=True)
    hub = await start_hub(open_hub(namespaces={"room": with_presence}))
    socket = await hub.socket(token=hub.token("ann", color="red"))
    await socket.subscribe("room:1")
    await socket.find("Presence")
    async with hub.http.get("/v1/hubs/acme/channels/room:1/presence") as answer:
        (member,) = (await answer.json())["presence"]
    assert member["userID"] == "ann"
    assert member["extra"] == {"color": "red"}


# -- requests on the wire -----------------------------------------------------------------------


@pytest.mark.spec("OPS-03")
@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5, 5",
        "Content-Length: +5",
        "Content-Length: 0x5",
        "Content-Length: -1",
        "Content-Length: 99999999999999999999999",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: identity",
        "Content-Length: 5\r\n folded: yes",
        "Bad Name: x",
        "Host: again",
        "Authorization: Bearer a\r\nAuthorization: Bearer b",
        "X: \x00",
        "X: a\nb",
    ],
)
@shared
async def test_an_ambiguous_head_is_refused_and_nothing_behind_it_is_read(
    shared_hub: RunningHub, head: str
) -> None:
    """What a proxy might read in another way must not become a second request."""
    async with await RawConnection.open(shared_hub.address) as client:
        client.send(f"POST {MESSAGES} HTTP/1.1\r\nHost: test\r\n{head}\r\n\r\nhello".encode())
        client.send(b"POST /v1/hubs/acme/channels/smuggled/messages HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await client.response()
        assert answer.status in (400, 413)
        assert answer.headers["connection"] == "close"
        assert await client.rest() == b""
    async with shared_hub.http.get("/v1/hubs/acme/channels/smuggled/messages") as history:
        assert (await history.json())["messages"] == []


@pytest.mark.spec("OPS-03")
@pytest.mark.parametrize(
    "junk",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS client at the wrong door
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\xc3\xbc HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET nowhere HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes(range(256)),
    ],
)
@shared
async def test_junk_is_answered_and_the_connection_closed_or_usable(
    shared_hub: RunningHub, junk: bytes
) -> None:
    async with await RawConnection.open(shared_hub.address) as client:
        client.send(junk)
        answer = await client.response()
        assert answer.status in (400, 404)
    async with shared_hub.http.get("/healthz") as health:
        assert health.status == 200


@pytest.mark.spec("OPS-03")
@shared
async def test_pipelined_requests_are_answered_in_order(shared_hub: RunningHub) -> None:
    """Also where the first ones take time (history) and the later ones do not (health)."""
    path = "/v1/hubs/acme/channels/h:pipeline/messages"
    async with await RawConnection.open(shared_hub.address) as client:
        for number in range(150):
            client.request(f"POST {path}", "Content-Type: application/json", body=b"%d" % number)
            client.request(f"GET {path}?limit=1")
            client.request("GET /healthz")
        for number in range(150):
            published = json.loads((await client.response()).body)
            assert published["channelSerial"] == str(number + 1)
            page = json.loads((await client.response()).body)
            assert page["messages"][0]["payload"] == {"json": number}
            assert json.loads((await client.response()).body)["status"] == "ok"


@pytest.mark.spec("OPS-03")
@shared
async def test_a_chunked_body_is_put_together(shared_hub: RunningHub) -> None:
    path = "/v1/hubs/acme/channels/h:chunked/messages"
    async with await RawConnection.open(shared_hub.address) as client:
        client.request(f"POST {path}", "Transfer-Encoding: chunked", "Content-Type: text/plain")
        for piece in (b"3;name=value\r\nabc\r\n", b"2\r\nde\r\n", b"0\r\n\r\n"):
            client.send(piece)
        assert (await client.response()).status == 200
        client.request(f"GET {path}")
        page = json.loads((await client.response()).body)
        assert page["messages"][0]["payload"] == {"text": "abcde"}


@pytest.mark.spec("OPS-03", "LIVE-06")
async def test_a_trailer_is_not_taken_for_a_header(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(allow_anonymous=False))
    async with await RawConnection.open(hub.address) as client:
        client.request(f"POST {MESSAGES}", "Transfer-Encoding: chunked")
        trailer = f"Authorization: Bearer {hub.token()}"
        client.send(f"1\r\na\r\n0\r\n{trailer}\r\n\r\n".encode())
        assert (await client.response()).status == 401


@pytest.mark.spec("OPS-03")
@shared
async def test_a_client_that_expects_100_continue_gets_it_before_its_body(
    shared_hub: RunningHub,
) -> None:
    async with await RawConnection.open(shared_hub.address) as client:
        client.request(f"POST {MESSAGES}", "Expect: 100-continue", "Content-Length: 2")
        assert (await client.response()).status == 100
        client.send(b"hi")
        assert (await client.response()).status == 200
        client.request(f"POST {MESSAGES}", "Expect: 100-continue", "Content-Length: 99999999")
        assert (await client.response()).status == 413


@pytest.mark.spec("OPS-03")
@shared
async def test_an_answer_to_head_has_no_body(shared_hub: RunningHub) -> None:
    """A body would be read as the next answer."""
    async with await RawConnection.open(shared_hub.address) as client:
        for target, status in (("/healthz", 200), ("/nowhere", 404), (MESSAGES, 200)):
            client.request(f"HEAD {target}")
            answer = await client.response(head=True)
            assert answer.status == status
            assert int(answer.headers["content-length"]) > 0
        client.request("GET /healthz")
        assert (await client.response()).status == 200


@pytest.mark.spec("OPS-03")
@shared
@pytest.mark.parametrize("wish", ["", "Connection: keep-alive\r\n"])
async def test_http_1_0_is_answered_and_closed(shared_hub: RunningHub, wish: str) -> None:
    async with await RawConnection.open(shared_hub.address) as client:
        client.send(f"GET /healthz HTTP/1.0\r\n{wish}\r\n".encode())
        answer = await client.response()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await client.rest() == b""


@pytest.mark.spec("OPS-03")
@shared
async def test_an_unknown_upgrade_is_ignored(shared_hub: RunningHub) -> None:
    """As by a client that would rather speak HTTP/2: `curl --http2`."""
    async with await RawConnection.open(shared_hub.address) as client:
        upgrade = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAA")
        client.request("POST /v1/hubs/acme/channels/h:h2c/messages", *upgrade, body=b"hello")
        assert (await client.response()).status == 200
        client.request("GET /healthz", *upgrade)
        assert (await client.response()).status == 200
        client.request("GET /healthz")
        assert (await client.response()).status == 200


# -- limits of size and time --------------------------------------------------------------------


@pytest.mark.spec("OPS-03", "LIVE-16")
async def test_what_is_too_large_is_refused_before_it_is_all_there(start_hub: StartHub) -> None:
    hub = await start_hub(
        connection__http__maxBodyBytes=2048,
        listener__maxHeaderBytes=1024,
        connection__ws__maxMessageBytes=1024,
    )
    heads = {
        "a long target": b"GET /" + b"a" * 2000,
        "many headers": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: bbbbbbbb\r\n" * 200,
    }
    for what, head in heads.items():
        async with await RawConnection.open(hub.address) as client:
            client.send(head)
            answer = await client.response()
            assert (answer.status, answer.error) == (431, "head_too_large"), what
    bodies = {
        "announced": b"Content-Length: 2049\r\n\r\n",
        "chunked": b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b" % (2049, b"x" * 2049),
    }
    for what, rest in bodies.items():
        async with await RawConnection.open(hub.address) as client:
            client.send(f"POST {MESSAGES} HTTP/1.1\r\nHost: x\r\n".encode() + rest)
            answer = await client.response()
            assert (answer.status, answer.error) == (413, "too_large"), what
    async with hub.http.post(MESSAGES, data=b"x" * 1025) as too_large_for_a_message:
        assert too_large_for_a_message.status == 413
    async with hub.http.post(MESSAGES, data=b"x" * 1024) as fits:
        assert fits.status == 200


@pytest.mark.spec("OPS-03", "LIVE-16")
@pytest.mark.parametrize(
    "endless",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nA: ",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ",
    ],
    ids=["header value", "header name", "chunk extension", "trailer"],
)
@shared
async def test_a_line_without_an_end_is_not_collected(
    shared_hub: RunningHub, endless: bytes
) -> None:
    async with await RawConnection.open(shared_hub.address) as client:
        client.send(endless)
        answer = asyncio.ensure_future(client.response())
        sent = 0
        while not answer.done() and sent < 40:
            client.send(b"x" * 100_000)
            await asyncio.wait([asyncio.ensure_future(client.writer.drain()), answer],
                               return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
            await asyncio.sleep(0)
            sent += 1
        assert (await answer).status in (431, 413)


@pytest.mark.spec("OPS-03", "OPS-04")
async def test_slow_and_silent_clients_are_closed_in_time(start_hub: StartHub) -> None:
    hub = await start_hub(listener__headerTimeout=0.1)
    silent = await RawConnection.open(hub.address)
    slow_head = await RawConnection.open(hub.address)
    slow_head.send(b"GET / HTTP/1.1\r\nHost:")
    slow_body = await RawConnection.open(hub.address)
    slow_body.request(f"POST {MESSAGES}", "Content-Length: 10")
    slow_body.send(b"12345")
    async with silent, slow_head, slow_body:
        assert await silent.rest() == b""
        for client in (slow_head, slow_body):
            answer = await client.response()
            assert (answer.status, answer.error) == (408, "request_timeout")
            assert await client.rest() == b""


@pytest.mark.spec("OPS-03")
async def test_an_idle_connection_is_closed_without_an_answer_nobody_asked_for(
    hub: RunningHub,
) -> None:
    async with await RawConnection.open(hub.address) as client:
        client.request("GET /healthz")
        assert (await client.response()).status == 200
        hub.server.listener.sweep(asyncio.get_running_loop().time() + 3600)
        assert await client.rest() == b""


@pytest.mark.spec("OPS-03")
async def test_a_request_under_way_is_answered_when_the_server_stops(
    start_server: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Rules(public=True, client_publish=True, allow_anonymous=True, store=True)
    hub = await start_server(open_hub(rules=kept))
    async with await RawConnection.open(hub.address) as client:
        client.request("GET /healthz")
        await client.response()
        received = asyncio.Event()
        publisher = hub.server.node.publisher
        publish = publisher.publish

        def publish_and_tell(*arguments: Any) -> str:
            received.set()
            return publish(*arguments)

        monkeypatch.setattr(publisher, "publish", publish_and_tell)
        client.request(f"POST {MESSAGES}?store=true", body=b"kept")
        await received.wait()
        await hub.server.stop()
        answer = await client.response()
        assert answer.status == 200
        assert json.loads(answer.body)["channelSerial"] == "1"


@pytest.mark.spec("OPS-03")
@shared
async def test_a_client_that_leaves_in_the_middle_harms_nobody(shared_hub: RunningHub) -> None:
    half = f"POST {MESSAGES} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab".encode()
    for part in (b"GET", half):
        client = await RawConnection.open(shared_hub.address)
        client.send(part)
        client.writer.close()
    async with await RawConnection.open(shared_hub.address) as client:
        client.request(f"GET {MESSAGES}")
        client.writer.transport.abort()
    async with shared_hub.http.get("/healthz") as health:
        assert health.status == 200


@pytest.mark.spec("OPS-03", "SEC-05")
async def test_a_request_whose_client_leaves_does_not_wait_for_the_garbage_collector(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await start_hub(open_hub())
    asked, left = asyncio.Event(), asyncio.Event()

    async def read(*_: object) -> None:
        asked.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            left.set()

    monkeypatch.setattr(FilteredHistory, "read", read)
    gc.collect()
    gc.disable()
    try:
        client = await RawConnection.open(hub.address)
        client.request(f"GET {MESSAGES}?where=payload.a%3D1")
        await asyncio.wait_for(asked.wait(), ANSWER_SECONDS)
        client.writer.transport.abort()
        await asyncio.wait_for(left.wait(), ANSWER_SECONDS)
        async with asyncio.timeout(ANSWER_SECONDS):
            while any(isinstance(each, HttpExchange) for each in gc.get_objects()):
                await asyncio.sleep(0)
    finally:
        gc.enable()


@pytest.mark.spec("OPS-03")
@pytest.mark.parametrize("name", ["a/b", "ünï", "a b", "..", "%", "a?b", "a+b", "x&y=z", "😀"])
@shared
async def test_any_allowed_name_works_percent_encoded(shared_hub: RunningHub, name: str) -> None:
    subscriber = await shared_hub.socket()
    await subscriber.subscribe(name)
    async with await RawConnection.open(shared_hub.address) as client:
        client.request(f"POST /v1/hubs/acme/channels/{quote(name, safe='')}/messages", body=b"x")
        assert (await client.response()).status == 200
    assert (await subscriber.find("Publish"))["channel"] == name
