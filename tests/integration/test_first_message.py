"""A message from a publisher to a subscriber, through every layer."""

from __future__ import annotations

import pytest

from harness.running_hub import RunningHub


@pytest.mark.spec("LIVE-01", "LIVE-08", "LIVE-10")
async def test_a_published_message_reaches_a_subscriber(hub: RunningHub) -> None:
    subscriber = await hub.socket()
    subscribed = await subscriber.subscribe("news")
    assert subscribed["subscribedChannels"] == ["news"]
    publisher = await hub.socket()
    result = await publisher.publish("news", {"json": {"hello": "world"}}, event="greeting")
    assert result["success"]
    assert result["channelSerial"] == "1"
    delivered = await subscriber.expect("Publish")
    assert delivered["channel"] == "news"
    assert delivered["event"] == "greeting"
    assert delivered["payload"] == {"json": {"hello": "world"}}
    assert delivered["msgID"] == result["msgID"]
    assert delivered["channelSerial"] == "1"
