"""Who may register, publish and subscribe; the driver has tests of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from harness.engine import Alone
from harness.running_hub import OPEN, open_hub
from hubbub.domain.errors import (
    BadRequest,
    NotPermitted,
    NotSubscribed,
    QuotaExceeded,
    TopicExists,
    TopicNotFound,
)
from hubbub.domain.permissions import ANONYMOUS, Grant, Identity, Level
from hubbub.domain.rules import Quotas, Rules
from hubbub.domain.webhooks import WantedWebhook
from hubbub.engine.hub import Hub
from hubbub.engine.webhooks.service import Webhooks

SERVICE = Identity(level=Level.SERVICE)
STORED = msgspec.structs.replace(OPEN, store=True, store_by_default=True)
CALLBACK = "http://127.0.0.1:8085/"
OPENED = open_hub(
    "open",
    STORED,
    open_topics=True,
    callback_addresses="loopback",
    topic_rules="default",
    quotas=Quotas(webhooks=3),
)
CLOSED = open_hub("closed", Rules(store=True), allow_anonymous=False)


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Alone]:
    async with Alone(tmp_path, hubs=[OPENED, CLOSED]) as alone:
        yield alone


@pytest.fixture
def webhooks(alone: Alone) -> Webhooks:
    return alone.node.node.feature(Webhooks)


@pytest.fixture
def hub(alone: Alone) -> Hub:
    return alone.node.node.hub("open")


@pytest.fixture
def closed(alone: Alone) -> Hub:
    return alone.node.node.hub("closed")


@pytest.mark.spec("WEB-01")
async def test_a_topic_is_registered_once(webhooks: Webhooks, hub: Hub) -> None:
    with pytest.raises(TopicNotFound):
        await webhooks.find_topic(hub, "sports")
    assert await webhooks.register_topic(hub, ANONYMOUS, "sports", with_key=False) is None
    assert (await webhooks.find_topic(hub, "sports")).channel == "sports"
    with pytest.raises(TopicExists):
        await webhooks.register_topic(hub, ANONYMOUS, "sports", with_key=True)


@pytest.mark.spec("WEB-01")
async def test_only_registered_topics_take_messages_and_subscribers(
    webhooks: Webhooks, hub: Hub
) -> None:
    with pytest.raises(TopicNotFound):
        await webhooks.publish(hub, ANONYMOUS, "sports", b"x", "text/plain")
    with pytest.raises(TopicNotFound):
        await webhooks.subscribe(hub, ANONYMOUS, WantedWebhook("light", "sports", CALLBACK))
    await webhooks.register_topic(hub, ANONYMOUS, "sports", with_key=False)
    _, outcome = await webhooks.publish(hub, ANONYMOUS, "sports", b"x", "text/plain")
    assert outcome.serial == 1


@pytest.mark.spec("WEB-02")
async def test_a_topic_with_a_key_is_for_its_holder(webhooks: Webhooks, hub: Hub) -> None:
    key = await webhooks.register_topic(hub, ANONYMOUS, "sports", with_key=True)
    assert key
    for wrong in (None, "", "x" + key, "\ud800"):
        with pytest.raises(NotPermitted):
            await webhooks.publish(hub, ANONYMOUS, "sports", b"x", "text/plain", wrong)
    await webhooks.publish(hub, ANONYMOUS, "sports", b"x", "text/plain", key)
    await webhooks.publish(hub, SERVICE, "sports", b"x", "text/plain")


async def test_a_hub_without_open_topics_wants_permission(webhooks: Webhooks, closed: Hub) -> None:
    with pytest.raises(NotPermitted):
        await webhooks.register_topic(closed, ANONYMOUS, "sports", with_key=False)
    granted = Identity("ann", grants=(Grant("sports", publish=True, subscribe=True),))
    await webhooks.register_topic(closed, granted, "sports", with_key=False)
    with pytest.raises(NotPermitted):
        await webhooks.publish(closed, ANONYMOUS, "sports", b"x", "text/plain")
    await webhooks.publish(closed, granted, "sports", b"x", "text/plain")
    request = WantedWebhook("light", "sports", "http://a.example/")
    with pytest.raises(NotPermitted):
        await webhooks.subscribe(closed, ANONYMOUS, request)
    await webhooks.subscribe(closed, granted, request)


@pytest.mark.spec("WEB-05")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "[::1]", "0x7f.1"])
async def test_private_callbacks_are_refused_unless_allowed(
    webhooks: Webhooks, closed: Hub, hub: Hub, host: str
) -> None:
    request = WantedWebhook("plain", "sports", f"http://{host}/")
    with pytest.raises(NotPermitted) as refused:
        await webhooks.subscribe(closed, SERVICE, request)
    assert host in refused.value.message
    await webhooks.subscribe(hub, SERVICE, request)


async def test_who_subscribes_again_keeps_the_webhook(webhooks: Webhooks, hub: Hub) -> None:
    request = WantedWebhook("plain", "sports", CALLBACK, secret=b"one")
    first = await webhooks.subscribe(hub, ANONYMOUS, request)
    again = msgspec.structs.replace(request, secret=b"two", lease_seconds="100")
    second = await webhooks.subscribe(hub, ANONYMOUS, again)
    assert first.id == second.id
    assert second.secret == b"two"
    assert second.expires_at is not None
    assert await webhooks.list(hub) == [second]
    await webhooks.unsubscribe(hub, ANONYMOUS, request)
    assert await webhooks.list(hub) == []
    with pytest.raises(NotSubscribed):
        await webhooks.unsubscribe(hub, ANONYMOUS, request)


@pytest.mark.spec("WEB-05")
async def test_a_hub_has_a_quota_of_webhooks(webhooks: Webhooks, hub: Hub) -> None:
    requests = [WantedWebhook("plain", "sports", f"http://a.example/{n}") for n in range(4)]
    for request in requests[:3]:
        await webhooks.subscribe(hub, ANONYMOUS, request)
    with pytest.raises(QuotaExceeded):
        await webhooks.subscribe(hub, ANONYMOUS, requests[3])
    await webhooks.subscribe(hub, ANONYMOUS, requests[0])


async def test_bad_requests_say_what_is_wrong(webhooks: Webhooks, hub: Hub) -> None:
    for wrong, word in (
        (WantedWebhook("plain", "sports", "nonsense"), "nonsense"),
        (WantedWebhook("plain", "sports", CALLBACK, secret=b"x" * 200), "secret"),
        (WantedWebhook("plain", "sports", CALLBACK, key=b"x"), "key"),
        (WantedWebhook("plain", "sports", CALLBACK, lease_seconds="soon"), "soon"),
        (WantedWebhook("plain", "", CALLBACK), "channel"),
    ):
        with pytest.raises(BadRequest) as refused:
            await webhooks.subscribe(hub, ANONYMOUS, wrong)
        assert word in refused.value.message


@pytest.mark.spec("WEB-04")
async def test_a_webhook_that_the_hub_holds_up_waits_twice_as_long_each_time(
    alone: Alone, webhooks: Webhooks, hub: Hub
) -> None:
    """As where its dead letters are over the quota."""
    wanted = WantedWebhook("plain", "news", CALLBACK)
    await webhooks.subscribe(hub, Identity(level=Level.SERVICE), wanted)
    (push,) = alone.node.driver._driven.values()
    if push.task is not None:
        await push.task
    for number, seconds in enumerate([push.pause(60.0) for _ in range(8)]):
        least = min(60.0, 2.0**number)
        assert least <= seconds <= 1.25 * least
    alone.node.driver._kick(push)
    assert push.task is None
    alone.node.driver.hub_changed(hub.name)  # its quota may be larger
    assert not push.paused
