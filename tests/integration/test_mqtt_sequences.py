"""The byte sequences with which Eclipse Mosquitto tests itself, where their folder is given:
`pytest tests/integration/test_mqtt_sequences.py --mqtt-sequences .../test/broker/data`.

A DISCONNECT before the end of a connection is as good as none, and all reasons for bad input are
one verdict. Of the 1,480 sequences for versions that are spoken here, 16 end otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.devices import Device, connect, publish
from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.rules import Rules
from hubbub.protocols.mqtt.packets import CONNACK, DISCONNECT, PUBACK, PUBREC, SUBACK

OTHERWISE = {
    "v3.1   CONNECT 10 ok": "MQTT 3.1 is refused",
    "v3.1   CONNECT 14 ok": "MQTT 3.1 is refused",
    "v3.1.1 CONNECT 10 Username flag 1 Password flag 1 ok": "the password is wrong",
    "v3.1.1 CONNECT 10 Password with 0x0000": "the password is wrong",
    "REGRESSIONS mismatched-shared-normal-subscribe-unsubscribe-leak": "no shared subscriptions",
    "REGRESSIONS shared-sub-uaf": "no shared subscriptions",
    "v5.0   SUBSCRIBE 82 shared sub with no topic part 1": "no shared subscriptions",
    "v5.0   SUBSCRIBE 82 shared sub with no topic part 2": "no shared subscriptions",
}
"""Sequences with another end here, and why."""
NOT_FROM_CLIENTS = "v5.0   PUBLISH ALLOWED PROPERTIES subscription-identifier="
"""Mosquitto takes this property from clients, which the specification forbids (3.3.4)."""
_BAD_INPUT = (0x81, 0x82, 0x87, 0x90, 0x94)
_AS_GOOD_AS_SUCCESS = (0x10, 0x92)
"""Nobody listens, which is no secret here; and an unknown packet id, of which Mosquitto says
nothing."""
_SECONDS = 2.0


def packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        first, length, shift = data[at], 0, 0
        while True:
            at += 1
            length |= (data[at] & 0x7F) << shift
            shift += 7
            if data[at] < 0x80:
                break
        yield first, data[at + 1 : at + 1 + length]
        at += 1 + length


def verdict(first: int, body: bytes) -> tuple[object, ...]:
    kind = first >> 4
    if kind == CONNACK:
        return kind, body[1:2]
    if kind == DISCONNECT:
        return kind, "bad input" if body[:1] and body[0] in _BAD_INPUT else body[:1]
    if PUBACK <= kind < SUBACK and kind != 8:
        code = body[2] if len(body) > 2 else 0
        return kind, body[:2], 0 if code in _AS_GOOD_AS_SUCCESS else code
    return first, body


class Player:
    def __init__(self, port: int) -> None:
        self._port = port
        self._number = 0

    async def problem(self, test: dict[str, Any]) -> str | None:
        """What ended otherwise than the sequence says."""
        self._number += 1
        version = test.get("ver", 4)
        async with await Device.open(self._port, version) as client:
            try:
                if test.get("connect", True):
                    client.send(connect(version, f"sequence{self._number}"))
                    await client.expect(CONNACK)
                async with asyncio.timeout(_SECONDS):
                    for step in test["msgs"]:
                        problem = await self._step(client, step)
                        if problem is not None:
                            return problem
                    return await self._end(client, test.get("expect_disconnect", True))
            except TimeoutError:
                return "nothing came"
            except (asyncio.IncompleteReadError, ConnectionResetError):
                return "the connection ended"

    async def _step(self, client: Device, step: dict[str, Any]) -> str | None:
        if step["type"] == "send":
            client.send(bytes.fromhex(step["payload"].replace(" ", "")))
        elif step["type"] == "publish":
            await self._publish(step)
        else:
            for expected in packets(bytes.fromhex(step["payload"].replace(" ", ""))):
                came = await client.next()
                if verdict(*came) != verdict(*expected):
                    return f"{came} in place of {expected}"
        return None

    async def _publish(self, step: dict[str, Any]) -> None:
        async with await Device.connected(self._port, 4, client_id="helper") as helper:
            qos = step["qos"]
            helper.send(publish(step["topic"], step["payload"].encode(), qos, 1, version=4))
            if qos == 1:
                await helper.expect(PUBACK)
            if qos == 2:
                await helper.expect(PUBREC)
                helper.release(1)
                await helper.next()

    @staticmethod
    async def _end(client: Device, ends: bool) -> str | None:
        if not ends:
            return None if await client.silent() else "no answer to a ping"
        while True:
            try:
                came = await client.next()
            except (asyncio.IncompleteReadError, ConnectionResetError):
                return None
            if came[0] >> 4 != DISCONNECT:
                return f"{came} in place of the end"


@pytest.fixture
async def hub(start_server: StartHub) -> RunningHub:
    rules = Rules(
        public=True, client_publish=True, allow_anonymous=True, live_history=True, retain=True
    )
    return await start_server(
        open_hub(rules=rules),
        mqtt__enabled=True,
        mqtt__listeners=[{"port": 0}],
        mqtt__defaultHub="acme",
        listener__connectionsPerSecond=0,
    )


@pytest.mark.timeout(600)
@pytest.mark.spec("MQTT-05")
async def test_sequences_of_mosquitto_end_as_they_say(
    hub: RunningHub, request: pytest.FixtureRequest
) -> None:
    given = request.config.getoption("--mqtt-sequences")
    if given is None:
        pytest.skip("no folder of sequences; run: pytest --mqtt-sequences FOLDER")
    player, played, otherwise = Player(hub.server.mqtt_ports[0]), 0, dict[str, str]()
    for file in sorted(Path(given).glob("*.json")):
        for group in json.loads(file.read_text()):
            for test in group["tests"]:
                if test.get("ver", 4) == 3 or group.get("disable"):
                    continue
                played += 1
                problem = await player.problem(test)
                if problem is not None:
                    otherwise[f"{group['group']} {test['name']}".strip()] = problem
    assert played > 1000
    unexpected = {
        name: problem
        for name, problem in otherwise.items()
        if name not in OTHERWISE and not name.startswith(NOT_FROM_CLIENTS)
    }
    told = "\n".join(f"{name}: {problem}" for name, problem in unexpected.items())
    assert not unexpected, f"{len(unexpected)} of {played}:\n{told}"
