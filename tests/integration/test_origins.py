"""Which web pages may talk to a hub: Origin on sockets, CORS on HTTP."""

from __future__ import annotations

import pytest

from harness.clock import FakeClock
from harness.raw import HANDSHAKE, RawConnection
from harness.running_hub import RunningHub, StartHub, open_hub

PAGE = "https://app.example"


async def handshake(hub: RunningHub, origin: str | None, name: str = "acme") -> int:
    async with await RawConnection.open(hub.address) as client:
        extra = [f"Origin: {origin}"] if origin is not None else []
        client.request(f"GET /v1/hubs/{name}/socket", *HANDSHAKE, *extra)
        return (await client.response()).status


@pytest.mark.spec("OPS-04")
async def test_only_pages_on_the_list_may_open_a_socket(start_hub: StartHub) -> None:
    hub = await start_hub(
        open_hub(),
        open_hub("own", allowed_origins=("https://own.example",)),
        open_hub("all", allowed_origins=("*",)),
        listener__allowedOrigins=[PAGE, "http://localhost:*"],
    )
    statuses = {
        (None, "acme"): 101,  # not a browser
        (PAGE, "acme"): 101,
        ("http://localhost", "acme"): 101,
        ("http://localhost:3000", "acme"): 101,
        ("http://test", "acme"): 101,  # the hub's own host
        ("https://evil.example", "acme"): 403,
        ("http://app.example", "acme"): 403,
        ("https://app.example.evil", "acme"): 403,
        ("https://app.example:444", "acme"): 403,
        ("https://sub.app.example", "acme"): 403,
        ("https://APP.example", "acme"): 403,
        ("http://localhost:3000.evil", "acme"): 403,
        ("http://localhostevil", "acme"): 403,
        ("http://localhost:", "acme"): 403,
        ("null", "acme"): 403,
        ("", "acme"): 403,
        ("*", "acme"): 403,
        ("https://own.example", "own"): 101,
        (PAGE, "own"): 403,  # a hub's own list takes the place of the listener's
        ("https://evil.example", "all"): 101,
        ("https://own.example", "nowhere"): 403,
    }
    for (origin, name), status in statuses.items():
        assert await handshake(hub, origin, name) == status, (origin, name)


@pytest.mark.spec("OPS-04")
async def test_without_a_list_no_page_of_another_host_gets_in(hub: RunningHub) -> None:
    assert await handshake(hub, PAGE) == 403
    async with await RawConnection.open(hub.address) as client:
        for method in ("GET", "POST", "OPTIONS"):
            client.request(f"{method} /v1/hubs/acme/channels/a/messages", f"Origin: {PAGE}")
            answer = await client.response()
            assert (answer.status, answer.error) == (403, "origin_refused")
            assert "access-control-allow-origin" not in answer.headers
        client.request("GET /v1/hubs/acme/events?channel=a", f"Origin: {PAGE}")
        assert (await client.response()).status == 403


@pytest.mark.spec("OPS-04")
async def test_a_refused_page_can_read_why_its_socket_failed_and_the_log_names_what_is_wrong(
    start_server: StartHub, caplog: pytest.LogCaptureFixture
) -> None:
    """A stranger does not learn whether the hub exists; the operator does."""
    hub = await start_server(open_hub())
    words = []
    async with await RawConnection.open(hub.address) as client:
        for name in ("acme", "amce"):
            client.request(f"GET /v1/hubs/{name}/socket", f"Origin: {PAGE}")
            answer = await client.response()
            assert (answer.status, answer.error) == (403, "origin_refused")
            assert answer.headers["access-control-allow-origin"] == PAGE
            words.append(answer.body.decode().replace(name, "NAME"))
        assert words[0] == words[1]
        assert "NAME" in words[0]
        assert PAGE in words[0]
    assert caplog.messages == [
        f"refused a page from '{PAGE}' at hub 'acme': add it to the hub's allowedOrigins",
        f"refused a page from '{PAGE}' at hub 'amce', which does not exist",
    ]


@pytest.mark.spec("OPS-04")
async def test_lines_about_wrong_hubs_and_origins_are_few_however_many_ask(
    start_server: StartHub, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    hub = await start_server(open_hub(), open_hub("own"), clock=clock)

    async def ask(name: str, origin: str) -> None:
        await handshake(hub, origin, name)

    for n in range(100):
        await ask(f"guess-{n}\n", PAGE)
        await ask("acme", f"https://page{n}.example")
        await ask("acme", PAGE)
        async with hub.http.get(f"/v1/hubs/lost-{n}/channels/a/messages") as answer:
            assert answer.status == 401
    assert len(caplog.messages) <= 20
    await ask("own", PAGE)  # another tenant is heard
    assert "'own'" in caplog.messages[-1]
    caplog.clear()
    clock.advance(60)
    await ask("acme", PAGE)
    assert len(caplog.messages) == 1
    assert max(len(each) for each in caplog.messages) < 400


@pytest.mark.spec("OPS-04")
async def test_an_allowed_page_gets_cors_headers_on_answers_errors_and_streams(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(allowed_origins=(PAGE,)))
    async with await RawConnection.open(hub.address) as client:
        client.request("POST /v1/hubs/acme/channels/a/messages", f"Origin: {PAGE}", body=b"x")
        answer = await client.response()
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["vary"] == "origin"
        # The same head again, which the hub knows by now, from the page and from another one.
        client.request("POST /v1/hubs/acme/channels/a/messages", f"Origin: {PAGE}", body=b"x")
        assert (await client.response()).headers["access-control-allow-origin"] == PAGE
        client.request(
            "POST /v1/hubs/acme/channels/a/messages", "Origin: https://evil.example", body=b"x"
        )
        assert (await client.response()).status == 403
        client.request("GET /v1/hubs/acme/channels/a%2a/messages", f"Origin: {PAGE}")
        failed = await client.response()
        assert failed.status == 400
        assert failed.headers["access-control-allow-origin"] == PAGE
        client.request("GET /v1/hubs/acme/events?channel=a", f"Origin: {PAGE}")
        head = (await client.until(b"\r\n\r\n")).decode()
        assert f"Access-Control-Allow-Origin: {PAGE}\r\n" in head
        assert "Access-Control-Allow-Credentials" not in head


@pytest.mark.spec("OPS-04")
async def test_a_preflight_says_what_a_page_may_send(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(allowed_origins=(PAGE,)))
    async with await RawConnection.open(hub.address) as client:
        client.request(
            "OPTIONS /v1/hubs/acme/channels/a/messages",
            f"Origin: {PAGE}",
            "Access-Control-Request-Method: POST",
            "Access-Control-Request-Headers: authorization, content-type",
        )
        answer = await client.response()
        assert answer.status == 204
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert "post" in answer.headers["access-control-allow-methods"]
        for header in ("authorization", "content-type", "last-event-id"):
            assert header in answer.headers["access-control-allow-headers"]
        assert "content-length" not in answer.headers  # RFC 9110 8.6
        client.request("GET /healthz")
        assert (await client.response()).status == 200
