"""Services behind NATS: calls, auth providers, streams and the admin API, over a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import nats
import pytest
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Value
from nats.aio.client import Client
from nats.aio.msg import Msg

from benchmarks.servers import free_port
from harness.nats import nats_server, open_nats_server
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.topics import TopicSocket, until
from hubbub.domain import notices, requests
from hubbub.domain.messages import BINARY, JSON, TEXT
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.rules import AuthProvider, HubConfiguration, RpcRoute
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.json.codec import JSON_V1
from hubbub.protocols.protobuf.codec import PROTOBUF_V1
from hubbub.server.nats_server import USER, NatsServer

Answer = Callable[[Msg], Awaitable[bytes]]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with nats_server(tmp_path, jetstream=True) as running:
        yield running


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[Client]:
    """As a service connects."""
    client = await nats.connect(
        server.url, user=USER, password=server.password, reconnect_time_wait=0.05
    )
    yield client
    await client.close()


@pytest.fixture
async def hub(start_hub: StartHub, server: NatsServer) -> RunningHub:
    return await start(start_hub, server, open_hub())


async def start(
    start_hub: StartHub, server: NatsServer, *hubs: HubConfiguration, **more: object
) -> RunningHub:
    broker = {
        "broker__host": server.url,
        "broker__user": USER,
        "broker__password": server.password,
    }
    return await start_hub(*hubs, **{**broker, **more})


async def settle(bus: Client) -> None:
    """The server knows of the subscriptions; see `NatsConnection.settle`."""
    await bus.flush()
    await bus.flush()


async def answering(bus: Client, subject: str, answer: Answer) -> None:
    async def take(message: Msg) -> None:
        await message.respond(await answer(message))

    await bus.subscribe(subject, cb=take)
    await settle(bus)


async def call(
    hub: RunningHub, method: str, payload: bytes = b"", kind: str = BINARY, seconds: float = 0
) -> Any:
    identity = Identity(user_id="ann", rpcs=("*",))
    token = hub.server.tokens.issue("acme", identity, 600)
    async with await TopicSocket.open(hub, PROTOBUF_V1, token=token) as socket:
        return await socket.ask(requests.Call, method, payload, kind, seconds)


# -- calls ----------------------------------------------------------------------------------------


@pytest.mark.spec("RPC-01")
async def test_a_service_that_listens_on_the_subject_answers(hub: RunningHub, bus: Client) -> None:
    heard: list[pb.ServiceCall] = []

    async def answer(message: Msg) -> bytes:
        heard.append(pb.ServiceCall.FromString(message.data))
        return pb.ServiceAnswer(payload=b'{"n":2}', content_type=JSON).SerializeToString()

    await answering(bus, "hubbub.rpc.acme.cart.add", answer)
    reply = await call(hub, "cart.add", b"hello", TEXT)
    assert isinstance(reply, notices.CallAnswered)
    assert (reply.payload, reply.content_type) == (b'{"n":2}', JSON)
    (said,) = heard
    assert (said.hub_id, said.method, said.payload) == ("acme", "cart.add", b"hello")
    assert (said.user_id, said.content_type) == ("ann", TEXT)
    assert said.session_id


@pytest.mark.spec("RPC-01")
async def test_a_route_can_lead_to_another_subject(
    start_hub: StartHub, server: NatsServer, bus: Client
) -> None:
    routes = {"r": RpcRoute("pay.*", "nats:billing.pay")}
    acme = msgspec.structs.replace(open_hub(nats_subjects=("billing",)), rpc_routes=routes)
    hub = await start(start_hub, server, acme)

    async def answer(message: Msg) -> bytes:
        return pb.ServiceAnswer(payload=message.subject.encode()).SerializeToString()

    await answering(bus, "billing.pay", answer)
    assert (await call(hub, "pay.now")).payload == b"billing.pay"


@pytest.mark.spec("RPC-01")
async def test_what_goes_wrong_with_a_service_is_told_apart(hub: RunningHub, bus: Client) -> None:
    released = asyncio.Event()

    async def refuse(_: Msg) -> bytes:
        return pb.ServiceAnswer(error="sold out").SerializeToString()

    async def babble(_: Msg) -> bytes:
        return b"\xff\xff nonsense"

    async def flood(_: Msg) -> bytes:
        return pb.ServiceAnswer(payload=b"x" * 300_000).SerializeToString()

    async def lie(_: Msg) -> bytes:
        return pb.ServiceAnswer(payload=b"\xff", content_type="text/x\x00").SerializeToString()

    async def hang(_: Msg) -> bytes:
        await released.wait()
        return b""

    for name, answer in (
        ("refuse", refuse), ("babble", babble), ("flood", flood), ("lie", lie), ("hang", hang),
    ):  # fmt: skip
        await answering(bus, f"hubbub.rpc.acme.{name}", answer)
    for name, code, message in (
        ("refuse", "service_refused", "sold out"),
        ("babble", "service_failed", "cannot be read"),
        ("flood", "service_failed", "more than"),
        ("lie", "service_failed", "should not"),
        ("hang", "service_timeout", "0.2 s"),
        ("nobody", "service_unavailable", "nobody listens"),
    ):
        reply = await call(hub, name, seconds=0.2 if name == "hang" else 5)
        assert isinstance(reply, notices.Failed), name
        assert reply.error.code == code
        assert message in reply.error.message
    released.set()


@pytest.mark.spec("RPC-01")
async def test_errors_in_the_form_of_nats_micro_are_understood(
    hub: RunningHub, bus: Client
) -> None:
    async def take(message: Msg) -> None:
        code = message.subject.rpartition(".")[2]
        headers = {"Nats-Service-Error": "out of stock", "Nats-Service-Error-Code": code}
        await bus.publish(message.reply, b"", headers=headers)

    await bus.subscribe("hubbub.rpc.acme.code.*", cb=take)
    await settle(bus)
    refused, failed = await call(hub, "code.409"), await call(hub, "code.500")
    assert (refused.error.code, refused.error.message) == ("service_refused", "out of stock")
    assert failed.error.code == "service_failed"
    assert "out of stock" not in failed.error.message


@pytest.mark.spec("RPC-01")
async def test_while_nats_is_away_calls_fail_at_once_and_work_again_after(
    hub: RunningHub, server: NatsServer
) -> None:
    broker = hub.server.programs.broker
    assert broker is not None
    await server.kill()
    await until(lambda: not broker.connected)
    began = asyncio.get_running_loop().time()
    assert (await call(hub, "cart.add")).error.code == "service_unavailable"
    assert asyncio.get_running_loop().time() - began < 2
    await server.start()
    await until(lambda: broker.connected)
    assert (await call(hub, "cart.add")).error.message.endswith("nobody listens on its subject")


@pytest.mark.spec("RPC-01")
@pytest.mark.parametrize(
    ("method", "subject"),
    [
        ("cart.add", "cart.add"),
        ("a b", "a%20b"),
        ("..", "%2E%2E"),
        ("a.", "a%2E"),
        ("größe", "gr%C3%B6%C3%9Fe"),
        ("x>y", "x%3Ey"),
        ("$SYS", "%24SYS"),
    ],
)
async def test_no_method_reaches_another_subject_than_its_own(
    hub: RunningHub, bus: Client, method: str, subject: str
) -> None:
    async def answer(message: Msg) -> bytes:
        return pb.ServiceAnswer(payload=message.subject.encode()).SerializeToString()

    await answering(bus, "hubbub.rpc.acme.>", answer)
    reply = await call(hub, method)
    assert getattr(reply, "payload", reply) == f"hubbub.rpc.acme.{subject}".encode()


# -- auth providers -------------------------------------------------------------------------------


def with_provider(seconds: float = 2.0) -> HubConfiguration:
    hub = open_hub(auth_provider="p", nats_subjects=("accounts.verify",))
    provider = AuthProvider("nats:accounts.verify", {"X-Key": "k"}, seconds)
    return msgspec.structs.replace(hub, auth_providers={"p": provider})


async def authenticate(hub: RunningHub) -> dict[str, Any]:
    socket = await hub.socket()
    await socket.send("Auth", reqID=1, credentials={"text": "secret"})
    return await socket.find("Auth")


@pytest.mark.spec("LIVE-06")
@pytest.mark.parametrize("form", ["protobuf", "json"])
async def test_an_auth_provider_over_nats_says_who_it_is(
    start_hub: StartHub, server: NatsServer, bus: Client, form: str
) -> None:
    heard: list[pb.ProviderRequest] = []

    async def answer(message: Msg) -> bytes:
        heard.append(pb.ProviderRequest.FromString(message.data))
        if form == "json":
            verdict = {"success": True, "userID": "ann", "rpcs": ["cart.*"], "extra": {"a": 1},
                       "channels": [{"channel": "room:*", "publish": True}],
                       "expiresIn": 60}  # fmt: skip
            return json.dumps(verdict).encode()
        return pb.ProviderAnswer(
            success=True,
            user_id="ann",
            rpcs=["cart.*"],
            extra=b'{"a":1}',
            channels=[pb.ChannelAuthorization(channel="room:*", publish=True)],
            expires_in=60,
        ).SerializeToString()

    await answering(bus, "accounts.verify", answer)
    hub = await start(start_hub, server, with_provider())
    result = await authenticate(hub)
    assert (result["success"], result["userID"], result["extra"]) == (True, "ann", {"a": 1})
    assert result["rpcAuthorizations"] == ["cart.*"]
    assert result["channelAuthorizations"] == [
        {"channel": "room:*", "publish": True, "subscribe": False}
    ]
    assert result["expiresAt"]
    (said,) = heard
    assert (said.hub_id, said.credentials, dict(said.headers)) == (
        "acme",
        b"secret",
        {"X-Key": "k"},
    )
    assert said.session_id


@pytest.mark.spec("LIVE-06")
async def test_a_provider_that_refuses_babbles_hangs_or_is_not_there_gives_no_access(
    start_hub: StartHub, server: NatsServer, bus: Client
) -> None:
    hub = await start(start_hub, server, with_provider(0.3))
    assert (await authenticate(hub))["error"]["code"] == "auth_provider_failed"
    replies: list[bytes] = []

    async def take(message: Msg) -> None:
        if replies:
            await message.respond(replies[0])

    await bus.subscribe("accounts.verify", cb=take)
    await settle(bus)
    assert "0.3 s" in (await authenticate(hub))["error"]["message"]
    for body, code in (
        (pb.ProviderAnswer(message="wrong").SerializeToString(), "not_authenticated"),
        (b'{"success": false}', "not_authenticated"),
        (b"", "not_authenticated"),
        (pb.ProviderAnswer(success=True).SerializeToString(), "auth_provider_failed"),
        (b"\xff\xfe", "auth_provider_failed"),
        (b'{"success": 1}', "auth_provider_failed"),
        (pb.ProviderAnswer(success=True, user_id="x" * 70_000).SerializeToString(),
         "auth_provider_failed"),
    ):  # fmt: skip
        replies[:] = [body]
        result = await authenticate(hub)
        assert (result["success"], result["error"]["code"]) == (False, code)


# -- streams --------------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-18")
async def test_events_are_in_jetstream_when_they_are_acknowledged(
    hub: RunningHub, bus: Client
) -> None:
    token = hub.token(level=Level.SERVICE)
    async with await TopicSocket.open(hub, JSON_V1, token=token) as socket:
        done = await socket.ask(requests.Enqueue, "clicks.buy", "e", b'{"a":1}', JSON)
        assert isinstance(done, notices.Enqueued)
        (session,) = hub.server.node.hub("acme").sessions
    stream = bus.jetstream()
    info = await stream.stream_info("hubbub_streams")
    assert info.state.messages == 1
    assert (info.config.max_age, info.config.max_bytes) == (30 * 86_400, 10 << 30)
    assert info.config.subjects == ["hubbub.streams.>"]
    kept = await stream.get_msg("hubbub_streams", seq=1)
    assert kept.subject == "hubbub.streams.acme.clicks.buy"
    assert kept.data is not None
    event = pb.StreamEvent.FromString(kept.data)
    assert (event.hub_id, event.stream, event.event) == ("acme", "clicks.buy", "e")
    assert (event.payload, event.content_type) == (b'{"a":1}', JSON)
    assert (event.user_id, event.session_id, event.msg_id) == ("ann", session, done.message_id)


@pytest.mark.spec("LIVE-18")
async def test_without_jetstream_streams_are_in_the_journal_or_a_clear_error(
    start_server: StartHub, tmp_path: Path
) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    async with nats_server(folder) as plain:
        for target, fails in (("auto", False), ("jetstream", True)):
            hub = await start(start_server, plain, open_hub(), streams__target=target)
            token = hub.token(level=Level.SERVICE)
            async with await TopicSocket.open(hub, JSON_V1, token=token) as socket:
                done = await socket.ask(requests.Enqueue, "clicks", "e", b"1", JSON)
            assert isinstance(done, notices.Failed) == fails
            if fails:
                assert done.error.code == "stream_unavailable"
            await hub.server.stop()


@pytest.mark.spec("LIVE-18")
async def test_a_stream_that_the_operator_made_is_used_as_it_is(
    hub: RunningHub, bus: Client
) -> None:
    stream = bus.jetstream()
    await stream.add_stream(name="mine", subjects=["hubbub.streams.acme.>"])
    token = hub.token(level=Level.SERVICE)
    async with await TopicSocket.open(hub, JSON_V1, token=token) as socket:
        assert isinstance(
            await socket.ask(requests.Enqueue, "clicks", "e", b"1", JSON), notices.Enqueued
        )
    assert (await stream.stream_info("mine")).state.messages == 1


# -- the admin API --------------------------------------------------------------------------------


async def ask(
    bus: Client,
    operation: str,
    token: str = "",
    body: Any = None,
    if_match: str = "",
    query: dict[str, str] | None = None,
    **path: str,
) -> tuple[pb.AdminReply, Any, dict[str, str]]:
    request = pb.AdminRequest(token=token, path=path, query=query or {}, if_match=if_match)
    if body is not None:
        request.body.CopyFrom(json_format.ParseDict(body, Value()))
    message = await bus.request(f"hubbub.admin.{operation}", request.SerializeToString(), timeout=5)
    reply = pb.AdminReply.FromString(message.data)
    found = json_format.MessageToDict(reply.body) if reply.HasField("body") else None
    return reply, found, dict(message.headers or {})


@pytest.mark.spec("ADMIN-02", "NOTE-01")
async def test_a_service_does_over_nats_what_the_requirements_ask_for(
    hub: RunningHub, bus: Client
) -> None:
    """RF29 to RF38, one after the other."""
    token = hub.token(None, level=Level.SERVICE)
    socket = await hub.socket()
    await socket.subscribe("news", "notification:ann")

    publish = pb.AdminPublishRequest(
        token=token,
        hub_id="acme",
        publishes=[
            pb.PubRequestInfo(channel="news", event="e", payload=b"hi", content_type=TEXT),
            pb.PubRequestInfo(channel="bad*name", payload=b"x"),
        ],
    )
    message = await bus.request("hubbub.admin.publish", publish.SerializeToString(), timeout=5)
    reply = pb.AdminReply.FromString(message.data)
    assert reply.ack
    assert [each.success for each in reply.published] == [True, False]
    assert reply.published[1].error.code == "invalid_name"
    delivered = await socket.find("Publish")
    assert (delivered["payload"], delivered["msgID"]) == (
        {"text": "hi"},
        reply.published[0].msg_id,
    )

    where: dict[str, Any] = {"token": token, "hub": "acme"}
    news = {"notifications": [{"event": "e", "payload": {"json": {"n": 1}}}, {"event": "e"}]}
    reply, made, _ = await ask(
        bus, "createNotifications", body=news, channel="notification:ann", **where
    )
    assert reply.ack
    assert [each["success"] for each in made["created"]] == [True, False]
    arrived = (await socket.find("NotificationNew"))["notification"]
    assert (arrived["id"], arrived["payload"]) == (made["created"][0]["id"], {"json": {"n": 1}})
    _, marked, _ = await ask(
        bus, "markNotificationsRead", body={"all": True}, channel="notification:ann", **where
    )
    assert marked == {"marked": 1, "unread": 0, "unknown": []}
    assert (await ask(bus, "putRules", body={"presence": True, "maxAgeSeconds": 60}, rules="r",
                      **where))[0].ack  # fmt: skip
    assert (await ask(bus, "putNamespace", body={"rules": "r"}, namespace="room", **where))[0].ack
    assert (await ask(bus, "putChannelSettings", body={"rules": "r"}, channel="c", **where))[0].ack
    put = await ask(bus, "putChannelMetadata", body={"metadata": {"a": [1, 2.5]}}, channel="c",
                    **where)  # fmt: skip
    assert put[0].ack
    _, found, _ = await ask(bus, "getChannelMetadata", channel="c", **where)
    assert found == {"metadata": {"a": [1, 2.5]}}
    provider = {"url": "nats:hubbub.auth.acme.verify", "headers": {"X": "secret"}}
    _, made, _ = await ask(bus, "putAuthProvider", body=provider, provider="p", **where)
    assert made["headers"] == {"X": "(hidden)"}
    settings = {"allowAnonymous": True, "defaultRules": "default", "authProvider": "p"}
    assert (await ask(bus, "putHubSettings", body=settings, **where))[0].ack
    assert (await ask(bus, "deleteNamespace", namespace="room", **where))[0].ack
    configuration = hub.server.directory.get("acme")
    assert configuration.rules["r"].max_age_seconds == 60
    assert configuration.namespaces == {}
    assert configuration.channels["c"].rules == "r"
    assert configuration.settings.auth_provider == "p"


@pytest.mark.spec("ADMIN-02")
async def test_failures_are_nacks_with_the_reason(hub: RunningHub, bus: Client) -> None:
    service = hub.token(None, level=Level.SERVICE)
    client = hub.token("ann")
    where: dict[str, Any] = {"hub": "acme", "rules": "r"}
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("putRules", {"body": {}, **where}, "not_authenticated"),
        ("putRules", {"token": "nonsense", "body": {}, **where}, "invalid_token"),
        ("putRules", {"token": client, "body": {}, **where}, "not_permitted"),
        ("putRules", {"token": service, "body": {"x": 1}, **where}, "bad_request"),
        ("putRules", {"token": service, "body": {}, "hub": "acme"}, "bad_request"),
        ("putRules", {"token": service, "body": {}, "if_match": '"7"', **where},
         "version_mismatch"),
        ("getRules", {"token": service, **where}, "not_found"),
        ("listRules", {"token": service, "query": {"limt": "3"}, "hub": "acme"}, "bad_request"),
        ("listHubs", {"token": service}, "invalid_token"),
        ("doWonders", {"token": service}, "not_found"),
    ]  # fmt: skip
    for operation, more, code in cases:
        reply, _, headers = await ask(bus, operation, **more)
        assert not reply.ack
        assert reply.error.code == code, (operation, reply)
        assert reply.error.message
        assert headers["Nats-Service-Error"].startswith(code)
        assert headers["Nats-Service-Error-Code"].startswith("4")
    message = await bus.request("hubbub.admin.putRules", b"\xff\xff", timeout=5)
    assert pb.AdminReply.FromString(message.data).error.code == "malformed"


@pytest.mark.spec("ADMIN-02")
async def test_versions_and_pages_work_as_over_http(hub: RunningHub, bus: Client) -> None:
    token = hub.token(None, level=Level.SERVICE)
    made, _, _ = await ask(bus, "putRules", token, {}, hub="acme", rules="a")
    changed, _, _ = await ask(
        bus, "putRules", token, {"retain": True}, f'"{made.version}"', hub="acme", rules="a"
    )
    assert changed.version > made.version
    _, page, _ = await ask(bus, "listRules", token, query={"limit": "1"}, hub="acme")
    assert [each["name"] for each in page["items"]] == ["a"]
    assert page["next"] == "a"


@pytest.mark.spec("ADMIN-02", "SEC-02")
async def test_over_nats_too_a_service_makes_nothing_that_is_more_than_itself(
    hub: RunningHub, bus: Client
) -> None:
    token = hub.token(None, level=Level.SERVICE)
    order = {"userID": "x", "level": "service"}
    refused, _, _ = await ask(bus, "issueToken", token, order, hub="acme")
    assert refused.error.code == "not_permitted"
    _, settings, _ = await ask(bus, "getHubSettings", token, hub="acme")
    issuer = {"issuer": "https://x.example", "audience": "a", "level": "service"}
    issuer["jwksUrl"] = "https://x.example/keys"
    changed = {**settings, "trustedIssuers": [issuer]}
    refused, _, _ = await ask(bus, "putHubSettings", token, changed, hub="acme")
    assert refused.error.code == "not_permitted"


@pytest.mark.spec("ADMIN-02")
async def test_nats_tools_find_the_hub_and_its_endpoints(hub: RunningHub, bus: Client) -> None:
    token = hub.token(None, level=Level.SERVICE)
    await ask(bus, "listRules", token, hub="acme")
    await ask(bus, "listRules", "", hub="acme")
    ping = json.loads((await bus.request("$SRV.PING", b"", timeout=5)).data)
    assert (ping["type"], ping["name"]) == ("io.nats.micro.v1.ping_response", "hubbub")
    info = json.loads((await bus.request("$SRV.INFO.hubbub", b"", timeout=5)).data)
    assert info["type"] == "io.nats.micro.v1.info_response"
    subjects = {each["name"]: each["subject"] for each in info["endpoints"]}
    assert subjects["publish"] == "hubbub.admin.publish"
    assert subjects["putAuthProvider"] == "hubbub.admin.putAuthProvider"
    subject = f"$SRV.STATS.hubbub.{ping['id']}"
    stats = json.loads((await bus.request(subject, b"", timeout=5)).data)
    (listed,) = [each for each in stats["endpoints"] if each["name"] == "listRules"]
    assert (listed["num_requests"], listed["num_errors"]) == (2, 1)
    assert listed["last_error"] == "401:not_authenticated"
    assert listed["average_processing_time"] > 0


@pytest.mark.spec("ADMIN-02")
async def test_the_admin_api_on_nats_can_be_switched_off(
    start_hub: StartHub, server: NatsServer, bus: Client
) -> None:
    await start(start_hub, server, open_hub(), admin__nats=False)
    with pytest.raises(nats.errors.NoRespondersError):
        await bus.request("hubbub.admin.listHubs", b"", timeout=5)


@pytest.mark.spec("ADMIN-02")
async def test_an_answer_that_nats_does_not_take_is_a_nack(
    start_server: StartHub, tmp_path: Path
) -> None:
    port = free_port()
    async with open_nats_server(tmp_path, port, max_payload_bytes=8 * 1024):
        hub = await start_server(open_hub(), broker__host=f"nats://127.0.0.1:{port}")
        bus = await nats.connect(f"nats://127.0.0.1:{port}")
        token = hub.token(None, level=Level.SERVICE)
        large = {"metadata": {"text": "x" * 700}}
        for number in range(100):
            reply, _, _ = await ask(
                bus, "putChannelMetadata", token, large, hub="acme", channel=f"c{number}"
            )
            assert reply.ack
        reply, _, _ = await ask(bus, "listChannels", token, hub="acme")
        assert (reply.ack, reply.error.code) == (False, "too_large")
        assert (await ask(bus, "listChannels", token, query={"limit": "5"}, hub="acme"))[0].ack
        await bus.close()


# -- faults and figures ---------------------------------------------------------------------------


@pytest.mark.spec("LIVE-18")
async def test_what_jetstream_confirmed_is_there_after_it_was_killed(
    hub: RunningHub, server: NatsServer, bus: Client
) -> None:
    token = hub.token(level=Level.SERVICE)
    kept: list[str] = []
    failed = 0
    broker = hub.server.programs.broker
    assert broker is not None
    async with await TopicSocket.open(hub, JSON_V1, token=token) as socket:
        for number in range(40):
            if number == 20:
                await server.kill()
                await until(lambda: not broker.connected)
            if number == 25:
                await server.start()
                await until(lambda: broker.connected)
            done = await socket.ask(requests.Enqueue, "clicks", "e", b"%d" % number, JSON)
            if isinstance(done, notices.Enqueued):
                kept.append(done.message_id)
            else:
                assert done.error.code == "stream_unavailable"
                failed += 1
    assert len(kept) >= 35 - 1
    assert failed >= 5
    await until(lambda: bus.is_connected)
    stream = bus.jetstream()
    count = (await stream.stream_info("hubbub_streams")).state.messages
    there = [await stream.get_msg("hubbub_streams", seq=each + 1) for each in range(count)]
    ids = [pb.StreamEvent.FromString(each.data or b"").msg_id for each in there]
    assert [each for each in ids if each in kept] == kept
    assert len(ids) == len(set(ids))


@pytest.mark.spec("RPC-01")
async def test_calls_and_events_are_counted(
    hub: RunningHub, server: NatsServer, bus: Client
) -> None:
    async def refuse(_: Msg) -> bytes:
        return pb.ServiceAnswer(error="no").SerializeToString()

    await answering(bus, "hubbub.rpc.acme.no", refuse)
    await call(hub, "no")
    await call(hub, "nobody")
    page = await hub.metrics()
    assert 'hubbub_calls_total{hub="acme"} 2.0' in page
    assert 'hubbub_calls_failed_total{hub="acme"} 1.0' in page
    assert "hubbub_nats_connected 1.0" in page
