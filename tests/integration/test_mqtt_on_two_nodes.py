"""Devices at a cluster of two nodes."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from harness.cluster import Ground, start_node
from harness.devices import Device, connect, publish
from harness.running_hub import OPEN, open_hub
from hubbub.protocols.mqtt.fields import Property
from hubbub.protocols.mqtt.packets import CONNACK, PUBACK, V3
from hubbub.protocols.mqtt.reasons import Reason

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.spec("MQTT-02")
async def test_a_device_is_at_one_node_and_reached_from_the_other(
    on: Ground, tmp_path: Path
) -> None:
    """A client that wants its session kept is told that it is not."""
    async with AsyncExitStack() as stack:
        ports = list[int]()
        for name in ("west", "east"):
            node = await start_node(
                tmp_path, on, name, [open_hub(rules=OPEN)], mqtt__enabled=True,
                mqtt__listeners=[{"port": 0}], mqtt__defaultHub="acme",
            )  # fmt: skip
            stack.push_async_callback(node.close)
            ports += node.server.mqtt_ports
        west, east = ports
        first = await stack.enter_async_context(await Device.open(west))
        first.send(connect(given=((Property.SESSION_EXPIRY, 100),)))
        answer = await first.expect(CONNACK)
        assert b"\x11\x00\x00\x00\x00" in answer
        assert await first.subscribe(("a/#", 1)) == [1]
        sender = await stack.enter_async_context(await Device.connected(east, client_id="other"))
        sender.send(publish("a/b", b"across", 1, 1))
        await sender.expect(PUBACK)
        heard = await first.arrived()
        assert heard.payload == b"across"
        first.acknowledge(PUBACK, heard.packet_id)
        for port, version in ((east, V3), (west, V3), (east, V3)):
            second = await stack.enter_async_context(await Device.connected(port, version))
            ended = await first.ended()
            assert ended == (Reason.TAKEN_OVER if first.version != V3 else None)
            assert await second.silent()
            first = second
