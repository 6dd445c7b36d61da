"""The MQTT door with clients that others wrote: Eclipse Paho and aiomqtt."""

from __future__ import annotations

import asyncio
from typing import Any

import aiomqtt
import pytest
from paho.mqtt import client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.publish import single

from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.rules import Rules

RULES = Rules(
    public=True, client_publish=True, allow_anonymous=True, live_history=True, retain=True
)
STORED = Rules(public=True, client_publish=True, allow_anonymous=True, store=True)
VERSIONS = pytest.mark.parametrize(
    "version", [aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5]
)


@pytest.fixture
async def hub(start_hub: StartHub) -> RunningHub:
    return await start_hub(
        open_hub(rules=RULES, namespaces={"log": STORED}),
        mqtt__enabled=True,
        mqtt__listeners=[{"port": 0}],
        mqtt__defaultHub="acme",
    )


def client(hub: RunningHub, **options: Any) -> aiomqtt.Client:
    return aiomqtt.Client("127.0.0.1", hub.server.mqtt_ports[0], **options)


def over_websocket(hub: RunningHub, **options: Any) -> aiomqtt.Client:
    return aiomqtt.Client(
        "127.0.0.1", hub.server.port, transport="websockets",
        websocket_path="/v1/hubs/acme/mqtt", **options,
    )  # fmt: skip


@pytest.mark.spec("MQTT-01", "MQTT-03")
@VERSIONS
@pytest.mark.parametrize("connect", [client, over_websocket])
async def test_messages_go_to_and_fro_at_each_quality(
    hub: RunningHub, version: aiomqtt.ProtocolVersion, connect: Any
) -> None:
    async with connect(hub, protocol=version) as to, connect(hub, protocol=version) as sender:
        await to.subscribe("log/#", qos=2)
        for qos in (0, 1, 2):
            await sender.publish("log/a", f"at {qos}", qos=qos)
        async with asyncio.timeout(20):
            heard = [await anext(aiter(to.messages)) for _ in range(3)]
        assert [(each.payload, each.qos) for each in heard] == [
            (b"at 0", 0), (b"at 1", 1), (b"at 2", 2),
        ]  # fmt: skip


@pytest.mark.spec("MQTT-04", "MQTT-05")
async def test_a_retained_message_with_properties_reaches_a_later_client(hub: RunningHub) -> None:
    given = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    given.ContentType = "text/csv"
    given.UserProperty = [("unit", "C")]
    async with client(hub, protocol=aiomqtt.ProtocolVersion.V5) as sender:
        await sender.publish("plant/7", "21", qos=1, retain=True, properties=given)
    async with client(hub, protocol=aiomqtt.ProtocolVersion.V5) as later:
        await later.subscribe("plant/+")
        async with asyncio.timeout(20):
            heard = await anext(aiter(later.messages))
        assert (heard.payload, heard.retain) == (b"21", True)
        assert heard.properties is not None
        told = heard.properties.json()  # type: ignore[no-untyped-call]
        assert (told["ContentType"], told["UserProperty"]) == ("text/csv", [("unit", "C")])


@pytest.mark.spec("MQTT-03")
async def test_a_thousand_messages_arrive_once_each_and_in_order(hub: RunningHub) -> None:
    async with client(hub) as to, client(hub, max_inflight_messages=20) as sender:
        await to.subscribe("log/many", qos=2)
        async with asyncio.TaskGroup() as group:
            for number in range(1000):
                group.create_task(sender.publish("log/many", str(number), qos=2, timeout=60))
            async with asyncio.timeout(60):
                heard = [
                    int(str((await anext(aiter(to.messages))).payload, "ascii"))
                    for _ in range(1000)
                ]
        assert heard == list(range(1000))


@pytest.mark.spec("MQTT-01", "MQTT-02")
async def test_pahos_own_helpers_publish_with_a_token_and_a_will(hub: RunningHub) -> None:
    browser = await hub.socket()
    await browser.subscribe("plant:8")
    await asyncio.to_thread(
        single, "plant/8", "hello", qos=1, hostname="127.0.0.1",
        port=hub.server.mqtt_ports[0], will={"topic": "gone", "payload": "x", "qos": 1},
        auth={"username": "ann", "password": hub.token("ann")}, protocol=paho.MQTTv311,
    )  # fmt: skip
    told = await browser.find("Publish")
    assert (told["payload"], told["publisher"]) == ({"text": "hello"}, "ann")


@pytest.mark.spec("MQTT-01")
async def test_a_wrong_password_is_said(hub: RunningHub) -> None:
    with pytest.raises(aiomqtt.MqttError, match=r"Bad user name|[Nn]ot authori"):
        async with client(hub, username="ann", password="wrong"):
            pass
