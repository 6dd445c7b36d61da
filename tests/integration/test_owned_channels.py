"""What the owner of a channel decides binds every door: participants, and whether it is active."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.admin import client_of
from harness.callbacks import Callbacks, eventually
from harness.engine import Cluster, publish
from harness.push_services import BrowserService
from harness.running_hub import RunningHub, StartHub
from harness.topics import STORED, HttpTopic, TopicSocket, until
from harness.zeromq import ANY_PORT, ZeroMqClients, zeromq_clients
from hubbub.domain import requests
from hubbub.domain.commands.objects import HChannel
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.messages import JSON
from hubbub.domain.notices import Published, Subscribed, Unsubscribed
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.requests import (
    History,
    PresenceQuery,
    Producer,
    ProducerOpen,
    Publish,
    PublishItem,
    Request,
    Subscribe,
    SubscribeItem,
    TopicAck,
    TopicGet,
    TopicSubscribe,
)
from hubbub.domain.rules import HubConfiguration, HubSettings, Rules
from hubbub.domain.search import Search
from hubbub.engine.directory import Directory
from hubbub.engine.webhooks.service import Webhooks
from hubbub.ports.storage import Store
from hubbub.protocols.json.codec import JsonCodec

pytestmark = pytest.mark.spec("CMD-02")

CLUB = "club"
OPEN = msgspec.structs.replace(STORED, push=True, presence=True, store_by_default=True)
HUB = HubConfiguration(
    hub="acme",
    settings=HubSettings(
        commands=True,
        default_rules="open",
        allow_anonymous=True,
        callback_addresses="loopback",
        open_topics=True,
    ),
    rules={"open": OPEN},
)


async def decide(
    directory: Directory, store: Store, *participants: str, active: bool = True, channel: str = CLUB
) -> None:
    jids = tuple(f"{user}@acme" for user in participants)
    record = HChannel(channel, "ann@acme", jids, active)
    assert await store.save_channel_record("acme", record, 10, 10) in ("created", "replaced")
    await directory.binding_changed("acme", channel)


class Stage:
    """A hub whose channels are open to everybody, but for one that has an owner."""

    def __init__(self, hub: RunningHub, clients: ZeroMqClients, callbacks: Callbacks) -> None:
        self.hub = hub
        self.clients = clients
        self.callbacks = callbacks
        self.refusals: list[str] = []
        """Status and text of what was refused over HTTP and WebSocket."""

    async def decide(self, *participants: str, active: bool = True) -> None:
        await decide(self.hub.server.directory, self.hub.server.store, *participants, active=active)

    def token(self, user: str) -> str:
        level = Level.SERVICE if user == "service" else Level.CLIENT
        return self.hub.token(user, level=level)

    def topic(self, user: str) -> HttpTopic:
        return HttpTopic(self.hub, CLUB, self.token(user))

    async def http(self, user: str, method: str, path: str, **more: Any) -> str:
        """The code of the error, or ""."""
        headers = {"Authorization": f"Bearer {self.token(user)}"}
        async with self.hub.http.request(
            method, f"/v1/hubs/acme{path}", headers=headers, **more
        ) as answer:
            if answer.status < 300:
                return ""
            self.refusals.append(f"{answer.status} {await answer.text()}")
            return code_in(await answer.json())

    async def ask(self, user: str, kind: Callable[..., Request], *given: Any, **more: Any) -> str:
        async with await TopicSocket.open(self.hub, JsonCodec(), self.token(user)) as socket:
            heard = await socket.ask(kind, *given, **more)
        for error in (
            getattr(heard, "error", None),
            *(each.error for each in getattr(heard, "failures", ())),
            *(each.error for each in getattr(heard, "results", ())),
        ):
            if error is not None:
                self.refusals.append(str(error))
                return str(error.code)
        return ""

    async def zeromq(self, user: str, *parts: str) -> str:
        kind, said, *_ = await self.clients.make().ask(parts[0], self.token(user), *parts[1:])
        return said.decode() if kind == b"ERROR" else ""


def code_in(shown: Any) -> str:
    return str(shown["error"]["code"])


@pytest.fixture
async def stage(start_hub: StartHub) -> AsyncIterator[Stage]:
    hub = await start_hub(HUB, zeromq__endpoint=ANY_PORT)
    async with zeromq_clients(hub) as clients, Callbacks() as callbacks:
        yield Stage(hub, clients, callbacks)


@pytest.fixture
async def closed_stage(start_hub: StartHub) -> AsyncIterator[Stage]:
    closed = msgspec.structs.replace(OPEN, public=False)
    settings = msgspec.structs.replace(HUB.settings, open_topics=False)
    hub = await start_hub(
        msgspec.structs.replace(HUB, settings=settings, rules={"open": closed}),
        zeromq__endpoint=ANY_PORT,
    )
    async with zeromq_clients(hub) as clients, Callbacks() as callbacks:
        yield Stage(hub, clients, callbacks)


# -- doors ----------------------------------------------------------------------------------------

Door = Callable[[Stage, str], Awaitable[str]]
"""What somebody gets who uses the channel in this way: the code of an error, or ""."""
NUMBERS = count(1)
ITEM = PublishItem(CLUB, "e", b"{}", JSON, store=True)


def _published(item: PublishItem) -> Callable[..., Request]:
    return lambda req_id: Publish((msgspec.structs.replace(item, req_id=req_id),))


async def publish_over_websocket(stage: Stage, user: str) -> str:
    return await stage.ask(user, _published(ITEM))


async def put_over_websocket(stage: Stage, user: str) -> str:
    put = msgspec.structs.replace(ITEM, producer=Producer(f"p{next(NUMBERS)}", 1))
    return await stage.ask(user, _published(put))


async def publish_over_http(stage: Stage, user: str) -> str:
    return await stage.http(user, "POST", "/channels/club/messages", data=b"x")


async def publish_in_a_batch(stage: Stage, user: str) -> str:
    headers = {"Authorization": f"Bearer {stage.token(user)}"}
    batch = {"publishes": [{"channel": CLUB, "payload": {"json": 1}}]}
    async with stage.hub.http.post("/v1/hubs/acme/messages", json=batch, headers=headers) as answer:
        (result,) = (await answer.json())["published"]
    return "" if result["success"] else code_in(result)


async def put_over_http(stage: Stage, user: str) -> str:
    reply = await stage.topic(user).put("x")
    return "" if reply.status == 200 else reply.error[1]


async def put_over_zeromq(stage: Stage, user: str) -> str:
    return await stage.zeromq(user, "put", CLUB, "x")


async def get_over_zeromq(stage: Stage, user: str) -> str:
    said = await stage.zeromq(user, "subscribe", CLUB, json.dumps({"subscription": "z"}))
    return said or await stage.zeromq(user, "get", CLUB, json.dumps({"subscription": "z"}))


async def subscribe_over_websocket(stage: Stage, user: str) -> str:
    return await stage.ask(user, Subscribe, (SubscribeItem(CLUB),))


async def history_over_websocket(stage: Stage, user: str) -> str:
    return await stage.ask(user, History, CLUB)


async def presence_over_websocket(stage: Stage, user: str) -> str:
    return await stage.ask(user, PresenceQuery, CLUB)


async def threads_over_websocket(stage: Stage, user: str) -> str:
    return await stage.ask(user, requests.Threads, CLUB)


async def threads_over_http(stage: Stage, user: str) -> str:
    return await stage.http(user, "GET", "/channels/club/threads")


async def filter_over_websocket(stage: Stage, user: str) -> str:
    return await stage.ask(user, requests.SetFilter, FilterDefinition("f", CLUB, relevant=True))


async def topic_over_websocket(stage: Stage, user: str) -> str:
    said = await stage.ask(user, TopicSubscribe, CLUB, "s")
    if said:
        assert await stage.ask(user, TopicGet, CLUB, "s") == said
        return said
    acknowledged = await stage.ask(user, TopicAck, CLUB, "s", up_to=0)
    return acknowledged or await stage.ask(user, TopicGet, CLUB, "s")


async def producer_over_websocket(stage: Stage, user: str) -> str:
    return await stage.ask(user, ProducerOpen, CLUB, "p")


async def producer_over_http(stage: Stage, user: str) -> str:
    reply = await stage.topic(user).open("p")
    return "" if reply.status == 200 else reply.error[1]


async def history_over_http(stage: Stage, user: str) -> str:
    return await stage.http(user, "GET", "/channels/club/messages")


async def presence_over_http(stage: Stage, user: str) -> str:
    return await stage.http(user, "GET", "/channels/club/presence")


async def dead_letters_over_http(stage: Stage, user: str) -> str:
    return await stage.http(user, "GET", "/channels/club.dead/messages")


async def stream(stage: Stage, user: str) -> str:
    headers = {"Authorization": f"Bearer {stage.token(user)}"}
    path = f"/v1/hubs/acme/events?channel={CLUB}"
    async with stage.hub.http.get(path, headers=headers) as answer:
        return "" if answer.status == 200 else code_in(await answer.json())


async def topic_over_http(stage: Stage, user: str) -> str:
    topic = stage.topic(user)
    for reply in (await topic.subscribe("h"), await topic.get("h")):
        if reply.status != 200:
            return reply.error[1]
    return ""


async def webhook(stage: Stage, user: str) -> str:
    order = {"channel": CLUB, "callback": stage.callbacks.at()}
    return await stage.http(user, "POST", "/webhooks", json=order)


async def following(stage: Stage, user: str) -> str:
    return await stage.http(user, "PUT", f"/push-subscriptions/{CLUB}")


async def search_over_http(stage: Stage, user: str) -> str:
    return await stage.http(user, "GET", f"/search?q=x&channel={CLUB}")


DOORS = (
    publish_over_websocket,
    put_over_websocket,
    publish_over_http,
    publish_in_a_batch,
    put_over_http,
    put_over_zeromq,
    get_over_zeromq,
    subscribe_over_websocket,
    history_over_websocket,
    presence_over_websocket,
    threads_over_websocket,
    threads_over_http,
    filter_over_websocket,
    topic_over_websocket,
    producer_over_websocket,
    producer_over_http,
    history_over_http,
    presence_over_http,
    dead_letters_over_http,
    stream,
    topic_over_http,
    webhook,
    following,
    search_over_http,
)
TRIED = {
    requests.Publish,
    requests.Subscribe,
    requests.History,
    requests.PresenceQuery,
    requests.Threads,
    requests.TopicSubscribe,
    requests.TopicGet,
    requests.TopicAck,
    requests.ProducerOpen,
    Search,
}
"""Requests about a channel that are refused above to who does not take part."""
ELSEWHERE = {
    requests.Unsubscribe,  # takes nothing
    requests.TopicUnsubscribe,
    requests.UnsetFilter,
    requests.ListFilters,
    requests.Restore,  # asks the registry of subscribers for each channel
    requests.DocumentGet,  # a document has no owner
    requests.ChangeDocument,
    requests.MarkNotifications,  # nor have notifications
    requests.NotificationStateQuery,
    requests.NotificationQuery,
}


def test_every_request_about_a_channel_is_tried() -> None:
    """Whoever writes a new one adds it to the doors."""
    about = {"channel", "channels", "topic", "items", "positions", "pattern", "patterns"}
    found = {kind for kind in Request.__subclasses__() if about & set(kind.__struct_fields__)}
    assert found == TRIED | ELSEWHERE


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
async def test_a_door_opens_to_participants_of_an_active_channel(stage: Stage, door: Door) -> None:
    await stage.decide("ann")
    assert await door(stage, "ann") == ""
    assert await door(stage, "eve") == "not_permitted"
    if door is not following:  # the user who is pushed to must take part
        assert await door(stage, "service") == ""
    await stage.decide("ann", active=False)
    for user in ("ann", "eve", "service"):
        assert await door(stage, user) == "not_permitted"
    await stage.decide("eve")
    assert await door(stage, "eve") == ""
    assert await door(stage, "ann") == "not_permitted"


async def test_participants_are_told_that_a_channel_is_inactive(stage: Stage) -> None:
    await stage.decide("ann", active=False)
    for user, told in (("ann", True), ("service", True), ("eve", False)):
        assert await history_over_http(stage, user) == "not_permitted"
        assert ("made it inactive" in stage.refusals[-1]) is told


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
async def test_a_door_tells_nobody_else_that_a_channel_has_an_owner(
    closed_stage: Stage, door: Door
) -> None:
    """In a hub whose channels are closed, where an absent channel is refused, too."""
    stage = closed_stage

    async def refused() -> tuple[str, list[str]]:
        stage.refusals.clear()
        return await door(stage, "eve"), list(stage.refusals)

    absent = await refused()
    assert absent[0] == "not_permitted"
    for active in (True, False):
        await stage.decide("ann", active=active)
        assert await refused() == absent


async def test_a_channel_with_an_owner_stores_whatever_its_rules_say(start_hub: StartHub) -> None:
    live = Rules(public=True, client_publish=True, allow_anonymous=True, live_history=True)
    hub = await start_hub(msgspec.structs.replace(HUB, rules={"open": live}))
    ann = HttpTopic(hub, CLUB, hub.token("ann"))
    for stored in (False, True):
        if stored:
            await decide(hub.server.directory, hub.server.store, "ann")
        path = f"/v1/hubs/acme/channels/{CLUB}/messages"
        assert (await ann.call("POST", f"{path}?store=true", data="x")).status == 200
    kept = await hub.server.store.read_after("acme", CLUB, 0, 10)
    assert [message.payload for message in kept.messages] == [b"x"]


# -- a participant who is removed -----------------------------------------------------------------


async def test_a_removed_participant_loses_every_kind_of_subscription(stage: Stage) -> None:
    hub = stage.hub
    await stage.decide("ann", "eve")
    eve, topic = client_of(hub, "eve"), stage.topic("eve")
    live = await hub.socket(token=stage.token("eve"))
    await live.subscribe(CLUB)
    events = await hub.http.get(
        f"/v1/hubs/acme/events?channel={CLUB}&channel=other",
        headers={"Authorization": f"Bearer {stage.token('eve')}"},
    )
    assert (await topic.subscribe("kept")).status == 200
    waiting = asyncio.create_task(topic.get("kept", wait=20))
    await until(lambda: hub.waiting_consumers() == 1)
    assert await webhook(stage, "eve") == ""
    async with BrowserService() as phone:
        body = {"platform": "webpush", "token": phone.browser("/eve").subscription}
        assert (await eve("PUT", "/v1/hubs/acme/push-tokens", body)).status == 200
        assert await following(stage, "eve") == ""

        await stage.decide("ann")
        assert (await waiting).error == (403, "not_permitted")
        lost = await live.find("Unsubscribe")
        assert [each["channel"] for each in lost["failures"]] == [CLUB]

        async def followed() -> bool:
            return bool(await hub.server.store.read_followings_of("acme", ["eve"]))

        async def gone() -> bool:
            node = hub.server.node
            return not await node.feature(Webhooks).list(node.hub("acme")) and not await followed()

        await eventually(gone)
        secret = stage.topic("ann")
        assert (await secret.put("a secret")).status == 200
        other = HttpTopic(hub, "other", stage.token("ann"))
        assert (await other.put("something else")).status == 200
        heard = b""
        while b"something else" not in heard and (data := await events.content.read(4096)):
            heard += data
        assert b"a secret" not in heard
        assert all(b"a secret" not in each.body for each in stage.callbacks.received)
        events.close()


async def test_a_channel_that_is_made_inactive_keeps_its_subscribers(stage: Stage) -> None:
    await stage.decide("ann")
    socket = await stage.hub.socket(token=stage.token("ann"))
    await socket.subscribe(CLUB)
    await stage.decide("ann", active=False)
    assert (await socket.publish(CLUB, {"json": 1}))["error"]["code"] == "not_permitted"
    await stage.decide("ann")
    assert (await socket.publish(CLUB, {"json": 2}))["success"]


@pytest.mark.parametrize("owner", ["east", "west"])
async def test_a_participant_removed_on_one_node_loses_the_channel_on_another(
    tmp_path: Path, owner: str
) -> None:
    async with Cluster(tmp_path, hubs=[HUB]) as cluster:
        channel = cluster.channel_of(owner)
        west, east = cluster.nodes["west"], cluster.nodes["east"]

        async def let(*participants: str, active: bool = True) -> None:
            await decide(
                west.directory, cluster.store, *participants, active=active, channel=channel
            )

        await let("ann", "eve")
        eve = await east.subscribe(channel, identity=Identity(user_id="eve"))
        ann = await east.subscribe(channel, identity=Identity(user_id="ann"))
        assert not any(said.failures for said in (*eve.all(Subscribed), *ann.all(Subscribed)))
        await let("ann")
        lost = await eve.next(Unsubscribed)
        assert [each.channel for each in lost.failures] == [channel]
        publish(ann, channel, b"1", req_id=1)
        await ann.delivered(channel, 1)
        assert not eve.deliveries(channel)
        await let("ann", active=False)
        publish(ann, channel, b"2", req_id=2)
        (result,) = (await ann.next(Published, 2)).results
        assert result.error is not None
        assert result.error.code == "not_permitted"
