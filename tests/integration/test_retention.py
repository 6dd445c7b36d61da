"""Retention on real servers: what goes by itself, what never does, and how both can be seen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness.admin import HUB, admin_of, service_of
from harness.clock import FakeClock
from harness.journal import QUIET, stored_serials
from harness.restarting import RestartingHub
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.topics import STORED, HttpTopic, texts, until
from hubbub.domain.rules import Quotas

pytestmark = pytest.mark.spec("ONCE-03")

SOON: dict[str, Any] = {"channel__retentionInterval": 0.05, "channel__lagInterval": 0.05}
LIMITED = {
    "young": msgspec.structs.replace(STORED, max_age_seconds=60),
    "few": msgspec.structs.replace(STORED, max_stored_messages=2),
    "dropping": msgspec.structs.replace(STORED, max_stored_messages=2, drop_unread=True),
    "done": msgspec.structs.replace(STORED, reclaim_acknowledged=True),
}
DEADLINE_SECONDS = 10.0


async def soon(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it holds; what runs in the background may take its time."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not await check():
            await asyncio.sleep(0.01)


async def left(hub: RunningHub, channel: str) -> list[str]:
    """The messages that are still there."""
    path = f"/v1/hubs/acme/channels/{channel}/messages"
    async with hub.http.get(path, params={"after": "0"}) as reply:
        page = await reply.json()
    return [message["payload"]["text"] for message in page["messages"]]


async def put(topic: HttpTopic, *bodies: str) -> None:
    for body in bodies:
        assert (await topic.put(body)).status == 200


async def series(hub: RunningHub) -> dict[str, float]:
    """The figures of hub `acme`; single subscriptions are named behind a slash."""
    page = await hub.metrics()
    return {
        sample.name + (f"/{sample.labels['name']}" if "name" in sample.labels else ""): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.labels.get("hub") == "acme"
    }


async def test_messages_go_when_they_are_too_old(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(open_hub(namespaces=LIMITED), clock=clock, **SOON)
    topic = HttpTopic(hub, "young:a")
    await put(topic, "a", "b")
    clock.advance(40)
    await put(topic, "c")
    clock.advance(30)

    async def only_the_last() -> bool:
        return await left(hub, "young:a") == ["c"]

    await soon(only_the_last)
    assert (await topic.put("d")).json["channelSerial"] == "4"


async def test_nothing_goes_that_somebody_still_has_to_get_whatever_restarts(
    tmp_path: Path,
) -> None:
    life = RestartingHub(tmp_path, open_hub(namespaces=LIMITED), **SOON)
    async with life:
        hub = await life.restart()
        topic = HttpTopic(hub, "few:a")
        await topic.subscribe("slow")
        await topic.subscribe("quick")
        await put(topic, *"abcdef")
        await topic.ack("quick", upTo="6")
        assert (await topic.ack("slow", upTo="1")).status == 200

        async def shorter() -> bool:
            return len(await left(hub, "few:a")) < 6

        await soon(shorter)
        assert await left(hub, "few:a") == list("bcdef")
        hub = await life.restart()
        topic = HttpTopic(hub, "few:a")
        await put(HttpTopic(hub, "few:b"), *"xyz")

        async def other_is_short() -> bool:
            return await left(hub, "few:b") == ["y", "z"]

        await soon(other_is_short)
        assert texts(await topic.get("slow", limit=9)) == list("bcdef")
        assert (await topic.state("slow")).json["missed"] == 0


async def test_what_everyone_has_acknowledged_goes_also_after_a_restart(tmp_path: Path) -> None:
    life = RestartingHub(tmp_path, open_hub(namespaces=LIMITED), **SOON)
    async with life:
        hub = await life.restart()
        topic = HttpTopic(hub, "done:a")
        for name in ("one", "two"):
            await topic.subscribe(name)
        await put(topic, *"abcd")
        await topic.ack("one", upTo="4")

        await life.stop()
        hub = await life.restart()
        topic = HttpTopic(hub, "done:a")
        await put(HttpTopic(hub, "few:b"), *"xyz")

        async def a_pass_was_made() -> bool:
            return await left(hub, "few:b") == ["y", "z"]

        await soon(a_pass_was_made)
        assert await left(hub, "done:a") == list("abcd")
        await topic.ack("two", upTo="3")

        async def only_the_last() -> bool:
            return await left(hub, "done:a") == ["d"]

        await soon(only_the_last)
        await put(topic, "e")
        assert texts(await topic.get("two", limit=9)) == ["d", "e"]
        assert (await topic.put("a")).json["channelSerial"] == "6"


@pytest.mark.spec("PIPE-01")
async def test_what_goes_is_in_the_journal_first_unless_the_rules_keep_it_out(
    start_server: StartHub, tmp_path: Path
) -> None:
    secret = msgspec.structs.replace(LIMITED["few"], journal="off")
    namespaces = LIMITED | {"secret": secret}
    hub = await start_server(open_hub(namespaces=namespaces), **SOON, **QUIET)
    bodies = [str(number) for number in range(1, 51)]
    await put(HttpTopic(hub, "secret:a"), *bodies)
    await put(HttpTopic(hub, "few:a"), *bodies)

    async def both_are_short() -> bool:
        return all([await left(hub, name) == bodies[-2:] for name in ("few:a", "secret:a")])

    await soon(both_are_short)
    found = stored_serials(tmp_path / "data" / "journal")
    assert set(found["few:a"]) >= set(range(1, 49))
    assert "secret:a" not in found


@pytest.mark.spec("ADMIN-01", "ADMIN-05")
async def test_what_a_limit_drops_is_counted_and_can_be_seen(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(namespaces=LIMITED), **SOON, channel__lagSeries=1)
    topic = HttpTopic(hub, "dropping:a", hub.token("ann"))
    await topic.subscribe("slow")
    await topic.subscribe("quick")
    for serial, body in enumerate("abcdef", 1):
        await put(topic, body)
        await topic.ack("quick", upTo=str(serial))

    async def all_but_two_are_missed() -> bool:
        return bool((await topic.state("slow")).json["missed"] == 4)

    await soon(all_but_two_are_missed)
    for _ in range(2):
        assert texts(await topic.get("slow", limit=9)) == ["e", "f"]
    path = f"{HUB}/channels/dropping:a/subscriptions/u:ann"
    slow = (await admin_of(hub)("GET", f"{path}/slow")).json
    assert (slow["missed"], slow["lag"], slow["floor"], slow["head"]) == (4, 2, "4", "6")
    assert (await admin_of(hub)("GET", f"{path}/quick")).json["missed"] == 0

    async def lag_is_known() -> bool:
        return (await series(hub)).get("hubbub_topic_lag") == 2

    await soon(lag_is_known)
    found = await series(hub)
    assert found["hubbub_topic_missed_total"] == 4
    assert found["hubbub_reclaimed_messages_total"] == 4
    assert found["hubbub_reclaimed_bytes_total"] == 4
    assert found["hubbub_durable_subscriptions"] == 2
    assert found["hubbub_topic_lag_largest"] == 2
    assert found["hubbub_subscription_lag/slow"] == 2
    assert "hubbub_subscription_lag/quick" not in found
    assert found["hubbub_subscription_unacknowledged/slow"] == 2
    assert found["hubbub_subscription_redeliveries/slow"] == 2
    assert found["hubbub_subscription_dead_letters/slow"] == 0


@pytest.mark.spec("ADMIN-05")
async def test_puts_gets_and_acknowledgements_are_counted(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(namespaces=LIMITED), **SOON)
    topic = HttpTopic(hub, "done:a")
    await topic.subscribe("s", maxDeliveries=2)
    await topic.put("a")
    for _ in range(2):
        await topic.put("b", producer="p", sequence="1")
    for _ in range(2):
        assert texts(await topic.get("s", limit=2)) == ["a", "b"]
    await topic.ack("s", serials=["1"])
    waiting = asyncio.ensure_future(topic.get("s", wait=20))

    async def dead_letter_is_put() -> bool:
        found = await series(hub)
        return bool(found["hubbub_topic_dead_letters_total"] and found["hubbub_waiting_consumers"])

    await soon(dead_letter_is_put)
    found = await series(hub)
    assert (found["hubbub_puts_total"], found["hubbub_put_duplicates_total"]) == (2, 1)
    assert found["hubbub_publish_seconds_count"] == 3
    assert (found["hubbub_topic_gets_total"], found["hubbub_topic_redeliveries_total"]) == (4, 2)
    assert found["hubbub_topic_acknowledgements_total"] == 1
    await topic.put("c")
    assert texts(await waiting) == ["c"]
    assert (await series(hub))["hubbub_waiting_consumers"] == 0


@pytest.mark.spec("ADMIN-01")
async def test_durable_subscriptions_are_listed_in_pages_by_channel_and_owner(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=STORED), open_hub("other", rules=STORED))
    for user in ("ann", "bob"):
        for channel in ("a", "b/c"):
            for name in ("x", "y"):
                await HttpTopic(hub, channel, hub.token(user)).subscribe(name)
    await HttpTopic(hub, "a", None).subscribe()
    await HttpTopic(hub, "a", None, "other").subscribe()
    service = service_of(hub)

    def names(items: list[Any]) -> list[tuple[str, str, str]]:
        return [(item["channel"], item["owner"], item["name"]) for item in items]

    everyone = names(await service.all(f"{HUB}/subscriptions", 2))
    assert everyone == sorted(everyone)
    assert len(everyone) == 9
    assert everyone[0] == ("a", "anonymous", "default")
    ann = await service.all(f"{HUB}/subscriptions?owner=u:ann", 3)
    assert names(ann) == [(c, "u:ann", n) for c in ("a", "b/c") for n in ("x", "y")]
    both = await service.all(f"{HUB}/subscriptions?owner=u:bob&channel=b/c", 1)
    assert names(both) == [("b/c", "u:bob", "x"), ("b/c", "u:bob", "y")]
    assert (await service.all(f"{HUB}/subscriptions?channel=nowhere", 5)) == []
    one = await service("GET", f"{HUB}/channels/b%2Fc/subscriptions/u:bob/y")
    assert one.json == both[1]
    assert one.json["options"]["shared"] is False


@pytest.mark.spec("ADMIN-01")
async def test_a_durable_subscription_is_removed_for_good(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(namespaces=LIMITED), **SOON)
    service = service_of(hub)
    topic = HttpTopic(hub, "few:a", hub.token("ann"))
    await topic.subscribe("s")
    await put(topic, *"abcde")
    path = f"{HUB}/channels/few:a/subscriptions/u:ann/s"
    assert (await service("GET", path)).json["lag"] == 5
    waiting = asyncio.ensure_future(topic.get("s", wait=20, ackUpTo=5))
    await until(hub.waiting_consumers)
    assert (await service("DELETE", path)).status == 204
    assert (await waiting).error == (404, "not_subscribed")
    assert (await topic.state("s")).error == (404, "not_subscribed")

    async def shorter() -> bool:
        return await left(hub, "few:a") == ["d", "e"]

    await soon(shorter)
    for method in ("GET", "DELETE"):
        assert (await service(method, path)).status == 404
    audit = (await admin_of(hub)("GET", "/v1/admin/audit?action=subscription.delete")).json
    (entry,) = audit["items"]
    assert (entry["name"], entry["before"]["owner"]) == ("few:a", "u:ann")


@pytest.mark.spec("ADMIN-01", "OPS-03")
async def test_subscriptions_are_seen_where_a_quota_keeps_their_channels_closed(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=STORED, quotas=Quotas(channels=1)), channel__idleTimeout=0)
    service = service_of(hub)
    for channel in ("a", "b"):
        topic = HttpTopic(hub, channel, hub.token("ann"))
        await until(lambda: hub.server.owner.channels.count() == 0)
        await topic.subscribe()
        await put(topic, "x")
    listed = await service.all(f"{HUB}/subscriptions", 5)
    assert [(each["channel"], each["lag"]) for each in listed] == [("a", 1), ("b", 1)]
