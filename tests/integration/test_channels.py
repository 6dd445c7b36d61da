"""Channels and hubs: batches, and how they come and go."""

from __future__ import annotations

import pytest

from harness.clock import FakeClock
from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.rules import HubConfiguration, HubSettings, Quotas, Rules

KEPT = Rules(public=True, client_publish=True, allow_anonymous=True, store=True)


# -- batches ------------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-08")
async def test_subscribing_in_a_batch_lists_what_worked_and_why_the_rest_did_not(
    start_server: StartHub,
) -> None:
    hub = await start_server(open_hub(namespaces={"private": Rules()}), session__maxChannels=3)
    socket = await hub.socket()
    await socket.send(
        "Subscribe",
        reqID=77,
        channels=[
            {"channel": name} for name in ("a", "private:x", "a", "b\t", "b", "", "c", "d", "a")
        ],
    )
    answer = await socket.expect("Subscribe")
    assert answer["reqID"] == 77
    assert answer["subscribedChannels"] == ["a", "b", "c"]
    assert [each["serial"] for each in answer["channels"]] == ["0", "0", "0"]
    refused = [(each["channel"], each["error"]["code"]) for each in answer["failures"]]
    assert refused == [
        ("private:x", "not_permitted"),
        ("b\t", "invalid_name"),
        ("", "invalid_name"),
        ("d", "too_many_channels"),
    ]
    assert all(each["error"]["message"] for each in answer["failures"])
    again = await socket.subscribe("a", "b")
    assert again["subscribedChannels"] == ["a", "b"]  # what it has already counts only once


@pytest.mark.spec("LIVE-08")
async def test_unsubscribing_in_a_batch_ends_only_what_it_names(hub: RunningHub) -> None:
    socket = await hub.socket()
    await socket.subscribe("a", "b", "c")
    await socket.send("Unsubscribe", reqID=5, channels=["a", "never", "c", "a"])
    answer = await socket.expect("Unsubscribe")
    assert answer["reqID"] == 5
    assert answer["unsubscribedChannels"] == ["a", "c"]
    refused = [(each["channel"], each["error"]["code"]) for each in answer["failures"]]
    assert refused == [("never", "not_found"), ("a", "not_found")]
    publisher = await hub.socket()
    for channel in ("a", "c", "b"):
        await publisher.publish(channel, {"json": channel})
    assert (await socket.expect("Publish"))["channel"] == "b"


@pytest.mark.spec("LIVE-08")
async def test_a_batch_of_publishes_is_acknowledged_once_in_order_and_where_asked(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(namespaces={"private": Rules(), "kept": KEPT}))
    socket = await hub.socket()
    await socket.subscribe("a", "kept:a")
    items = [
        {"channel": "a", "payload": {"json": 1}, "reqID": 1},
        {"channel": "kept:a", "payload": {"json": 2}, "extra": {"store": True}, "reqID": 2},
        {"channel": "private:a", "payload": {"json": 3}, "reqID": 3},
        {"channel": "a", "payload": {"json": 4}},
        {"channel": "a", "payload": {"json": 5, "text": "two at once"}, "reqID": 5},
        {"channel": "a", "payload": {"json": 6}, "reqID": 6},
    ]
    await socket.send("Publish", publishes=items)
    heard = {"a": [], "kept:a": []}  # type: dict[str, list[int]]
    acknowledged: list[dict[str, object]] = []
    while not acknowledged or sum(map(len, heard.values())) < 4:
        said = await socket.next()
        if said["event"] == "Ack":
            acknowledged += said["payload"]["published"]
        elif said["event"] == "Error":  # what cannot be read is answered by itself
            assert said["payload"]["reqID"] == 5
        elif said["event"] == "Publish":
            heard[said["payload"]["channel"]].append(said["payload"]["payload"]["json"])
    assert heard == {"a": [1, 4, 6], "kept:a": [2]}
    by_id = {each["reqID"]: each for each in acknowledged}
    assert [by_id[n]["success"] for n in (1, 2, 3, 6)] == [True, True, False, True]
    assert by_id[2]["channelSerial"] == "1"
    assert by_id[6]["channelSerial"] == "3"


# -- channels come and go -----------------------------------------------------------------------


