"""The whole envelope at every door: what one publisher says in it, every receiver reads."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from harness.callbacks import eventually
from harness.command import hubbub, running_hubbub
from harness.journal import QUIET, journalled
from harness.raw import RawConnection
from harness.receivers import Receiver
from harness.running_hub import RunningHub, Socket, StartHub, open_hub
from harness.topics import STORED, HttpTopic, topic_hub
from harness.zeromq import ANY_PORT, ZeroMqClients, zeromq_clients
from hubbub.client import Client, Message, Options, connect, sync
from hubbub.client.envelope import fields_of
from hubbub.client.webhooks.receiver import Receiver as WebhookReceiver
from hubbub.domain.envelope import NUMBERS, OBJECTS, TEXTS
from hubbub.domain.envelope_headers import to_headers
from hubbub.domain.fields import wire_name
from hubbub.domain.journal import PUBLISHED
from hubbub.domain.messages import Attributes
from hubbub.domain.permissions import Level
from hubbub.journal.slices import _attributes

pytestmark = pytest.mark.spec("LIVE-20")

Fields = dict[str, Any]
Send = Callable[["Stage", Attributes], Awaitable[str]]
"""Publishes a message with these attributes; answers its id."""
SAID = Attributes(
    subtype="question",
    author="Änne Öz",
    sender="svc",
    receiver="bob 50%",
    conversation_id="c-1",
    priority=0,
    relevant_until=1_900_000_000_000,
    ttl=3_600_000,
    language="de",
    location={"lat": 48.1, "lng": -11.5, "name": "zu Hause"},
    headers={"plain": "x", "rich": [1, {"a": None}], "ü": True},
    delivery_policy="at_least_one",
)


def fields(attributes: Attributes | None) -> Fields:
    """As they are in JSON."""
    return {wire_name(k): v for k, v in fields_of(attributes or Attributes()).items()}


WIRE = frozenset(wire_name(name) for name in (*TEXTS, *NUMBERS, *OBJECTS))


def among(shown: Fields) -> Fields:
    """Those of the members of a JSON message that are fields of the envelope."""
    return {name: value for name, value in shown.items() if name in WIRE}


class Stage:
    """A hub with a service that publishes, and somebody at each door who reads."""

    def __init__(self, hub: RunningHub, clients: ZeroMqClients) -> None:
        self.hub = hub
        self.token = hub.token("svc", level=Level.SERVICE)
        self.zeromq = clients.make()
        self.topic = HttpTopic(hub, "room", self.token)
        self.env = {
            "HUBBUB_URL": f"http://{hub.address}",
            "HUBBUB_HUB": "acme",
            "HUBBUB_TOKEN": self.token,
        }

    def connect(self, encoding: str = "json") -> Client:
        options = Options(encoding=encoding)  # type: ignore[arg-type]
        return connect(f"ws://{self.hub.address}", hub="acme", token=self.token, options=options)

    async def http(self, method: str, path: str, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        async with self.hub.http.request(
            method, f"/v1/hubs/acme{path}", headers=headers, **more
        ) as answer:
            shown = await answer.json()
            assert answer.status < 300, shown
            return shown


@pytest.fixture
async def stage(start_server: StartHub) -> AsyncIterator[Stage]:
    configuration = topic_hub(callback_addresses="loopback")
    rules = {
        name: msgspec.structs.replace(each, store_by_default=True)
        for name, each in configuration.rules.items()
    }
    configuration = msgspec.structs.replace(configuration, rules=rules)
    hub = await start_server(configuration, zeromq__endpoint=ANY_PORT, **QUIET)
    async with zeromq_clients(hub) as clients:
        yield Stage(hub, clients)


# -- ways in --------------------------------------------------------------------------------------


async def over_websocket_json(stage: Stage, said: Attributes) -> str:
    socket = await stage.hub.socket(token=stage.token)
    item = {"channel": "room", "payload": {"text": "hi"}, "reqID": 1, **fields(said)}
    await socket.send("Publish", publishes=[item])
    (result,) = (await socket.find("Ack"))["published"]
    assert result["success"], result
    return str(result["msgID"])


async def over_protobuf(stage: Stage, said: Attributes) -> str:
    async with stage.connect("protobuf") as client:
        return (await client.publish("room", "hi", **fields_of(said))).id


async def over_http(stage: Stage, said: Attributes) -> str:
    headers = {"Content-Type": "text/plain", **dict(to_headers(said))}
    shown = await stage.http("POST", "/channels/room/messages", data=b"hi", headers=headers)
    return str(shown["msgID"])


async def over_http_in_a_batch(stage: Stage, said: Attributes) -> str:
    item = {"channel": "room", "payload": {"text": "hi"}, **fields(said)}
    shown = await stage.http("POST", "/messages", json={"publishes": [item]})
    (result,) = shown["published"]
    assert result["success"], result
    return str(result["msgID"])


async def by_a_put_over_http(stage: Stage, said: Attributes) -> str:
    headers = {"Content-Type": "text/plain", **dict(to_headers(said))}
    shown = await stage.http(
        "POST", "/topics/room/messages?producer=p&sequence=1", data=b"hi", headers=headers
    )
    return str(shown["msgID"])


async def by_a_put_over_zeromq(stage: Stage, said: Attributes) -> str:
    more = json.dumps({"contentType": "text/plain", **fields(said)})
    name, _, _, about = await stage.zeromq.ask("put", stage.token, "room", b"hi", more)
    assert name == b"PutReply", about
    return str(json.loads(about)["msgID"])


async def by_the_command(stage: Stage, said: Attributes, command: str = "publish") -> str:
    options: list[str] = []
    for name, value in fields_of(said).items():
        text = value if isinstance(value, str) else json.dumps(value)
        options += [f"--{name.replace('_', '-')}", text]
    done = await hubbub(command, "room", "hi", *options, env=stage.env)
    assert done.code == 0, done.err
    return done.out.split()[0]


async def by_the_put_command(stage: Stage, said: Attributes) -> str:
    return await by_the_command(stage, said, "put")


async def by_the_shell(stage: Stage, said: Attributes) -> str:
    words = ["put"]
    for name, value in fields_of(said).items():
        text = value if isinstance(value, str) else json.dumps(value)
        words += [f"--{name.replace('_', '-')}", shlex.quote(text)]
    line = " ".join([*words, "room", "hi"])
    done = await hubbub("shell", stdin=line.encode(), env=stage.env)
    assert done.code == 0, done.err
    return done.out.split()[1]


async def by_the_blocking_client(stage: Stage, said: Attributes) -> str:
    def publish() -> str:
        url = f"ws://{stage.hub.address}"
        with sync.connect(url, hub="acme", token=stage.token) as client:
            return client.publish("room", "hi", **fields_of(said)).id

    return await asyncio.to_thread(publish)


SENDERS: tuple[Send, ...] = (
    over_websocket_json,
    over_protobuf,
    over_http,
    over_http_in_a_batch,
    by_a_put_over_http,
    by_a_put_over_zeromq,
    by_the_command,
    by_the_put_command,
    by_the_shell,
    by_the_blocking_client,
)


async def converse(stage: Stage) -> list[tuple[str, Fields]]:
    """A message over each way in, each of which answers the one before: ids and envelopes."""
    sent: list[tuple[str, Fields]] = []
    for send in SENDERS:
        said = SAID
        if sent:
            said = msgspec.structs.replace(SAID, refers_to=sent[-1][0], subtype="answer")
        sent.append((await send(stage, said), fields(said)))
    return sent


# -- ways out -------------------------------------------------------------------------------------


def of_client(messages: list[Message]) -> list[tuple[str, Fields]]:
    return [(message.id, fields(message.attributes)) for message in messages]


def of_json(messages: list[Any]) -> list[tuple[str, Fields]]:
    return [(message["msgID"], among(message)) for message in messages]


async def streamed(connection: RawConnection, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        block = (await connection.until(b"\n\n")).decode()
        lines = block.splitlines()
        if "data: " in block and not any(line.startswith("event: ") for line in lines):
            (data,) = [line[6:] for line in lines if line.startswith("data: ")]
            found.append(json.loads(data))
    return found


async def test_a_conversation_comes_out_the_same_at_every_door(
    stage: Stage, tmp_path: Path
) -> None:
    hub, count = stage.hub, len(SENDERS)
    socket = await hub.socket(token=stage.token)
    await socket.subscribe("room")
    for name in ("http", "zeromq", "json", "protobuf", "command"):
        await stage.topic.subscribe(name)
    async with (
        Receiver() as receiver,
        await RawConnection.open(hub.address) as stream,
        stage.connect("json") as json_client,
        stage.connect("protobuf") as protobuf_client,
        running_hubbub("subscribe", "room", "--json", env=stage.env) as command,
    ):
        await command.remark("subscribed to room")
        await stage.http("POST", "/webhooks", json={"channel": "room", "callback": receiver.url})
        request = f"GET /v1/hubs/acme/events?channel=room HTTP/1.1\r\nHost: {hub.address}\r\n\r\n"
        stream.send(request.encode())
        await stream.until(b"event: Subscribe")
        await stream.until(b"\n\n")
        live = await protobuf_client.subscribe("room")
        sent = await converse(stage)
        # live
        heard = [await socket.expect("Publish") for _ in range(count)]
        assert of_json(heard) == sent
        assert of_json(await streamed(stream, count)) == sent
        assert of_client([await anext(live) for _ in range(count)]) == sent
        assert of_json([json.loads(await command.line()) for _ in range(count)]) == sent
        # history
        page = await stage.http("GET", "/channels/room/messages")
        assert of_json(page["messages"]) == sent
        for client in (json_client, protobuf_client):
            assert of_client(list((await client.history("room")).messages)) == sent
        told = await hubbub("history", "room", "--json", env=stage.env)
        assert of_json([json.loads(line) for line in told.out.splitlines()]) == sent
        # topics
        articles = (await stage.topic.get("http", limit=100)).json["messages"]
        assert of_json(articles) == sent
        for name, client in (("json", json_client), ("protobuf", protobuf_client)):
            assert of_client([*await client.topics.get("room", name, limit=100)]) == sent
        frames = await stage.zeromq.get(stage.token, "room", subscription="zeromq", limit=100)
        abouts = [json.loads(frame) for frame in frames[4::4]]
        assert of_json(abouts) == sent
        got = await hubbub(
            "get", "room", "--name", "command", "--limit", "100", "--json", env=stage.env
        )
        assert of_json([json.loads(line) for line in got.out.splitlines()]) == sent
        # webhooks
        read = WebhookReceiver().read
        requests = [read(each.headers, each.body) for each in await receiver.got(count)]
        assert [(each.message_id, fields(each.attributes)) for each in requests] == sent
    # the journal
    ids = [message_id for message_id, _ in sent]
    events = await journalled(
        tmp_path / "data" / "journal",
        lambda events: {e.message_id for e in events if e.kind == PUBLISHED} >= set(ids),
    )
    rows = {e.message_id: msgspec.structs.asdict(e) for e in events if e.kind == PUBLISHED}
    kept = [msgspec.convert(_attributes(rows[each]), Attributes) for each in ids]
    assert [(each, fields(found)) for each, found in zip(ids, kept, strict=True)] == sent


async def test_a_person_sees_the_envelope_beside_the_message(stage: Stage) -> None:
    await over_http(stage, Attributes(conversation_id="c-1", headers={"k": 1}))
    told = await hubbub("history", "room", env=stage.env)
    assert told.out.endswith('[conversationID=c-1 headers={"k":1}]  hi\n'), told.out


# -- who may say what -----------------------------------------------------------------------------


async def test_only_a_service_names_another_sender(stage: Stage) -> None:
    service, stage.token = stage.token, stage.hub.token("ann")
    async with stage.connect() as client:
        await client.publish("room", "hi", sender="ann")
        for publish in (client.publish, client.topics.put):
            with pytest.raises(Exception, match="only a service may name another sender"):
                await publish("room", "hi", sender="bob")
    headers = {"Authorization": f"Bearer {stage.token}", "Hubbub-Sender": "bob"}
    for path in ("/v1/hubs/acme/channels/room/messages", "/v1/hubs/acme/topics/room/messages"):
        async with stage.hub.http.post(path, data=b"hi", headers=headers) as answer:
            assert answer.status == 403
            assert (await answer.json())["error"]["code"] == "not_permitted"
    stage.token = service
    assert len((await stage.http("GET", "/channels/room/messages"))["messages"]) == 1


async def test_a_security_token_is_taken_and_shown_to_nobody(
    stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "s3cr3t-of-nobody"
    caplog.set_level("DEBUG", "hubbub")
    socket = await stage.hub.socket(token=stage.token)
    await socket.subscribe("room")
    item = {"channel": "room", "payload": {"text": "hi"}, "reqID": 1, "securityToken": secret}
    await socket.send("Publish", publishes=[item])
    heard = [await socket.next(), await socket.next()]
    async with stage.connect("protobuf") as client:
        receipt = await client.publish("room", "hi", security_token=secret, author="a")
        await client.topics.put("room", "hi", security_token=secret)
    headers = {"Hubbub-Security-Token": secret}
    for path in ("/channels/room/messages", "/topics/room/messages"):
        await stage.http("POST", path, data=b"hi", headers=headers)
    page = await stage.http("GET", "/channels/room/messages")
    assert len(page["messages"]) == 5
    await journalled(
        tmp_path / "data" / "journal",
        lambda events: any(event.message_id == receipt.id for event in events),
    )
    await stage.hub.server.stop()
    told = json.dumps([heard, page]) + caplog.text
    assert secret not in told
    for file in (tmp_path / "data").rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file


# -- what is wrong --------------------------------------------------------------------------------

WRONG: tuple[tuple[str, object], ...] = (
    *((wire_name(name), wrong) for name in TEXTS for wrong in (7, "", "x" * 257, "a\nb", "\x7f")),
    ("priority", 6),
    ("priority", "high"),
    ("ttl", -1),
    ("ttl", 1.5),
    ("ttl", 2**53),
    ("relevantUntil", -1),
    ("relevantUntil", "soon"),
    ("location", [1, 2]),
    ("location", "here"),
    ("location", {"name": "x" * 2000}),
    ("headers", "k=v"),
    ("headers", {"k": "x" * 9000}),
    ("headers", {"k": 2**70}),
    ("headers", json.loads('{"a":' * 40 + "1" + "}" * 40)),
    ("securityToken", 7),
    ("securityToken", "x" * 5000),
)


async def test_a_wrong_field_is_refused_by_its_name_at_every_door(stage: Stage) -> None:
    socket = await stage.hub.socket(token=stage.token)
    for field, value in WRONG:
        item = {"channel": "room", "payload": {"text": "hi"}, field: value}
        await socket.send("Publish", publishes=[{**item, "reqID": 1}])
        answer = await _refusal(socket)
        shown = await stage.http("POST", "/messages", json={"publishes": [item]})
        (result,) = shown["published"]
        assert not result["success"], (field, value)
        for refused in (answer, result):
            assert field in refused["error"]["message"], refused
        more = json.dumps({field: value})
        _, message = await stage.zeromq.refused("put", stage.token, "room", b"hi", more)
        assert field in message
    page = await stage.http("GET", "/channels/room/messages")
    assert page["messages"] == []


async def _refusal(socket: Socket) -> Any:
    """What cannot be read is answered by `Error`, what is not allowed by `Ack`."""
    while True:
        envelope = await socket.next()
        if envelope["event"] == "Error":
            return envelope["payload"]
        if envelope["event"] == "Ack":
            return envelope["payload"]["published"][0]


async def test_a_wrong_header_is_refused_by_its_name(stage: Stage) -> None:
    for path in ("/channels/room/messages", "/topics/room/messages"):
        for field, value in (
            ("Ttl", "-1"),
            ("Priority", "6"),
            ("Author", "%0A"),
            ("Conversation-Id", "x" * 257),
            ("Location", "[1]"),
            ("Headers", "[1]"),
        ):
            headers = {"Authorization": f"Bearer {stage.token}", f"Hubbub-{field}": value}
            async with stage.hub.http.post(
                f"/v1/hubs/acme{path}", data=b"hi", headers=headers
            ) as answer:
                error = (await answer.json())["error"]
                assert (answer.status, error["code"]) == (422, "invalid_attribute")


NO_HEADERS = (
    ("Event", "give it as a parameter (?event=…)"),
    ("Conversation", "is it Hubbub-Conversation-Id?"),
    ("Autor", "is it Hubbub-Author?"),
    ("Message-Id", "Hubbub-Ttl"),
)


@pytest.mark.spec("OPS-03")
async def test_a_header_that_there_is_not_is_refused_with_what_was_meant(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(topic_hub(open_topics=True))
    topic = quote(f"http://{hub.address}/v1/hubs/acme/channels/room/messages", safe="")
    doors = (
        "/channels/room/messages",
        "/topics/room/messages",
        "/hub/publish/room",
        f"/websub?hub.mode=publish&hub.topic={topic}",
        "/messages",
    )
    for door in doors:
        for name, remedy in NO_HEADERS:
            headers = {f"Hubbub-{name}": "x", "Accept": "application/json"}
            async with hub.http.post(f"/v1/hubs/acme{door}", data=b"{}", headers=headers) as answer:
                said = await answer.text()
                assert answer.status == 422, (door, said)
                assert f"no header 'Hubbub-{name}' here" in said
                if name == "Event" and door not in doors[:2]:
                    continue  # there is no such parameter
                assert door == "/messages" or remedy in said, said
    async with hub.http.post(
        "/v1/hubs/acme/messages", json={"publishes": []}, headers={"Hubbub-Ttl": "1"}
    ) as answer:
        assert "the messages of the body have it as a field" in await answer.text()
    async with hub.http.get("/v1/hubs/acme/channels/room/messages") as answer:
        assert (await answer.json())["messages"] == []


async def test_the_webhook_of_one_hub_may_lead_to_another(start_hub: StartHub) -> None:
    kept = msgspec.structs.replace(STORED, store_by_default=True)
    hub = await start_hub(
        open_hub(rules=kept, callback_addresses="loopback"), open_hub("other", rules=kept)
    )
    path = "/v1/hubs/other/channels/room/messages"
    webhook = {"channel": "room", "callback": f"http://{hub.address}{path}"}
    ann = {"Authorization": f"Bearer {hub.token('ann')}"}
    async with hub.http.post("/v1/hubs/acme/webhooks", json=webhook, headers=ann) as answer:
        assert answer.status == 201, await answer.text()
    async with hub.http.post(
        "/v1/hubs/acme/channels/room/messages?event=said",
        data=b"hi",
        headers={"Hubbub-Conversation-Id": "c-1"},
    ) as answer:
        assert answer.status == 200, await answer.text()

    async def arrived() -> bool:
        async with hub.http.get(path) as answer:
            found = (await answer.json())["messages"]
        return [each["conversationID"] for each in found] == ["c-1"]

    await eventually(arrived)
