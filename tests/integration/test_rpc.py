"""Clients call services behind a hub, over both socket encodings and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from harness.admin import Caller
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.service import ServiceServer, running_service, saying
from harness.topics import Codec, TopicSocket, until
from hubbub.client import connect
from hubbub.domain import errors, notices, requests
from hubbub.domain.errors import HubbubError
from hubbub.domain.messages import BINARY, JSON, TEXT
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.rules import HubConfiguration, RpcRoute
from hubbub.engine.services.calls import Services
from hubbub.protocols.json.codec import JSON_V1
from hubbub.protocols.protobuf.codec import PROTOBUF_V1

both = pytest.mark.parametrize(
    "codec", [JSON_V1, PROTOBUF_V1], ids=lambda codec: str(codec.subprotocol)
)
pytestmark = pytest.mark.spec("RPC-01")


@pytest.fixture
async def service() -> AsyncIterator[ServiceServer]:
    async with running_service() as running:
        yield running


def hub_with(*routes: RpcRoute) -> HubConfiguration:
    named = {f"r{index}": route for index, route in enumerate(routes)}
    return msgspec.structs.replace(open_hub(), rpc_routes=named)


@pytest.fixture
async def hub(start_hub: StartHub, service: ServiceServer) -> RunningHub:
    headers = {"X-Key": "secret"}
    return await start_hub(hub_with(RpcRoute("cart.*", service.url, headers, 5.0)))


def token(hub: RunningHub, *rpcs: str, user: str = "ann") -> str:
    return hub.server.tokens.issue("acme", Identity(user_id=user, rpcs=rpcs), 600)


async def post(hub: RunningHub, method: str, body: bytes, as_: str, **options: Any) -> Any:
    headers = {"Authorization": f"Bearer {as_}", **options.pop("headers", {})}
    async with hub.http.post(
        f"/v1/hubs/acme/rpc/{method}", data=body, headers=headers, **options
    ) as answer:
        return answer.status, answer.headers["Content-Type"], await answer.read()


@both
async def test_a_session_calls_a_method_and_gets_the_answer(
    hub: RunningHub, service: ServiceServer, codec: Codec
) -> None:
    async with await TopicSocket.open(hub, codec, token=token(hub, "cart.*")) as socket:
        for payload, content_type in ((b"\x00\xff", BINARY), (b'{"a":1}', JSON), (b"hi", TEXT)):
            answer = await socket.ask(requests.Call, "cart.add", payload, content_type)
            assert isinstance(answer, notices.CallAnswered)
            assert (answer.payload, answer.content_type) == (payload, content_type)
    headers, body = service.calls[0]
    assert body == b"\x00\xff"
    assert headers["X-Key"] == "secret"
    assert headers["Hubbub-Hub"] == "acme"
    assert headers["Hubbub-Method"] == "cart.add"
    assert headers["Hubbub-User"] == "ann"
    assert headers["Hubbub-Session"]


async def test_http_calls_pass_bytes_and_types_through_untouched(
    hub: RunningHub, service: ServiceServer
) -> None:
    body = b'{\n  "a": 1.0\n}'
    mine = token(hub, "cart.add")
    answer = await post(hub, "cart.add", body, mine, headers={"Content-Type": "application/json"})
    assert answer[0::2] == (200, body)
    assert answer[1].lower() == "application/json"
    assert "Hubbub-Session" not in service.calls[0][0]


@both
@pytest.mark.parametrize(
    ("rpcs", "method", "allowed"),
    [
        (("cart.*",), "cart.add", True),
        (("cart.add",), "cart.add", True),
        (("cart.add",), "cart.adds", False),
        ((), "cart.add", False),
        (("cart.#",), "cart.a", True),
        (("cart.#",), "cart.a:b", False),
    ],
)
@pytest.mark.spec("LIVE-07")
async def test_only_permitted_methods_can_be_called(
    hub: RunningHub, codec: Codec, rpcs: tuple[str, ...], method: str, allowed: bool
) -> None:
    async with await TopicSocket.open(hub, codec, token=token(hub, *rpcs)) as socket:
        answer = await socket.ask(requests.Call, method, b"x", BINARY)
    if allowed:
        assert isinstance(answer, notices.CallAnswered)
    else:
        assert isinstance(answer, notices.Failed)
        assert answer.error.code == "not_permitted"


@pytest.mark.parametrize(
    ("reply", "code", "message"),
    [
        (saying(404, b"no such item"), "service_refused", "no such item"),
        (saying(409), "service_refused", "the service refused 'cart.add'"),
        (saying(500, b"stack trace"), "service_failed", "status 500"),
        (saying(302, Location="/elsewhere"), "service_failed", "status 302"),
        (saying(200, b"x" * 300_000), "service_failed", "more than 262144 bytes"),
    ],
)
async def test_refusals_and_failures_are_told_apart(
    hub: RunningHub, service: ServiceServer, reply: Any, code: str, message: str
) -> None:
    service.answer = reply
    status, _, body = await post(hub, "cart.add", b"x", token(hub, "cart.*"))
    error = msgspec.json.decode(body)["error"]
    assert error["code"] == code
    assert message in error["message"]
    assert status == (422 if code == "service_refused" else 502)
    assert "stack trace" not in error["message"]


async def test_a_service_that_is_slow_away_or_unknown_is_a_clear_error(
    start_hub: StartHub, service: ServiceServer
) -> None:
    async with running_service() as gone:
        away = gone.url
    service.answer = service.hang
    hub = await start_hub(
        hub_with(
            RpcRoute("slow.*", service.url, {}, 0.2),
            RpcRoute("patient.*", service.url, {}, 30.0),
            RpcRoute("away.*", away, {}, 5.0),
        )
    )
    mine = token(hub, "*")
    for method, code in (
        ("slow.x", "service_timeout"),
        ("patient.x?timeout=0.2", "service_timeout"),
        ("away.x", "service_unavailable"),
        ("unknown", "service_not_found"),
    ):
        status, _, body = await post(hub, method, b"", mine)
        assert msgspec.json.decode(body)["error"]["code"] == code
        assert status in (404, 503, 504)


async def test_the_route_with_the_longest_pattern_answers(
    start_hub: StartHub, service: ServiceServer
) -> None:
    async with running_service() as special:
        special.answer = saying(200, b"special")
        hub = await start_hub(hub_with(RpcRoute("*", service.url), RpcRoute("cart.*", special.url)))
        assert (await post(hub, "cart.add", b"x", token(hub, "*")))[2] == b"special"
        assert (await post(hub, "other", b"x", token(hub, "*")))[2] == b"x"


async def test_a_slow_service_holds_nothing_else_back_and_calls_are_bounded(
    start_hub: StartHub, service: ServiceServer
) -> None:
    service.answer = service.hang
    hub = await start_hub(hub_with(RpcRoute("*", service.url)), session__maxCalls=3)
    socket = await hub.socket(token=token(hub, "*"))
    for number in range(4):
        await socket.send("RPC", method="m", payload={"text": "x"}, reqID=10 + number)
    refused = await socket.find("Error")
    assert (refused["error"]["code"], refused["reqID"]) == ("limited", 13)
    await socket.send("Ping", reqID=1)
    assert (await socket.find("Pong"))["reqID"] == 1
    await socket.subscribe("news")
    service.released.set()
    assert {(await socket.find("RPC"))["reqID"] for _ in range(3)} == {10, 11, 12}


async def test_calls_of_a_hub_are_bounded(start_hub: StartHub, service: ServiceServer) -> None:
    service.answer = service.hang
    hub = await start_hub(hub_with(RpcRoute("*", service.url)), hub__maxCalls=2)
    mine = token(hub, "*")
    waiting = [asyncio.create_task(post(hub, "m", b"x", mine)) for _ in range(2)]
    await until(lambda: len(service.calls) == 2)
    status, _, _ = await post(hub, "m", b"x", mine)
    assert status == 429
    service.released.set()
    assert {answer[0] for answer in await asyncio.gather(*waiting)} == {200}


async def test_a_session_that_leaves_gives_its_calls_up(
    start_server: StartHub, service: ServiceServer
) -> None:
    service.answer = service.hang
    hub = await start_server(hub_with(RpcRoute("*", service.url)), hub__maxCalls=1)
    socket = await hub.socket(token=token(hub, "*"))
    await socket.send("RPC", method="m", payload={"text": "x"})
    await until(lambda: len(service.calls) == 1)
    await socket.connection.close()
    await until(lambda: not hub.server.node.feature(Services)._under_way)


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
async def test_the_python_client_calls(
    hub: RunningHub, service: ServiceServer, encoding: Any
) -> None:
    from hubbub.client import Options

    async with connect(
        f"ws://{hub.address}",
        hub="acme",
        token=token(hub, "cart.*"),
        options=Options(encoding=encoding),
    ) as client:
        assert (await client.call("cart.add", {"n": 1})).data == {"n": 1}
        assert (await client.call("cart.add", "text")).data == "text"
        assert (await client.call("cart.add", b"\xff")).data == b"\xff"
        service.answer = service.hang
        with pytest.raises(errors.ServiceTimeout):
            await client.call("cart.add", b"", timeout=0.1)
        with pytest.raises(errors.NotPermitted):
            await client.call("other", b"")


async def test_the_client_without_asyncio_calls(hub: RunningHub) -> None:
    from hubbub.client import sync

    def work() -> Any:
        with sync.connect(f"ws://{hub.address}", hub="acme", token=mine) as client:
            return client.call("cart.add", [1, 2]).data

    mine = token(hub, "cart.*")
    assert await asyncio.to_thread(work) == [1, 2]


@pytest.mark.spec("ADMIN-01")
async def test_routes_are_administered_and_their_secrets_stay_inside(
    hub: RunningHub, service: ServiceServer
) -> None:
    path = "/v1/admin/hubs/acme/rpc-routes/pay"
    admin = Caller(hub, hub.token("eve", level=Level.SERVICE))
    operator = Caller(hub, hub.token("root", hub="*", level=Level.ADMIN))
    route = {"method": "pay.*", "url": service.url, "headers": {"X-Key": "k"}}
    route["addresses"] = "loopback"
    assert (await operator("PUT", path, route)).status == 201
    shown = await admin("GET", path)
    assert shown.json["headers"] == {"X-Key": "(hidden)"}
    changed = {**shown.json, "timeoutSeconds": 3}
    assert (await admin("PUT", path, changed)).status == 200
    assert (await post(hub, "pay.now", b"x", token(hub, "pay.*")))[0] == 200
    assert service.calls[-1][0]["X-Key"] == "k"
    for wrong in ({"url": "ftp://x"}, {"url": "nats:a..b"}, {"url": "nats:a.>"}, {"method": ""}):
        assert (await admin("PUT", path, {**route, **wrong})).status == 400
    assert (await admin("DELETE", path)).status == 204
    assert (await post(hub, "pay.now", b"x", token(hub, "pay.*")))[0] == 404


async def test_services_call_without_a_list_of_methods(hub: RunningHub) -> None:
    mine = hub.token(None, level=Level.SERVICE)
    assert (await post(hub, "cart.add", b"x", mine))[0] == 200


def test_errors_of_services_say_whether_to_try_again() -> None:
    retry: dict[type[HubbubError], bool] = {
        errors.ServiceNotFound: False,
        errors.ServiceRefused: False,
        errors.ServiceTimeout: True,
        errors.ServiceUnavailable: True,
        errors.ServiceFailed: True,
    }
    assert {kind: kind.retry for kind in retry} == retry
