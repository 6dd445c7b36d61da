"""Access that is taken away ends every kind of subscription at once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from harness.admin import client_of, service_of
from harness.callbacks import Callbacks, eventually
from harness.clock import FakeClock
from harness.communication import comm_hub
from harness.engine import Alone, Cluster, publish, receive
from harness.light import Light
from harness.push_services import BrowserService
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.topics import STORED, HttpTopic, TopicSocket, until
from harness.websub import WebSub
from harness.zeromq import ANY_PORT, zeromq_clients
from hubbub.domain.errors import InvalidToken, NotPermitted
from hubbub.domain.notices import (
    Failed,
    Published,
    Subscribed,
    TopicMessages,
    TopicSubscribed,
    Unsubscribed,
)
from hubbub.domain.permissions import ANONYMOUS, Identity, Level, Reader
from hubbub.domain.requests import (
    Subscribe,
    SubscribeItem,
    TopicGet,
    TopicSubscribe,
)
from hubbub.domain.rules import ChannelSettings, HubConfiguration, HubSettings, Rules
from hubbub.domain.webhooks import Webhook
from hubbub.engine.access.registry import Subscriber
from hubbub.engine.administration.watching import Watcher
from hubbub.engine.hub import SessionState
from hubbub.engine.push import followings
from hubbub.engine.sessions.session import Session
from hubbub.engine.topics.waiting import WaitingGet
from hubbub.engine.webhooks.driven import DrivenWebhook, reader_of
from hubbub.engine.webhooks.service import Webhooks
from hubbub.ports.storage.administration import Revocation
from hubbub.protocols.json.codec import JsonCodec

pytestmark = pytest.mark.spec("SEC-03")

CLUB = "club:news"
LOUNGE = "lounge:news"
PRIVATE = Rules(store=True)
TRIED = {Session, WaitingGet, DrivenWebhook, followings.Follower, Watcher}
"""The kinds of subscribers that lose access here. Who watches the dashboard follows no channel of a
tenant, and loses everything with its token: test_logging_out_ends_what_is_watched."""


def club_hub() -> HubConfiguration:
    return HubConfiguration(
        hub="acme",
        settings=HubSettings(open_topics=True, callback_addresses="loopback"),
        rules={"club": STORED, "lounge": STORED},
        namespaces={"club": "club", "lounge": "lounge"},
    )


async def revoke(hub: RunningHub) -> None:
    now = int(hub.server.node.clock.now() * 1000)
    await hub.server.revocations.add(Revocation("acme", "user", "eve", now, now + 60_000))
    await hub.server.directory.changed("acme")


async def close_the_club(hub: RunningHub) -> None:
    await hub.server.directory.put("acme", "rules", "club", PRIVATE)


WAYS = [
    pytest.param(revoke, "invalid_token", id="revoked"),
    pytest.param(close_the_club, "not_permitted", id="rules"),
]


def all_kinds(of: type[Subscriber] = Subscriber) -> set[type[Subscriber]]:
    below = of.__subclasses__()
    return set().union({of} if not below else set(), *(all_kinds(each) for each in below))


def test_every_kind_of_subscriber_is_tried() -> None:
    """Whoever writes a new kind adds it to the tests below."""
    ours = {kind for kind in all_kinds() if kind.__module__.startswith("hubbub.")}
    assert ours == TRIED
    assert issubclass(Session, SessionState)


@pytest.mark.parametrize(("take_away", "code"), WAYS)
async def test_sessions_streams_and_waiting_gets_end_with_the_refusal(
    start_server: StartHub, take_away: Any, code: str
) -> None:
    hub = await start_server(club_hub(), zeromq__endpoint=ANY_PORT)
    token = hub.token("eve")
    topic = HttpTopic(hub, CLUB, token)
    for name in ("http", "zeromq", "socket"):
        assert (await topic.subscribe(name)).status == 200
    live = await hub.socket(token=token)
    await live.subscribe(CLUB)
    stream = await hub.http.get(
        f"/v1/hubs/acme/events?channel={CLUB}&channel={LOUNGE}",
        headers={"Authorization": f"Bearer {token}"},
    )
    async with (
        zeromq_clients(hub) as clients,
        await TopicSocket.open(hub, JsonCodec(), token) as socket,
    ):
        over_http = asyncio.create_task(topic.get("http", wait=20))
        client = clients.make()
        await client.send("get", token, CLUB, json.dumps({"subscription": "zeromq", "wait": 20}))
        await socket.send(TopicGet(CLUB, "socket", wait_seconds=20, req_id=9))
        waiting = hub.server.subscriptions.waiting
        await until(lambda: waiting().get("acme") == 3)

        await take_away(hub)
        answer = await over_http
        assert answer.error == ({"invalid_token": 401, "not_permitted": 403}[code], code)
        kind, said, _ = await client.receive()
        assert (kind, said.decode()) == (b"ERROR", code)
        if code == "not_permitted":
            failed = await socket.hear(9)
            assert isinstance(failed, Failed)
            assert failed.error.code == code
            ended = await live.find("Unsubscribe")
            assert ended["failures"][0]["error"]["code"] == code
        else:
            assert (await live.find("Disconnect"))["code"] == code
    service = hub.token(None, level=Level.SERVICE)
    assert (await HttpTopic(hub, CLUB, service).put("a secret")).status == 200
    assert (await HttpTopic(hub, LOUNGE, service).put("something else")).status == 200
    heard = b""
    while b"something else" not in heard and (data := await stream.content.read(4096)):
        heard += data
    assert b"a secret" not in heard
    assert (b"something else" in heard) is (code == "not_permitted")
    stream.close()


@pytest.mark.parametrize(("take_away", "code"), WAYS)
async def test_webhooks_end_and_those_of_websub_are_denied(
    start_hub: StartHub, take_away: Any, code: str
) -> None:
    hub = await start_hub(club_hub())
    headers = {"Authorization": f"Bearer {hub.token('eve', ttl=600)}"}
    async with Callbacks() as callbacks, Callbacks() as others:
        websub = WebSub(hub, "/v1/hubs/acme/websub", **headers)
        await websub.active(callbacks, websub.own(CLUB))
        service = {"Authorization": f"Bearer {hub.token(None, level=Level.SERVICE)}"}
        await Light(hub, **service).register(CLUB)
        assert (await Light(hub, **headers).subscribe(callbacks.port, CLUB)).status == 200
        for owner, receiver in ((headers, callbacks), (service, others)):
            order = {"channel": CLUB, "callback": receiver.at()}
            path = "/v1/hubs/acme/webhooks"
            async with hub.http.post(path, json=order, headers=owner) as answer:
                assert answer.status == 201
        await take_away(hub)
        denied = await callbacks.next()
        assert (denied.method, denied.query["hub.mode"]) == ("GET", "denied")
        assert denied.query["hub.topic"] == websub.own(CLUB)
        assert denied.query["hub.reason"]

        async def only_the_service() -> bool:
            return [each.owner for each in await websub.webhooks()] == ["service"]

        await eventually(only_the_service)
        put = HttpTopic(hub, CLUB, hub.token(None, level=Level.SERVICE)).put
        assert (await put("a secret")).status == 200
        assert (await others.next()).body == b"a secret"
        assert all(request.body != b"a secret" for request in callbacks.received)


@pytest.mark.parametrize(("take_away", "code"), WAYS)
async def test_peer_subscriptions_end_and_what_waits_for_an_adapter_is_not_sent(
    start_hub: StartHub, take_away: Any, code: str
) -> None:
    hub = await comm_hub(start_hub, rules={"club": STORED})
    await hub.peer("eve", ("mail", "hang"))
    await hub.follow("eve", CLUB)
    ahead = await hub.send("eve", content="ahead")
    await hub.publish(CLUB, "a secret")

    async def handed_over() -> bool:
        return bool(await hub.logged(sender=f"component:{CLUB}"))

    await eventually(handed_over)
    (copy,) = await hub.logged(sender=f"component:{CLUB}")
    await take_away(hub.hub)

    async def ended() -> bool:
        return await hub.followed("eve") == []

    await eventually(ended)
    assert hub.hub.server.driver.count() == 0
    await hub.publish(CLUB, "another secret")
    hub.box.gate.set()
    report = await hub.report(copy["message"]["id"])
    assert report == ("COMERROR", "the peer subscription ended")
    assert [each.message.id for each in hub.box.got] == [ahead]
    assert len(await hub.logged(sender=f"component:{CLUB}")) == 1


async def test_webhooks_outlive_the_token_that_made_them(start_server: StartHub) -> None:
    """They have a lease of their own."""
    clock = FakeClock()
    hub = await start_server(club_hub(), clock=clock)
    async with Callbacks() as callbacks:
        order = {"channel": CLUB, "callback": callbacks.at()}
        headers = {"Authorization": f"Bearer {hub.token('eve', ttl=60)}"}
        async with hub.http.post("/v1/hubs/acme/webhooks", json=order, headers=headers) as answer:
            assert answer.status == 201
        clock.advance(3600)
        await hub.server.directory.changed("acme")
        put = HttpTopic(hub, CLUB, hub.token(None, level=Level.SERVICE)).put
        assert (await put("later")).status == 200
        assert (await callbacks.next()).body == b"later"


async def test_a_webhook_of_an_earlier_version_ends_with_its_owners_tokens() -> None:
    old = Webhook("acme", CLUB, "id", "plain", "http://a/", CLUB, created_at=7, owner="u:eve")
    reader = reader_of(old)
    assert (reader.identity.user_id, reader.identity.issued_at) == ("eve", 7)


async def test_open_topics_that_somebody_decides_about_lose_their_strangers(
    start_hub: StartHub,
) -> None:
    configuration = HubConfiguration(
        hub="acme",
        settings=HubSettings(open_topics=True, topic_rules="topics", callback_addresses="loopback"),
        rules={"topics": PRIVATE, "decided": PRIVATE},
    )
    hub = await start_hub(configuration)
    async with Callbacks() as callbacks:
        light = Light(hub)
        assert (await light.register("sports")).status == 201
        assert (await light.subscribe(callbacks.port, "sports")).status == 200
        await hub.server.directory.changed("acme")
        node = hub.server.node
        assert len(await node.feature(Webhooks).list(node.hub("acme"))) == 1
        await hub.server.directory.put("acme", "channel", "sports", ChannelSettings("decided"))

        async def gone() -> bool:
            return not await node.feature(Webhooks).list(node.hub("acme"))

        await eventually(gone)


# -- push ---------------------------------------------------------------------------------------


@pytest.mark.spec("PUSH-01")
@pytest.mark.parametrize(("take_away", "code"), WAYS)
async def test_followings_end_and_nothing_is_pushed_any_more(
    start_hub: StartHub, take_away: Any, code: str
) -> None:
    pushed = Rules(public=True, allow_anonymous=True, push=True, store=True)
    configuration = HubConfiguration(
        hub="acme",
        settings=HubSettings(callback_addresses="loopback"),
        rules={"club": pushed, "lounge": pushed},
        namespaces={"club": "club", "lounge": "lounge"},
    )
    hub = await start_hub(configuration)
    eve, service = client_of(hub, "eve"), service_of(hub)
    path = "/v1/hubs/acme/push-subscriptions"
    async with BrowserService() as phone:
        for name in ("eve", "ann"):
            body = {"platform": "webpush", "token": phone.browser(f"/{name}").subscription}
            assert (
                await client_of(hub, name)("PUT", "/v1/hubs/acme/push-tokens", body)
            ).status == 200
            assert (await client_of(hub, name)("PUT", f"{path}/{CLUB}")).status == 200
        assert (await eve("PUT", f"{path}/{LOUNGE}")).status == 200
        await take_away(hub)

        async def followed() -> list[str]:
            found = await hub.server.store.read_followings_of("acme", ["eve"])
            return [each.channel for each in found]

        kept = [] if code == "invalid_token" else [LOUNGE]

        async def ended() -> bool:
            return await followed() == kept

        await eventually(ended)
        await hub.server.directory.put("acme", "rules", "club", pushed)
        push = f"/v1/hubs/acme/channels/{CLUB}/messages?push=true"
        assert (await service("POST", push, {"n": 1})).status == 200
        await hub.server.push.settle()
        reached = [each.path for each in phone.received]
        assert reached == (["/ann"] if code == "invalid_token" else [])


# -- durable subscriptions ----------------------------------------------------------------------


async def test_a_durable_subscription_keeps_its_cursor_and_tells_nothing_meanwhile(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(club_hub())
    eve = HttpTopic(hub, CLUB, hub.token("eve"))
    service = HttpTopic(hub, CLUB, hub.token(None, level=Level.SERVICE))
    for name in ("kept", "removed"):
        assert (await eve.subscribe(name)).status == 200
    assert (await service.put("first")).status == 200
    assert len((await eve.listed()).json["subscriptions"]) == 2

    await close_the_club(hub)
    assert (await service.put("second")).status == 200
    assert (await eve.listed()).json["subscriptions"] == []
    assert (await eve.get_each(name="kept")).json.get("topics", {}) == {}
    for refused in (await eve.get("kept"), await eve.state("kept"), await eve.ack("kept", upTo=1)):
        assert refused.error == (403, "not_permitted")
    assert (await eve.unsubscribe("removed")).status == 200

    await hub.server.directory.put("acme", "rules", "club", STORED)
    (state,) = (await eve.listed()).json["subscriptions"]
    assert (state["name"], state["lag"]) == ("kept", 2)
    answer = await eve.get("kept", limit=10)
    assert [each["payload"]["text"] for each in answer.json["messages"]] == ["first", "second"]


# -- in a cluster, and in the middle of something -----------------------------------------------


@pytest.mark.parametrize("owner", ["east", "west"])
async def test_whoever_waits_at_another_node_is_refused_too(tmp_path: Path, owner: str) -> None:
    async with Cluster(tmp_path, hubs=[open_hub(rules=STORED)]) as cluster:
        east, west = cluster.nodes.values()
        topic = cluster.channel_of(owner)
        client = west.connect(identity=Identity(user_id="eve"))
        receive(client, TopicSubscribe(topic, "mine", req_id=1))
        await client.next(TopicSubscribed)
        receive(client, TopicGet(topic, "mine", wait_seconds=60, req_id=2))
        waiting = cluster.nodes[owner].subscriptions.waiting
        await until(lambda: waiting().get("acme") == 1)
        await east.directory.put("acme", "rules", "default", PRIVATE)
        assert (await client.next(Failed)).error.code == "not_permitted"
        assert not client.all(TopicMessages)
        assert waiting().get("acme", 0) == 0


async def test_a_replay_under_way_stops(tmp_path: Path) -> None:
    async with Alone(tmp_path, hubs=[open_hub(rules=STORED)]) as alone:
        writer = alone.node.connect()
        publish(writer, "news", b"1", b"2", store=True, req_id=1)
        reader = alone.node.connect(identity=Identity(user_id="eve"))
        may_go_on = asyncio.Event()
        reader.drain = may_go_on.wait  # type: ignore[method-assign,assignment]
        reader.full = True
        await writer.next(Published)
        receive(reader, Subscribe((SubscribeItem("news", serial=0),), req_id=1))
        await reader.next(Subscribed)
        await alone.node.directory.put("acme", "rules", "default", PRIVATE)
        reader.full = False
        may_go_on.set()
        ended = await reader.next(Unsubscribed)
        assert [failure.error.code for failure in ended.failures] == ["not_permitted"]
        assert not reader.deliveries("news")
        assert not alone.node.node.hub("acme").feeds


# -- the registry -------------------------------------------------------------------------------


class Follower(Subscriber):
    """A kind that somebody might write."""

    def __init__(self, identity: Identity) -> None:
        self._reader = Reader(identity)
        self.lost: list[str] = []
        self.ended: list[str] = []

    @property
    def reader(self) -> Reader:
        return self._reader

    def followed(self) -> list[str]:
        return ["news"]

    def lose(self, channels: Any, error: NotPermitted) -> None:
        self.lost += channels

    def end(self, error: Any) -> None:
        self.ended.append(error.code)


async def test_a_kind_that_was_not_registered_gets_nothing(tmp_path: Path) -> None:
    async with Alone(tmp_path) as alone:
        access, follower = alone.node.node.access, Follower(ANONYMOUS)
        with pytest.raises(NotPermitted):
            access.admit("acme", follower, "news")
        access.add("acme", follower)
        access.admit("acme", follower, "news")
        access.remove("acme", follower)
        with pytest.raises(NotPermitted):
            access.admit("acme", follower, "news")
    with pytest.raises(TypeError, match="abstract"):
        type("Forgetful", (Subscriber,), {})()


async def test_what_was_taken_away_earlier_is_lost_on_registration(tmp_path: Path) -> None:
    async with Alone(tmp_path, hubs=[open_hub(rules=PRIVATE)]) as alone:
        access, follower = alone.node.node.access, Follower(Identity(user_id="eve"))
        access.add("acme", follower)
        assert (follower.lost, follower.ended) == (["news"], [])
        await alone.node.revocations.add(Revocation("*", "user", "eve", 1, 2**60))
        access.review("*")
        assert follower.ended == ["invalid_token"]
        with pytest.raises(InvalidToken):
            access.check("acme", follower.reader, "news")
        gone = Follower(ANONYMOUS)
        access.add("nowhere", gone)
        assert gone.ended == ["hub_not_found"]
