"""Receivers and topics that behave badly, seen from the doors of webhooks: nothing that they do
hangs, floods or follows, and what can still arrive does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harness.callbacks import Callbacks, eventually
from harness.light import Light
from harness.receivers import Received, Reply, confirm, whole_answer
from harness.running_hub import RunningHub, StartHub
from harness.topics import topic_hub
from harness.websub import WebSub
from hubbub.domain.permissions import Level

pytestmark = pytest.mark.spec("WEB-02", "WEB-05")

GIGABYTE = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 1_000_000


async def hang(_: Received) -> Reply:
    await asyncio.Event().wait()
    raise AssertionError


CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\nx"
BAD: dict[str, Callable[[Received], Reply | Awaitable[Reply]]] = {
    "hangs": hang,
    "sends a gigabyte": lambda _: GIGABYTE,
    "closes early": lambda _: CUT,
    "says nothing that is HTTP": lambda _: b"\x00" * 100,
    "1xx without end": lambda _: b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000,
    "redirects": lambda asked: whole_answer(302, Location=f"http://127.0.0.1:9{asked.target}"),
    "404": lambda _: 404,
    "500": lambda _: 500,
}


async def start(start_hub: StartHub, **more: Any) -> RunningHub:
    """Impatient, with open topics; it may call this machine."""
    settings: dict[str, Any] = {"open_topics": True, "callback_addresses": "loopback", **more}
    return await start_hub(
        topic_hub(**settings),
        webhooks__firstRetry=0.05,
        webhooks__longestRetry=0.1,
        webhooks__timeout=0.3,
        webhooks__maxResponseBytes=65536,
        webhooks__fetchMaxBytes=100_000,
    )


async def status_of(hub: RunningHub, webhook: str) -> Any:
    token = hub.token(user=None, level=Level.SERVICE)
    async with hub.http.get(
        f"/v1/hubs/acme/webhooks/{webhook}", headers={"Authorization": f"Bearer {token}"}
    ) as answer:
        return (await answer.json()).get("status"), answer.status


# -- receivers ----------------------------------------------------------------------------------


@pytest.mark.spec("WEB-04")
@pytest.mark.parametrize("name", sorted({*BAD} - {"sends a gigabyte"}))
async def test_a_receiver_that_behaves_badly_gets_its_messages_when_it_is_well(
    start_hub: StartHub, name: str
) -> None:
    hub = await start(start_hub)
    light = Light(hub)
    await light.register("a")
    async with Callbacks(BAD[name]) as callbacks:
        subscribed = await light.subscribe(callbacks.port, "a")
        assert subscribed.status == 200
        for text in ("one", "two"):
            assert (await light.publish("a", text)).status == 200
        await callbacks.until(lambda: len(callbacks.messages) >= 2)
        assert set(callbacks.bodies) == {b"one"}

        callbacks.respond = confirm
        await callbacks.until(lambda: callbacks.bodies[-1] == b"two")

    attempts = [int(each.headers["hubbub-attempt"]) for each in callbacks.messages]
    keys = [each.headers["idempotency-key"] for each in callbacks.messages]
    assert attempts[:-1] == list(range(1, len(attempts)))
    assert attempts[-1] == 1
    assert len(set(keys)) == 2


async def test_an_answer_without_end_is_cut_off_and_its_status_counts(
    start_hub: StartHub,
) -> None:
    hub = await start(start_hub)
    light = Light(hub)
    await light.register("a")
    async with Callbacks(BAD["sends a gigabyte"]) as callbacks:
        await light.subscribe(callbacks.port, "a")
        for text in ("one", "two"):
            await light.publish("a", text)
        assert (await callbacks.next()).body == b"one"
        assert (await callbacks.next()).body == b"two"


async def test_410_ends_a_subscription(start_hub: StartHub) -> None:
    hub = await start(start_hub)
    light = Light(hub, Accept="application/json")
    await light.register("a")
    async with Callbacks(lambda _: 410) as callbacks:
        webhook = (await light.subscribe(callbacks.port, "a")).json["id"]
        await light.publish("a", "one")
        await callbacks.next()

        async def ended() -> bool:
            return bool((await status_of(hub, webhook))[1] == 404)

        await eventually(ended)


async def test_messages_wait_in_order_while_a_subscriber_is_down(start_hub: StartHub) -> None:
    hub = await start(start_hub)
    light = Light(hub)
    await light.register("a")
    async with Callbacks() as callbacks:
        await light.subscribe(callbacks.port, "a")
        await light.publish("a", "0")
        await callbacks.next()
    for number in range(1, 6):
        assert (await light.publish("a", str(number))).status == 200
    async with Callbacks(port=callbacks.port) as again:
        await again.got(5)
    assert again.bodies == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "0x7f.1", "169.254.169.254"])
async def test_an_address_of_this_machine_or_link_is_refused(
    start_hub: StartHub, address: str
) -> None:
    """It is checked again when it is connected to (see the tests of the driver)."""
    hub = await start(start_hub, callback_addresses="public")
    light = Light(hub, Accept="application/json")
    await light.register("a")
    async with Callbacks() as callbacks:
        answer = await light.subscribe(callbacks.port, "a", address=address)
        assert (answer.status, answer.json["error"]["code"]) == (403, "not_permitted")
        await light.publish("a", "secret")
        assert callbacks.connections == 0


@pytest.mark.spec("WEB-03")
async def test_a_callback_whose_name_leads_to_this_machine_is_refused(
    start_hub: StartHub,
) -> None:
    hub = await start(start_hub, callback_addresses="public")
    websub = WebSub(hub, "/v1/hubs/acme/websub")
    async with Callbacks() as callbacks:
        named = callbacks.at().replace("127.0.0.1", "localhost")
        assert (await websub.subscribe(named, websub.own("a")))[0] == 403
    assert callbacks.connections == 0


# -- WebSub -------------------------------------------------------------------------------------


@pytest.mark.spec("WEB-03")
@pytest.mark.parametrize("name", BAD)
async def test_a_callback_that_behaves_badly_confirms_nothing(
    start_hub: StartHub, name: str
) -> None:
    hub = await start(start_hub)
    websub = WebSub(hub, "/v1/hubs/acme/websub")
    topic = websub.own("a")
    async with Callbacks(BAD[name]) as callbacks:
        assert (await websub.subscribe(callbacks.at(), topic))[0] == 202
        await callbacks.next()
        async with hub.http.post("/v1/hubs/acme/channels/a/messages?store=1", data=b"x") as answer:
            assert answer.status == 200
        assert [each.state for each in await websub.webhooks()] in ([], ["pending"])
    assert callbacks.messages == []


@pytest.mark.spec("WEB-03")
@pytest.mark.parametrize(
    "behaviour",
    [
        hang,
        lambda _: whole_answer(200, b"x" * 100_001),
        lambda _: GIGABYTE,
        lambda _: CUT,
        lambda _: whole_answer(302, Location="http://127.0.0.1:9/"),
        lambda _: 403,
        lambda _: 404,
        lambda _: 500,
    ],
    ids=["slow", "huge", "gigabyte", "cut", "redirect", "refuses", "not there", "error"],
)
async def test_a_topic_that_behaves_badly_is_fetched_when_it_is_well(
    start_hub: StartHub, behaviour: Any
) -> None:
    hub = await start(start_hub)
    websub = WebSub(hub, "/v1/hubs/acme/websub")
    async with Callbacks() as callbacks, Callbacks(behaviour) as site:
        topic = site.at("/feed")
        await websub.active(callbacks, topic)
        assert (await websub.ask(mode="publish", url=topic))[0] == 202
        await site.next()

        site.respond = lambda _: whole_answer(200, b"<feed/>", Content_Type="application/rss+xml")
        assert (await websub.ask(mode="publish", url=topic))[0] == 202
        told = await callbacks.next()
        assert (told.body, told.headers["content-type"]) == (b"<feed/>", "application/rss+xml")


@pytest.mark.spec("WEB-03")
async def test_a_topic_on_a_private_address_is_not_fetched(start_server: StartHub) -> None:
    """A ping must not make the hub look into its own network."""
    hub = await start(start_server)
    websub = WebSub(hub, "/v1/hubs/acme/websub")
    strict = topic_hub(open_topics=True).settings
    async with Callbacks() as callbacks, Callbacks() as site:
        await websub.active(callbacks, site.at("/feed"))
        await hub.server.directory.put("acme", "hub", "", strict)
        assert (await websub.ask(mode="publish", url=site.at("/feed")))[0] == 202
        counts = hub.server.driver.counters["acme"].fetches

        async def given_up() -> bool:
            return counts["given_up"] > 0

        await eventually(given_up)
        assert counts["refused_address"] == 1
    assert site.connections == 0
