"""The MQTT door: devices beside all other clients of a hub."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from harness.clock import FakeClock
from harness.devices import DEADLINE_SECONDS, PING, Device, connect, publish, subscribe, unsubscribe
from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.rules import HubConfiguration, Rules
from hubbub.engine.mqtt.devices import ConnectedDevices, DeviceKey
from hubbub.engine.mqtt.kept import hash_of
from hubbub.protocols.mqtt.fields import Property
from hubbub.protocols.mqtt.packets import (
    CONNACK,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    UNSUBACK,
    V3,
    V5,
)
from hubbub.protocols.mqtt.reasons import Reason

STORED = Rules(public=True, client_publish=True, allow_anonymous=True, store=True, retain=True)
CLOSED = Rules()
ON: dict[str, object] = {"mqtt__enabled": True, "mqtt__listeners": [{"port": 0}]}
both = pytest.mark.parametrize("version", [V3, V5])


def plant(**more: Any) -> HubConfiguration:
    return open_hub(
        rules=Rules(
            public=True, client_publish=True, allow_anonymous=True, live_history=True, retain=True
        ),
        namespaces={"log": STORED, "closed": CLOSED},
        **more,
    )


@pytest.fixture
async def hub(start_hub: StartHub) -> RunningHub:
    return await start_hub(plant(), **ON, mqtt__defaultHub="acme")


def port(hub: RunningHub) -> int:
    return hub.server.mqtt_ports[0]


async def device(hub: RunningHub, name: str = "device", version: int = V5, **more: Any) -> Device:
    return await Device.connected(port(hub), version, client_id=name, **more)


async def reason_of(hub: RunningHub, packet: bytes, version: int = V5) -> int:
    """The code of the CONNACK, which ends the connection."""
    async with await Device.open(port(hub), version) as client:
        client.send(packet)
        code = (await client.expect(CONNACK))[1]
        assert await client.ended() is None
        return code


# -- names ----------------------------------------------------------------------------------------


@pytest.mark.spec("MQTT-01")
@both
async def test_a_message_of_a_device_reaches_a_browser_and_the_reverse(
    hub: RunningHub, version: int
) -> None:
    browser = await hub.socket()
    await browser.subscribe("plant:7:temp")
    async with await device(hub, version=version) as thermostat:
        assert await thermostat.subscribe(("plant/+/temp", 0)) == [0]
        thermostat.send(publish("plant/7/temp", b'{"c": 21}', version=version))
        told = await browser.find("Publish")
        assert (told["channel"], told["payload"]) == ("plant:7:temp", {"text": '{"c": 21}'})
        assert (await thermostat.arrived()).payload == b'{"c": 21}'
        await browser.publish("plant:8:temp", {"json": {"c": 22}})
        heard = await thermostat.arrived()
        assert (heard.topic, json.loads(heard.payload)) == ("plant/8/temp", {"c": 22})


@pytest.mark.spec("MQTT-01")
async def test_names_with_the_other_separator_stay_apart(hub: RunningHub) -> None:
    async with await device(hub) as one:
        await one.subscribe(("dev/00:1f", 0), ("dev/00/1f", 0))
        browser = await hub.socket()
        await browser.publish("dev:00/1f", {"text": "colon"})
        await browser.publish("dev:00:1f", {"text": "slash"})
        assert {(await one.arrived()).topic for _ in range(2)} == {"dev/00:1f", "dev/00/1f"}


@pytest.mark.spec("MQTT-01")
async def test_a_filter_that_begins_with_a_wildcard_finds_no_name_with_a_dollar(
    hub: RunningHub,
) -> None:
    async with await device(hub) as one:
        assert await one.subscribe(("#", 0), ("+/x", 0)) == [0, 0]
        browser = await hub.socket()
        await browser.publish("$own:x", {"text": "hidden"})
        await browser.publish("own:x", {"text": "seen"})
        assert (await one.arrived()).payload == b"seen"
        assert await one.silent()
        assert await one.subscribe(("$own/#", 0)) == [0]
        await browser.publish("$own:x", {"text": "named"})
        assert (await one.arrived()).payload == b"named"


@pytest.mark.spec("MQTT-01")
async def test_overlapping_filters_bring_one_copy_with_all_identifiers(hub: RunningHub) -> None:
    async with await device(hub) as one:
        await one.subscribe(("a/#", 0), given=((Property.SUBSCRIPTION_ID, 7),))
        await one.subscribe(("a/+", 1), given=((Property.SUBSCRIPTION_ID, 300),))
        one.send(publish("a/b", b"1", 1, 5))
        assert await one.next() == (PUBACK << 4, b"\x00\x05")
        heard = await one.arrived()
        assert heard.qos == 1
        assert heard.properties[Property.SUBSCRIPTION_ID] == [7, 300]


# -- who, and which hub ---------------------------------------------------------------------------


@pytest.mark.spec("MQTT-01")
async def test_a_hub_is_named_by_user_name_token_path_or_default(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub("one"), open_hub("two", allow_anonymous=False), **ON)
    token = hub.token("ann", "two").encode()
    assert await reason_of(hub, connect()) == Reason.NOT_AUTHORIZED
    assert await reason_of(hub, connect(user_name="nowhere:")) == Reason.NOT_AUTHORIZED
    assert await reason_of(hub, connect(user_name="two:ann")) == Reason.NOT_AUTHORIZED
    assert await reason_of(hub, connect(V3, user_name="two:ann"), V3) == 5
    async with await Device.connected(port(hub), user_name="one:") as anonymous:
        assert await anonymous.silent()
    async with await Device.connected(port(hub), user_name="x", password=token) as ann:
        assert await ann.silent()
    async with await Device.connected(port(hub), user_name=token.decode()) as ann:
        assert await ann.silent()
    counters = hub.server.node.counters
    assert (counters["one"].sessions_opened, counters["two"].sessions_opened) == (1, 2)


@pytest.mark.spec("MQTT-01")
async def test_wrong_credentials_and_hubs_that_do_not_exist_look_alike(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub("two", allow_anonymous=False), **ON)
    for name in ("two", "nowhere"):
        wrong = connect(user_name=f"{name}:ann", password=b"wrong")
        assert await reason_of(hub, wrong) == Reason.BAD_CREDENTIALS
        forged = connect(user_name=f"{name}:ann", password=b"eyJhbGciOiJIUzI1NiJ9.e30.x")
        assert await reason_of(hub, forged) == Reason.BAD_CREDENTIALS
        assert await reason_of(hub, connect(user_name=f"{name}:")) == Reason.NOT_AUTHORIZED
    wrong = connect(V3, user_name="two:ann", password=b"wrong")
    assert await reason_of(hub, wrong, V3) == 4


@pytest.mark.spec("MQTT-01")
async def test_authentication_data_may_be_a_token_and_other_methods_are_refused(
    hub: RunningHub,
) -> None:
    token = hub.token("ann").encode()
    given = ((Property.AUTH_METHOD, "hubbub-token"), (Property.AUTH_DATA, token))
    async with await device(hub, given=given) as ann:
        assert await ann.silent()
    refused = connect(given=((Property.AUTH_METHOD, "SCRAM-SHA-1"),))
    assert await reason_of(hub, refused) == Reason.BAD_METHOD


@pytest.mark.spec("MQTT-01", "SEC-03")
async def test_grants_decide_what_a_device_may_do(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=CLOSED, allow_anonymous=False), **ON)
    grants = (Grant("cmd:7:*", subscribe=True), Grant("plant:7:temp", publish=True))
    token = hub.token("dev7", grants=grants).encode()
    async with await device(hub, user_name="acme:dev7", password=token) as one:
        denied = Reason.NOT_AUTHORIZED
        filters = [("cmd/7/#", 0), ("cmd/+/x", 0), ("#", 0), ("cmd/8/x", 0), ("cmd/7/x", 1)]
        assert await one.subscribe(*filters) == [0, denied, denied, denied, 1]
        one.send(publish("plant/7/temp", b"1", 1, 1) + publish("plant/8/temp", b"1", 1, 2))
        assert await one.next() == (PUBACK << 4, b"\x00\x01")
        assert await one.next() == (PUBACK << 4, b"\x00\x02" + bytes((denied,)))
        service = await hub.socket(token=hub.token(None, level=Level.SERVICE))
        await service.publish("cmd:8:x", {"text": "not for it"})
        await service.publish("cmd:7:x", {"text": "for it"})
        assert (await one.arrived()).payload == b"for it"


@pytest.mark.spec("MQTT-02")
async def test_a_client_id_has_one_connection_and_is_of_its_user(hub: RunningHub) -> None:
    token = hub.token("ann").encode()
    async with contextlib.AsyncExitStack() as stack:
        ann = await stack.enter_async_context(await device(hub, "same", password=token))
        first = await stack.enter_async_context(await device(hub, "same"))
        second = await stack.enter_async_context(await device(hub, "same"))
        assert await first.ended() == Reason.TAKEN_OVER
        assert await second.silent()
        third = await stack.enter_async_context(await device(hub, "same", version=V3))
        assert await second.ended() == Reason.TAKEN_OVER
        assert await third.silent()
        assert await ann.silent()


@pytest.mark.spec("MQTT-01")
async def test_an_empty_client_id_gets_one_where_the_version_can_say_so(hub: RunningHub) -> None:
    assert await reason_of(hub, connect(V3, "", clean=False), V3) == 2
    assert await reason_of(hub, connect(V5, "x" * 256)) == Reason.CLIENT_ID_INVALID
    async with await Device.open(port(hub)) as one:
        one.send(connect(V5, "", clean=False))
        assert b"auto-" in await one.expect(CONNACK)
    async with await device(hub, "", version=V3) as one:
        assert await one.silent()


@pytest.mark.spec("MQTT-05")
async def test_what_is_not_there_is_said_in_connack(start_hub: StartHub) -> None:
    hub = await start_hub(plant(), **ON, mqtt__defaultHub="acme", mqtt__sessionExpiry=50)
    for asked, told in ((100, b"\x11\x00\x00\x00\x32"), (0xFFFF_FFFF, b"\x11\x00\x00\x00\x32")):
        async with await Device.open(port(hub)) as one:
            one.send(connect(given=((Property.SESSION_EXPIRY, asked),)))
            answer = await one.expect(CONNACK)
            assert told in answer, "the session is kept for a shorter time"
            assert b"\x2a\x00" in answer, "no shared subscriptions"
            assert await one.subscribe(("$share/g/a", 0)) == [Reason.SHARED_NOT_SUPPORTED]


# -- quality of service ---------------------------------------------------------------------------


@pytest.mark.spec("MQTT-03")
@both
async def test_messages_are_acknowledged_at_each_quality(hub: RunningHub, version: int) -> None:
    async with await device(hub, "to", version) as to, await device(hub, "from", version) as sender:
        assert await to.subscribe(("log/a", 2)) == [2]
        for qos in (0, 1, 2):
            sender.send(publish("log/a", b"%d" % qos, qos, 9, version=version))
            if qos == 1:
                assert await sender.next() == (PUBACK << 4, b"\x00\x09")
            if qos == 2:
                assert await sender.next() == (PUBREC << 4, b"\x00\x09")
                sender.send(publish("log/a", b"again", 2, 9, duplicate=True, version=version))
                assert await sender.next() == (PUBREC << 4, b"\x00\x09")
                sender.release(9)
                assert await sender.next() == (PUBCOMP << 4, b"\x00\x09")
            heard = await to.arrived()
            assert (heard.payload, heard.qos) == (b"%d" % qos, qos)
            if qos == 1:
                to.acknowledge(PUBACK, heard.packet_id)
            if qos == 2:
                to.acknowledge(PUBREC, heard.packet_id)
                assert await to.next() == (PUBREL << 4 | 2, heard.packet_id.to_bytes(2))
                to.acknowledge(PUBCOMP, heard.packet_id)
        assert await to.silent()
    answer = await hub.http.get("/v1/hubs/acme/channels/log:a/messages")
    stored = [each["payload"] for each in (await answer.json())["messages"]]
    assert stored == [{"text": "1"}, {"text": "2"}], "QoS 0 is not stored, a repeat neither"


@pytest.mark.spec("MQTT-03")
async def test_a_client_that_does_not_acknowledge_gets_no_more_than_its_window(
    hub: RunningHub,
) -> None:
    given = ((Property.RECEIVE_MAXIMUM, 2),)
    async with await device(hub, "slow", given=given) as slow, await device(hub, "fast") as fast:
        await slow.subscribe(("q", 1))
        for number in range(1, 6):
            fast.send(publish("q", b"%d" % number, 1, number))
            await fast.expect(PUBACK)
        first, second = await slow.arrived(), await slow.arrived()
        assert await slow.silent()
        slow.acknowledge(PUBACK, first.packet_id)
        third = await slow.arrived()
        slow.acknowledge(PUBACK, second.packet_id)
        slow.acknowledge(PUBACK, third.packet_id)
        rest = [await slow.arrived() for _ in range(2)]
        assert [each.payload for each in (first, second, third, *rest)] == [
            b"1", b"2", b"3", b"4", b"5",
        ]  # fmt: skip


@pytest.mark.spec("MQTT-03")
async def test_a_client_that_never_acknowledges_is_cut_off_at_its_bound(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(
        plant(), **ON, mqtt__defaultHub="acme", mqtt__maxPacketBytes=4096,
        mqtt__sendBufferBytes=8192,
    )  # fmt: skip
    given = ((Property.RECEIVE_MAXIMUM, 1),)
    async with await device(hub, "slow", given=given) as slow, await device(hub, "fast") as fast:
        await slow.subscribe(("q", 1))
        for number in range(1, 12):
            fast.send(publish("q", b"x" * 1000, 1, number))
            await fast.expect(PUBACK)
        assert await slow.ended() == Reason.QUOTA
        assert hub.server.node.hubs["acme"].counters.slow_consumers >= 1


@pytest.mark.spec("MQTT-05")
async def test_more_in_flight_than_was_told_ends_the_connection(start_hub: StartHub) -> None:
    hub = await start_hub(plant(), **ON, mqtt__defaultHub="acme", mqtt__receiveMaximum=3)
    async with await device(hub) as one:
        one.send(b"".join(publish("a", b"", 2, number) for number in range(1, 6)))
        assert await one.ended() == Reason.RECEIVE_MAXIMUM


@pytest.mark.spec("MQTT-03")
async def test_no_local_leaves_out_the_publisher_alone(hub: RunningHub) -> None:
    async with await device(hub, "a") as one, await device(hub, "b") as other:
        await one.subscribe(("t", 0b101))
        await other.subscribe(("t", 0b100))
        one.send(publish("t", b"mine"))
        assert (await other.arrived()).payload == b"mine"
        other.send(publish("t", b"yours"))
        assert (await one.arrived()).payload == b"yours"
        assert await one.silent()
        assert await other.silent()


# -- retained messages ----------------------------------------------------------------------------


@pytest.mark.spec("MQTT-04")
@both
async def test_retained_messages_come_after_the_suback_also_from_channels_that_are_not_open(
    hub: RunningHub, version: int
) -> None:
    async with await device(hub, "from", version) as sender:
        for name in ("r/1", "r/2", "other"):
            sender.send(publish(name, name.encode(), 1, 3, retain=True, version=version))
            await sender.expect(PUBACK)
    async with await device(hub, "to", version) as to:
        assert await to.subscribe(("r/+", 0)) == [0]
        heard = [await to.arrived() for _ in range(2)]
        assert {(each.topic, each.retain) for each in heard} == {("r/1", True), ("r/2", True)}
        assert await to.silent()
        assert await to.subscribe(("r/+", 0)) == [0]
        assert {(await to.arrived()).topic for _ in range(2)} == {"r/1", "r/2"}
        to.send(publish("r/1", b"", 1, 4, retain=True, version=version))
        assert {(await to.next())[0] >> 4 for _ in range(2)} == {PUBACK, 3}
    async with await device(hub, "late", version) as late:
        await late.subscribe(("r/#", 0))
        assert (await late.arrived()).topic == "r/2"
        assert await late.silent(), "an empty payload cleared the other"


@pytest.mark.spec("MQTT-04")
async def test_retained_messages_are_found_after_a_restart(start_server: StartHub) -> None:
    options = {**ON, "mqtt__defaultHub": "acme"}
    hub = await start_server(plant(), **options)
    async with await device(hub) as one:
        one.send(publish("plant/7/temp", b"21", 1, 3, retain=True))
        await one.expect(PUBACK)
    await hub.close()
    hub = await start_server(plant(), **options)
    async with await device(hub) as one:
        await one.subscribe(("plant/+/temp", 1))
        heard = await one.arrived()
        assert (heard.topic, heard.payload, heard.retain) == ("plant/7/temp", b"21", True)
        await one.subscribe(("plant/#", 0))
        assert (await one.arrived()).payload == b"21"


@pytest.mark.spec("MQTT-04")
async def test_retain_handling_and_retain_as_published(hub: RunningHub) -> None:
    async with await device(hub) as one:
        one.send(publish("s", b"kept", 1, 3, retain=True))
        await one.expect(PUBACK)
        await one.subscribe(("s", 0x20))
        assert await one.silent(), "2: never"
        await one.subscribe(("s", 0x10))
        assert await one.silent(), "1: only if the filter is new"
        await one.subscribe(("s", 0x08))
        assert (await one.arrived()).retain
        one.send(publish("s", b"new", retain=True))
        assert (await one.arrived()).retain
        await one.subscribe(("s", 0x20))
        one.send(publish("s", b"newer", retain=True))
        assert not (await one.arrived()).retain


# -- unsubscribing, refusals ----------------------------------------------------------------------


@pytest.mark.spec("MQTT-05")
async def test_unsubscribe_ends_what_no_other_filter_needs(hub: RunningHub) -> None:
    async with await device(hub) as one:
        await one.subscribe(("a", 1), ("a/#", 0), ("b", 0))
        one.send(unsubscribe("a", "b", "none", packet_id=7))
        assert await one.next() == (UNSUBACK << 4, b"\x00\x07\x00\x00\x00\x11")
        one.send(publish("b", b"gone") + publish("a", b"by the other", 1, 8))
        kinds = [await one.next() for _ in range(2)]
        assert {first >> 4 for first, _ in kinds} == {PUBACK, 3}
        assert {first for first, _ in kinds} == {PUBACK << 4, 0x30}, "QoS 0 is left"
        assert await one.silent()


@pytest.mark.spec("MQTT-05")
async def test_refused_messages_are_told_to_5_and_dropped_or_ended_for_3(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(plant(), **ON, mqtt__defaultHub="acme")
    for version, code in ((V5, bytes((Reason.NOT_AUTHORIZED,))), (V3, b"")):
        async with await device(hub, "one", version) as one:
            one.send(publish("closed/x", b"", 1, 1, version=version))
            assert await one.next() == (PUBACK << 4, b"\x00\x01" + code)
            one.send(publish("closed/x", b"", 2, 2, version=version))
            assert await one.next() == (PUBREC << 4, b"\x00\x02" + code)
            if version == V3:
                one.release(2)
                assert await one.next() == (PUBCOMP << 4, b"\x00\x02")
            one.send(publish("notification/x", b"", 1, 3, version=version))
            told = b"" if version == V3 else bytes((Reason.TOPIC_INVALID,))
            assert await one.next() == (PUBACK << 4, b"\x00\x03" + told)
    closing = await start_hub(plant(), **ON, mqtt__defaultHub="acme", mqtt__refusedPublish="close")
    async with await device(closing, "one", V3) as one:
        one.send(publish("closed/x", b"", 1, 1, version=V3))
        assert await one.ended() is None


@pytest.mark.spec("MQTT-05")
async def test_topic_aliases_have_bounds(hub: RunningHub) -> None:
    async with await device(hub) as one:
        await one.subscribe(("a", 0))
        one.send(publish("a", b"1", given=((Property.TOPIC_ALIAS, 10),)))
        one.send(publish("", b"2", given=((Property.TOPIC_ALIAS, 10),)))
        assert [(await one.arrived()).payload for _ in range(2)] == [b"1", b"2"]
        one.send(publish("a", b"1", given=((Property.TOPIC_ALIAS, 11),)))
        assert await one.ended() == Reason.ALIAS_INVALID
    async with await device(hub) as one:
        one.send(publish("", b"2", given=((Property.TOPIC_ALIAS, 1),)))
        assert await one.ended() == Reason.PROTOCOL_ERROR


@pytest.mark.spec("MQTT-05")
async def test_properties_are_the_envelope_and_back(hub: RunningHub) -> None:
    browser = await hub.socket()
    await browser.subscribe("p")
    pairs = [("b", "2"), ("a", "1")]
    given = [
        (Property.PAYLOAD_FORMAT, 1), (Property.MESSAGE_EXPIRY, 60),
        (Property.CONTENT_TYPE, "application/json"), (Property.RESPONSE_TOPIC, "answers/1"),
        (Property.CORRELATION, b"\x00\xff"), *[(Property.USER, pair) for pair in pairs],
    ]  # fmt: skip
    async with await device(hub) as one, await device(hub, "old", V3) as old:
        await one.subscribe(("p", 0))
        await old.subscribe(("p", 0))
        one.send(publish("p", b'{"a":1}', given=given))
        told = await browser.find("Publish")
        assert told["payload"] == {"json": {"a": 1}}
        assert (told["headers"]["b"], told["ttl"]) == ("2", 60_000)
        heard = await one.arrived()
        assert 0 < heard.properties.pop(Property.MESSAGE_EXPIRY) <= 60
        assert heard.properties == {
            Property.PAYLOAD_FORMAT: 1,
            Property.CONTENT_TYPE: "application/json",
            Property.RESPONSE_TOPIC: "answers/1",
            Property.CORRELATION: b"\x00\xff",
            Property.USER: pairs,
        }
        assert (await old.arrived()).payload == b'{"a":1}'
        twice = [(Property.USER, ("a", "1")), (Property.USER, ("a", "2"))]
        one.send(publish("p", b'{ "a":\n1}', given=twice))
        heard = await one.arrived()
        assert heard.properties[Property.USER] == [("a", "1"), ("a", "2")]
        assert heard.payload == b'{ "a":\n1}', "bytes never change"
        one.send(publish("p", b"\xff", 1, 4, given=((Property.PAYLOAD_FORMAT, 1),)))
        assert await one.next() == (PUBACK << 4, b"\x00\x04" + bytes((Reason.PAYLOAD_FORMAT,)))
        headers = {"mqtt.correlation": "no base64", "n": 3, "deep": {"x": 1}}
        await browser.send("Publish", publishes=[{"channel": "p", "payload": {"text": "x"},
                                                  "headers": headers}])  # fmt: skip
        assert (await one.arrived()).properties == {Property.USER: [("n", "3")]}


@pytest.mark.spec("MQTT-05")
async def test_larger_packets_than_the_client_takes_are_not_sent(hub: RunningHub) -> None:
    async with await device(hub, given=((Property.MAXIMUM_PACKET, 50),)) as one:
        await one.subscribe(("a", 1))
        for payload in (b"x" * 100, b"small"):
            one.send(publish("a", payload))
        assert (await one.arrived()).payload == b"small"


@pytest.mark.spec("MQTT-05", "SEC-01")
async def test_bad_bytes_end_the_connection_with_their_reason(hub: RunningHub) -> None:
    for bad, reason in (
        (b"\x36\x00", Reason.MALFORMED),
        (connect(), Reason.PROTOCOL_ERROR),
        (b"\x30\xff\xff\xff\x7f", Reason.TOO_LARGE),
        (b"\xc0\x80\x80\x80\x80\x01", Reason.MALFORMED),
        (subscribe(("$share/g/a", 0b100)), Reason.PROTOCOL_ERROR),
        (b"\xe0\x07\x00\x05\x11\x00\x00\x00\x09", Reason.PROTOCOL_ERROR),
    ):
        async with await device(hub) as one:
            one.send(bad + PING)
            assert await one.ended() == reason, bad
    async with await Device.open(port(hub)) as one:
        one.send(connect(given=((Property.MAXIMUM_PACKET, 5),)))
        assert await one.ended() is None, "a client that takes no CONNACK"
    for before in (PING, publish("a"), b"\x10\x00", b"GET / HTTP/1.1\r\n\r\n"):
        async with await Device.open(port(hub)) as one:
            one.send(before)
            assert await one.ended() is None
    assert await reason_of(hub, connect()[:8] + b"\x06" + connect()[9:]) == 1
    old = b"\x10\x0f\x00\x06MQIsdp\x03\x02\x00\x3c\x00\x01a"
    assert await reason_of(hub, old, V3) == 1


@pytest.mark.spec("MQTT-05", "SEC-01")
async def test_filters_of_a_client_are_bounded(start_hub: StartHub) -> None:
    hub = await start_hub(plant(), **ON, mqtt__defaultHub="acme", mqtt__maxFilters=3)
    async with await device(hub) as one:
        wanted = [(f"f{number}", 0) for number in range(5)]
        assert await one.subscribe(*wanted) == [0, 0, 0, Reason.QUOTA, Reason.QUOTA]
        assert await one.subscribe(("f1", 1), ("a*", 0)) == [1, Reason.FILTER_INVALID]


@pytest.mark.spec("MQTT-05")
async def test_over_the_rate_reading_waits_and_nothing_is_refused(start_hub: StartHub) -> None:
    hub = await start_hub(
        plant(), **ON, mqtt__defaultHub="acme", session__messagesPerSecond=200,
        session__messageBurst=10, mqtt__receiveMaximum=100,
    )  # fmt: skip
    async with await device(hub) as one:
        for number in range(1, 61):
            one.send(publish("a", b"", 1, number))
        for number in range(1, 61):
            assert await one.next() == (PUBACK << 4, number.to_bytes(2))


# -- keep alive, wills ----------------------------------------------------------------------------


@pytest.mark.spec("MQTT-02")
@both
async def test_a_will_is_published_when_the_connection_is_lost_and_not_after_a_farewell(
    hub: RunningHub, version: int
) -> None:
    will = ("wills/1", b"gone", 1, False)
    async with await device(hub, "watch", version) as watch:
        await watch.subscribe(("wills/#", 1))
        async with await device(hub, "polite", version, will=will) as one:
            one.send(b"\xe0\x00")
            await one.ended()
        async with await device(hub, "rude", version, will=will):
            pass
        heard = await watch.arrived()
        assert (heard.topic, heard.payload, heard.qos) == ("wills/1", b"gone", 1)
        if version == V5:
            async with await device(hub, "asks", version, will=will) as one:
                one.send(b"\xe0\x01\x04")
            assert (await watch.arrived()).payload == b"gone"
        assert await watch.silent()


@pytest.mark.spec("MQTT-02", "SEC-03")
async def test_a_will_is_checked_when_the_client_connects(hub: RunningHub) -> None:
    for topic, reason in (("closed/x", Reason.NOT_AUTHORIZED), ("$SYS/x", Reason.TOPIC_INVALID)):
        assert await reason_of(hub, connect(will=(topic, b"", 0, False))) == reason


@pytest.mark.spec("MQTT-02")
async def test_a_silent_client_is_given_up_after_one_and_a_half_keep_alives(
    hub: RunningHub,
) -> None:
    async with await device(hub, keep_alive=1) as one:
        began = asyncio.get_running_loop().time()
        assert await one.ended() == Reason.KEEP_ALIVE
        assert 1.4 < asyncio.get_running_loop().time() - began < 6


# -- sessions that outlive their connections ------------------------------------------------------


KEPT: dict[str, Any] = {"clean": False, "given": ((Property.SESSION_EXPIRY, 1000),)}


async def back(hub: RunningHub, name: str = "device", version: int = V5) -> tuple[Device, bool]:
    """A device that wants its session to go on, and whether there was one."""
    one = await Device.open(port(hub), version)
    given = KEPT["given"] if version == V5 else ()
    one.send(connect(version, name, clean=False, given=given))
    answer = await one.expect(CONNACK)
    assert answer[1] == 0
    return one, bool(answer[0])


async def left(hub: RunningHub, count: int) -> None:
    """Waits until the hub knows of only so many connections."""
    devices = hub.server.node.feature(ConnectedDevices)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(devices) != count:
            await asyncio.sleep(0.01)


@pytest.mark.spec("MQTT-02", "MQTT-03")
@both
async def test_a_device_that_was_away_receives_what_it_missed_in_order(
    hub: RunningHub, version: int
) -> None:
    one, present = await back(hub, f"away{version}", version)
    assert not present
    async with one, await device(hub, "from", version) as sender:
        await one.subscribe(("log/a", 1), ("log/b/#", 2))
        sender.send(publish("log/a", b"live", 1, 1, version=version))
        await sender.expect(PUBACK)
        heard = await one.arrived()
        one.acknowledge(PUBACK, heard.packet_id)
        assert await one.silent()
    async with await device(hub, "from", version) as sender:
        for number in range(2, 6):
            sender.send(publish("log/a", b"%d" % number, 1, number, version=version))
            await sender.expect(PUBACK)
        sender.send(publish("log/b/new", b"of a channel that is new", 2, 9, version=version))
        await sender.expect(PUBREC)
    one, present = await back(hub, f"away{version}", version)
    async with one:
        assert present
        missed = [await one.arrived() for _ in range(5)]
        of_a = [each.payload for each in missed if each.topic == "log/a"]
        assert of_a == [b"2", b"3", b"4", b"5"]
        assert [each.topic for each in missed].count("log/b/new") == 1
        for each in missed:
            one.acknowledge(PUBACK if each.qos == 1 else PUBREC, each.packet_id)
        assert (await one.next())[0] >> 4 == PUBREL
        assert await one.silent()


@pytest.mark.spec("MQTT-02", "MQTT-03")
@both
async def test_what_is_unacknowledged_comes_again_with_its_id_and_what_is_released_is_released(
    hub: RunningHub, version: int
) -> None:
    one, _ = await back(hub, f"again{version}", version)
    async with one, await device(hub, "from", version) as sender:
        await one.subscribe(("log/#", 2))
        for number, qos in ((1, 1), (2, 2), (3, 2)):
            sender.send(publish("log/again", b"%d" % number, qos, number, version=version))
        heard = [await one.arrived() for _ in range(3)]
        one.acknowledge(PUBREC, heard[2].packet_id)
        await one.expect(PUBREL)
    one, present = await back(hub, f"again{version}", version)
    async with one:
        assert present
        again = [await one.arrived() for _ in range(2)]
        assert [each._replace(duplicate=False) for each in again] == heard[:2]
        assert all(each.duplicate for each in again)
        assert await one.next() == (PUBREL << 4 | 2, heard[2].packet_id.to_bytes(2))
        one.acknowledge(PUBACK, again[0].packet_id)
        one.acknowledge(PUBREC, again[1].packet_id)
        assert (await one.next())[0] >> 4 == PUBREL
        for each in (again[1], heard[2]):
            one.acknowledge(PUBCOMP, each.packet_id)
        assert await one.silent()


@pytest.mark.spec("MQTT-02", "MQTT-03")
async def test_a_session_survives_a_restart_of_the_hub(start_server: StartHub) -> None:
    options = {**ON, "mqtt__defaultHub": "acme"}
    hub = await start_server(plant(), **options)
    one, _ = await back(hub)
    async with one:
        await one.subscribe(("log/+", 1))
        one.send(publish("log/a", b"unacknowledged", 1, 1))
        await one.expect(PUBACK)
        assert (await one.arrived()).payload == b"unacknowledged"
        await hub.close()
    hub = await start_server(plant(), **options)
    async with await device(hub, "from") as sender:
        sender.send(publish("log/a", b"missed", 1, 1))
        await sender.expect(PUBACK)
    one, present = await back(hub)
    async with one:
        assert present
        assert [(await one.arrived()).payload for _ in range(2)] == [b"unacknowledged", b"missed"]


@pytest.mark.spec("MQTT-02")
async def test_a_filter_that_was_granted_is_on_disk(hub: RunningHub) -> None:
    """So that it is there after a kill."""
    one, _ = await back(hub, "saved")
    async with one:
        assert await one.subscribe(("log/saved/#", 1)) == [1]
        key = hash_of(DeviceKey("acme", None, "saved"))
        row = await hub.server.store.read_session(key, 0)
        assert row is not None
        assert b"log/saved/#" in row.state


@pytest.mark.spec("MQTT-03")
async def test_a_qos_2_message_that_is_sent_again_after_a_reconnect_is_stored_once(
    hub: RunningHub,
) -> None:
    one, _ = await back(hub, "once")
    async with one:
        one.send(publish("log/once", b"1", 2, 7))
        await one.expect(PUBREC)
    one, present = await back(hub, "once")
    async with one:
        assert present
        one.send(publish("log/once", b"1", 2, 7, duplicate=True))
        await one.expect(PUBREC)
        one.release(7)
        await one.expect(PUBCOMP)
        one.send(publish("log/once", b"2", 2, 7))
        await one.expect(PUBREC)
    answer = await hub.http.get("/v1/hubs/acme/channels/log:once/messages")
    stored = [each["payload"] for each in (await answer.json())["messages"]]
    assert stored == [{"text": "1"}, {"text": "2"}]


@pytest.mark.spec("MQTT-02")
async def test_a_session_ends_with_a_clean_start_and_when_it_has_expired(
    start_hub: StartHub,
) -> None:
    clock = FakeClock()
    hub = await start_hub(plant(), clock=clock, **ON, mqtt__defaultHub="acme")
    for clean in (True, False):
        one, present = await back(hub)
        assert not present
        async with one:
            await one.subscribe(("log/a", 1))
        if clean:
            async with await device(hub) as one:
                assert await one.silent()
        else:
            await left(hub, 0)
            clock.advance(1001)
            hub.server.node.sweep()
    one, present = await back(hub)
    async with one:
        assert not present
        one.send(b"\xe0\x07\x00\x05\x11\x00\x00\x00\x00")
        assert await one.ended() is None
    one, present = await back(hub)
    async with one:
        assert not present, "DISCONNECT set the expiry to 0"


@pytest.mark.spec("MQTT-02")
async def test_a_kept_session_belongs_to_its_user_and_access_is_asked_again(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(plant(), **ON, mqtt__defaultHub="acme")
    grants = (Grant("closed:*", subscribe=True),)
    for user, granted, expected in (("ann", grants, 1), ("bob", (), 0), ("ann", (), 0)):
        token = hub.token(user, grants=granted).encode()
        async with await Device.open(port(hub)) as one:
            one.send(connect(client_id="same", password=token, **KEPT))
            present = (await one.expect(CONNACK))[0]
            assert present == (user == "ann" and not granted)
            if expected:
                assert await one.subscribe(("closed/#", 1)) == [1]
            service = await hub.socket(token=hub.token(None, level=Level.SERVICE))
            await service.publish("closed:x", {"text": "secret"})
            if expected:
                assert (await one.arrived()).payload == b"secret"
            else:
                one.send(PING)
                assert await one.next() == (0xD0, b"")


@pytest.mark.spec("MQTT-02")
async def test_a_will_waits_for_its_delay_and_a_reconnect_cancels_it(start_hub: StartHub) -> None:
    clock = FakeClock()
    hub = await start_hub(plant(), clock=clock, **ON, mqtt__defaultHub="acme")
    will: dict[str, Any] = {
        "will": ("wills/late", b"gone", 1, False), "will_given": ((Property.WILL_DELAY, 100),),
    }  # fmt: skip
    async with await device(hub, "watch", keep_alive=3600) as watch:
        await watch.subscribe(("wills/#", 1))
        async with await device(hub, "late", **KEPT, **will):
            pass
        await left(hub, 1)
        assert await watch.silent()
        async with await device(hub, "late", **KEPT, **will):
            clock.advance(150)
            hub.server.node.sweep()
            assert await watch.silent()
        await left(hub, 1)
        clock.advance(150)
        hub.server.node.sweep()
        assert (await watch.arrived()).payload == b"gone"


@pytest.mark.spec("MQTT-02", "SEC-02")
async def test_sessions_go_with_their_user_and_with_their_hub(start_hub: StartHub) -> None:
    hub = await start_hub(plant(), **ON, mqtt__defaultHub="acme")
    token = hub.token("ann").encode()
    packet = connect(client_id="x", password=token, **KEPT)
    store = hub.server.store

    async def begins() -> bool:
        """Whether there was a session before."""
        async with await Device.open(port(hub)) as one:
            one.send(packet)
            return bool((await one.expect(CONNACK))[0])

    assert not await begins()
    assert await begins()
    await left(hub, 0)
    admin = {"Authorization": f"Bearer {hub.token(None, '*', Level.ADMIN)}"}
    async with hub.http.delete("/v1/admin/hubs/acme/users/ann", headers=admin) as answer:
        assert answer.status == 200, await answer.text()
    assert await store.count_sessions("acme", "mqtt:") == 0
    assert not await begins()
    await left(hub, 0)
    async with hub.http.delete("/v1/admin/hubs/acme", headers=admin) as answer:
        assert answer.status in (200, 204), await answer.text()
    async with asyncio.timeout(DEADLINE_SECONDS):
        while await store.count_sessions("acme", "mqtt:"):
            await asyncio.sleep(0.01)


@pytest.mark.spec("MQTT-02", "SEC-01")
async def test_a_hub_keeps_a_bounded_number_of_sessions(start_hub: StartHub) -> None:
    hub = await start_hub(plant(), **ON, mqtt__defaultHub="acme", mqtt__maxSessions=2)
    for name in ("a", "b", "a"):
        one, _ = await back(hub, name)
        async with one:
            assert await one.silent()
    given = KEPT["given"]
    assert await reason_of(hub, connect(client_id="c", clean=False, given=given)) == Reason.QUOTA
    assert await reason_of(hub, connect(V3, "c", clean=False), V3) == 3
    async with await device(hub, "c") as one:
        assert await one.silent()


# -- ways in --------------------------------------------------------------------------------------


@pytest.mark.spec("MQTT-01")
async def test_packets_over_a_websocket_span_and_share_frames(hub: RunningHub) -> None:
    url = f"http://{hub.address}/v1/hubs/acme/mqtt"
    data = connect() + subscribe(("a", 0)) + publish("a", b"hello")
    async with hub.http.ws_connect(url, protocols=("mqtt",)) as socket:
        assert socket.protocol == "mqtt"
        for at in range(0, len(data), 7):
            await socket.send_bytes(data[at : at + 7])
        received = b""
        while b"hello" not in received:
            received += (await socket.receive(10)).data
        assert received[0] >> 4 == CONNACK
        await socket.send_str("text")
        closed = await socket.receive(10)
        assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, 1003)


@pytest.mark.spec("MQTT-01")
async def test_a_websocket_needs_the_subprotocol_and_a_page_its_origin(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(plant(allowed_origins=("https://app.example",)), **ON)
    for path in ("/v1/hubs/acme/mqtt", "/mqtt"):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await hub.http.ws_connect(path)
        assert refused.value.status == 400
    foreign = {"Origin": "https://evil.example"}
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await hub.http.ws_connect("/v1/hubs/acme/mqtt", protocols=("mqtt",), headers=foreign)
    assert refused.value.status == 403
    own = {"Origin": f"http://{hub.address}"}
    async with hub.http.ws_connect("/mqtt", protocols=("mqtt",), headers=own) as socket:
        await socket.send_bytes(connect(user_name="acme:"))
        answer = (await socket.receive(10)).data
        assert answer[0] >> 4 == CONNACK


@pytest.mark.spec("MQTT-01")
async def test_a_listener_with_tls_serves_its_hub_alone(
    start_server: StartHub, certificate: tuple[Path, Path]
) -> None:
    pem, key = certificate
    tls = {"certificate": str(pem), "key": str(key)}
    hub = await start_server(
        plant(), open_hub("other"), mqtt__enabled=True,
        mqtt__listeners=[{"port": 0, "hub": "acme", "tls": tls}],
    )  # fmt: skip
    context = ssl.create_default_context(cafile=str(pem))
    streams = await asyncio.open_connection("127.0.0.1", port(hub), ssl=context)
    async with Device(*streams, V5) as one:
        one.send(connect(user_name="other:x"))
        assert (await one.expect(CONNACK))[1] == 0
        assert await one.subscribe(("a", 1)) == [1]
        one.send(publish("a", b"secret", 1, 1))
        assert {(await one.next())[0] >> 4 for _ in range(2)} == {PUBACK, 3}
    (acme,) = [each for each in hub.server.node.hubs.values() if each.counters.sessions_opened]
    assert acme.name == "acme", "the user name of a listener with a hub names none"


@pytest.mark.spec("MQTT-01")
async def test_without_mqtt_enabled_there_is_no_door(start_hub: StartHub) -> None:
    hub = await start_hub(plant())
    assert hub.server.mqtt_ports == ()
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await hub.http.ws_connect("/v1/hubs/acme/mqtt", protocols=("mqtt",))
    assert refused.value.status == 404


@pytest.mark.spec("MQTT-05", "SEC-01")
async def test_a_client_without_a_connect_is_ended_in_time(start_hub: StartHub) -> None:
    hub = await start_hub(plant(), **ON, listener__headerTimeout=0.5)
    async with await Device.open(port(hub)) as one:
        one.send(connect()[:5])
        assert await one.ended() is None