@pytest.mark.spec("LIVE-09")
async def test_a_channel_comes_with_its_first_use_and_goes_when_idle(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    hub = await start_server(
        open_hub(namespaces={"kept": KEPT}), clock=clock, channel__idleTimeout=10
    )
    owner = hub.server.owner
    assert owner.channels.count("acme") == 0
    socket = await hub.socket()
    await socket.subscribe("live", "kept:a")
    publisher = await hub.socket()
    await publisher.publish("other", {"json": 1})
    await publisher.publish("kept:a", {"json": 1}, store=True)
    assert owner.channels.count("acme") == 3
    clock.advance(11)
    owner.channels.close_idle(10)
    assert sorted(owner.channels.open) == [
        ("acme", "kept:a"),
        ("acme", "live"),
    ]  # somebody listens to these
    await socket.send("Unsubscribe", channels=["live", "kept:a"])
    await socket.find("Unsubscribe")
    clock.advance(11)
    owner.channels.close_idle(10)
    assert owner.channels.count("acme") == 0
    # Their successors go on: stored serials where they were, live ones in a new epoch.
    assert (await publisher.publish("kept:a", {"json": 2}, store=True))["channelSerial"] == "2"
    assert (await publisher.publish("live", {"json": 2}))["channelSerial"] == "1"


@pytest.mark.spec("LIVE-09")
async def test_a_channel_that_is_loading_lets_publishers_wait_not_fail(start_hub: StartHub) -> None:
    """Many at once on the first use of a stored channel: all get in, in one order."""
    hub = await start_hub(open_hub(rules=KEPT))
    sockets = [await hub.socket() for _ in range(5)]
    item = {"channel": "new", "payload": {"json": 1}, "extra": {"store": True}, "reqID": 1}
    for socket in sockets:
        await socket.send("Publish", publishes=[item] * 4)
    serials = []
    for socket in sockets:
        acknowledged = await socket.find("Ack")
        serials += [int(each["channelSerial"]) for each in acknowledged["published"]]
    assert sorted(serials) == list(range(1, 21))


@pytest.mark.spec("LIVE-09")
async def test_a_hub_comes_into_being_by_use_only_where_that_is_allowed(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    closed = await start_server()
    headers = {"Authorization": f"Bearer {closed.token(hub='unheard-of')}"}
    socket = await closed.raw_socket("unheard-of", additional_headers=headers)
    assert (await socket.expect("Disconnect"))["code"] == "hub_not_found"
    await closed.close()

    hub = await start_server(clock=clock, engine__allowDynamicHubs=True, hub__closeTimeout=10)
    token = hub.token("ann", "fresh")
    socket = await hub.socket("fresh", token=token)
    node = hub.server.node
    assert "fresh" in node.hubs
    assert (await socket.subscribe("a"))["failures"][0]["error"]["code"] == "not_permitted"
    await socket.connection.close()
    while node.session_count:
        await (await hub.socket()).connection.close()
        node.sweep()
    clock.advance(11)
    node.sweep()
    assert "fresh" not in node.hubs
    again = await hub.socket("fresh", token=token)
    await again.send("Ping", reqID=1)
    await again.find("Pong")


@pytest.mark.spec("LIVE-09", "OPS-03")
async def test_hubs_that_were_only_asked_for_leave_nothing_behind(start_server: StartHub) -> None:
    """Names are free to guess: each one must not cost memory for ever."""
    clock = FakeClock()
    hub = await start_server(clock=clock, engine__allowDynamicHubs=True, hub__closeTimeout=10)
    for number in range(50):
        async with hub.http.get(f"/v1/hubs/guess{number}/channels/a/messages") as answer:
            assert answer.status == 401
    node = hub.server.node
    clock.advance(11)
    node.sweep()
    assert set(node.hubs) <= {"acme"}
    assert set(node.counters) <= {"acme"}
    assert "guess" not in await hub.metrics()


@pytest.mark.spec("LIVE-09", "LIVE-16")
async def test_a_quota_of_channels_counts_those_in_use(start_server: StartHub) -> None:
    clock = FakeClock()
    limited = open_hub(quotas=Quotas(channels=2))
    hub = await start_server(limited, open_hub("other"), clock=clock, channel__idleTimeout=10)
    socket = await hub.socket()
    answer = await socket.subscribe("a", "b", "c")
    assert answer["subscribedChannels"] == ["a", "b"]
    assert answer["failures"][0]["error"]["code"] == "quota_exceeded"
    assert (await socket.publish("d", {"json": 1}))["error"]["code"] == "quota_exceeded"
    async with hub.http.post("/v1/hubs/acme/channels/e/messages", data="x") as refused:
        assert refused.status == 429
    elsewhere = await hub.socket("other")
    assert (await elsewhere.publish("c", {"json": 1}))["success"]
    await socket.send("Unsubscribe", channels=["a"])
    await socket.find("Unsubscribe")
    clock.advance(11)
    hub.server.owner.channels.close_idle(10)
    assert (await socket.subscribe("c"))["subscribedChannels"] == ["c"]


@pytest.mark.spec("LIVE-09", "LIVE-11")
async def test_a_hub_that_is_deleted_takes_no_new_sessions(start_hub: StartHub) -> None:
    hub = await start_hub(HubConfiguration("acme", HubSettings(allow_anonymous=True)))
    socket = await hub.socket()
    token = hub.token()
    for kind, name in (("hub", ""), ("declared", "")):
        await hub.server.directory.delete("acme", kind, name)
    assert (await socket.closed())[0] == 4404
    late = await hub.raw_socket(additional_headers={"Authorization": f"Bearer {token}"})
    assert (await late.expect("Disconnect"))["code"] == "hub_not_found"
