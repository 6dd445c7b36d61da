"""Webhooks in a cluster: the owner of a channel drives them, any node tells how they are doing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.postgres import LocalPostgres
from harness.admin import HUB, admin_of
from harness.callbacks import Callbacks
from harness.cluster import channel_of, eventually, ground, start_node
from harness.light import Light
from harness.postgres import new_database
from harness.topics import topic_hub

NAMES = ("east", "west")


@pytest.mark.spec("WEB-04", "CLU-03")
async def test_any_node_shows_replays_and_removes_the_webhooks_of_another(
    postgres: LocalPostgres, tmp_path: Path
) -> None:
    hub = topic_hub(open_topics=True, callback_addresses="loopback")
    channel = channel_of("east", NAMES)
    async with (
        ground(tmp_path, await new_database(postgres)) as on,
        Callbacks(lambda request: 503) as receiver,
    ):
        east, west = [
            await start_node(tmp_path, on, name, [hub], webhooks__retries=0) for name in NAMES
        ]
        try:
            light, admin = Light(west, "/v1/hubs/acme/hub"), admin_of(west)
            assert (await light.register(channel)).status == 201
            await light.subscribe(receiver.port, channel)
            await light.publish(channel, b"hello")

            async def state() -> Any:
                (found,) = (await admin("GET", f"{HUB}/webhooks?status=true")).json["items"]
                return found

            async def given_up() -> bool:
                status = (await state())["status"]
                return status is not None and status["deadLetters"] == 1

            await eventually(given_up)
            assert east.server.driver.count() == 1
            assert west.server.driver.count() == 0
            receiver.respond = lambda request: 200
            path = f"{HUB}/webhooks/{(await state())['id']}"
            replayed = (await admin("POST", f"{path}/replay")).json
            assert (replayed["delivered"], replayed["failed"]) == (1, 0)
            assert receiver.bodies[-1] == b"hello"
            assert (await admin("DELETE", path)).status == 204
            assert east.server.driver.count() == 0
        finally:
            for node in (east, west):
                await node.close()
