"""Rights at every door: rules and grants decide, whatever the way in."""

from __future__ import annotations

from typing import Any

import pytest

from harness.callbacks import Callbacks, eventually
from harness.light import Light
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.topics import STORED
from harness.websub import WebSub
from harness.zeromq import ANY_PORT, zeromq_clients
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.rules import ChannelSettings, HubConfiguration, HubSettings, Rules
from hubbub.engine.webhooks.service import Webhooks

pytestmark = pytest.mark.spec("SEC-03")

PRIVATE = Rules(store=True, store_by_default=True)


def private_hub(**more: Any) -> HubConfiguration:
    """Channels are private unless they begin with `public:`; topics are open."""
    settings = {
        "allow_anonymous": True,
        "open_topics": True,
        "default_rules": "private",
        "topic_rules": "private",
        "callback_addresses": "loopback",
        **more,
    }
    return HubConfiguration(
        hub="acme",
        settings=HubSettings(**settings),
        rules={"private": PRIVATE, "decided": PRIVATE, "open": STORED},
        namespaces={"public": "open", "ours": "decided"},
        channels={"payroll": ChannelSettings("decided")},
    )


def bearer(hub: RunningHub, user: str | None = "ann", **more: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {hub.token(user, **more)}"}


async def post(hub: RunningHub, channel: str, body: bytes, **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with hub.http.post(
        f"/v1/hubs/acme/channels/{channel}/messages?store=1", data=body, headers=named
    ) as answer:
        return answer.status


# -- open topics --------------------------------------------------------------------------------


@pytest.mark.parametrize("channel", ["payroll", "ours:1", "in-use", "doc:1", "payroll.dead"])
async def test_open_topics_open_no_private_channel(start_hub: StartHub, channel: str) -> None:
    hub = await start_hub(private_hub())
    service = bearer(hub, None, level=Level.SERVICE)
    assert await post(hub, "in-use", b"{}", **service) == 200
    light, websub = Light(hub), WebSub(hub, "/v1/hubs/acme/websub")
    async with Callbacks() as callbacks:
        topic = websub.own(channel)
        assert (await light.register(channel)).error == (403, "not_permitted")
        assert (await websub.subscribe(callbacks.at(), topic))[0] == 403
        fat = await websub.post(b"x", f"?hub.mode=publish&hub.topic={topic}")
        assert fat[0] == 403
        registered = await Light(hub, **service).register(channel)
        assert registered.status in (201, 404), registered.text  # a document is no topic
        if registered.status == 201:
            assert (await light.subscribe(callbacks.port, channel)).error == (403, "not_permitted")
            assert (await light.publish(channel)).error == (403, "not_permitted")


async def test_topics_that_were_made_through_it_are_open_and_later_rules_close_them(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(private_hub())
    light, websub = Light(hub), WebSub(hub, "/v1/hubs/acme/websub")
    async with Callbacks() as callbacks:
        assert (await light.register("sports")).status == 201
        assert (await light.subscribe(callbacks.port, "sports")).status == 200
        assert (await light.publish("sports", b"1:0")).status == 200
        assert (await callbacks.next()).body == b"1:0"
        await websub.active(callbacks, "https://example.org/feed")
        fat = await websub.post(b"x", "?hub.mode=publish&hub.topic=https://example.org/feed")
        assert fat[0] == 403, "a stranger speaks for a topic that lives elsewhere"
        admin = hub.server.directory
        await admin.put("acme", "channel", "sports", ChannelSettings("decided"))
        assert (await light.publish("sports")).error == (403, "not_permitted")


async def test_open_topics_let_no_stranger_past_the_door_of_a_hub_that_wants_tokens(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(private_hub(allow_anonymous=False))

    topic = WebSub(hub, "/v1/hubs/acme/websub").own("public:1")
    status, _ = await WebSub(hub).subscribe("http://127.0.0.1:9/", topic)
    assert status == 403


# -- dead letters -------------------------------------------------------------------------------


async def test_dead_letters_are_read_by_those_who_may_read_their_channel(
    start_hub: StartHub,
) -> None:
    configuration = HubConfiguration(
        hub="acme",
        settings=HubSettings(
            allow_anonymous=True, default_rules="open", topic_rules="open", user_channel=True
        ),
        rules={"open": STORED, "private": PRIVATE},
        channels={"payroll": ChannelSettings("private"), "payroll.dead": ChannelSettings("open")},
    )
    hub = await start_hub(configuration)

    async def status(channel: str, **headers: str) -> int:
        path = f"/v1/hubs/acme/channels/{channel}/messages"
        async with hub.http.get(path, headers=headers) as answer:
            return answer.status

    granted = bearer(hub, grants=(Grant("payroll", subscribe=True),))
    for channel in ("payroll", "payroll.dead", "payroll.dead.dead"):
        assert await status(channel) == 403
        assert await status(channel, **bearer(hub, "eve")) == 403
        assert await status(channel, **granted) == 200
    assert await status("news.dead") == 200
    readers = {"u.dead:ann": "ann", "u.dead.dead:ann": "ann", "u:ann.dead": "ann.dead"}
    for channel, reader in readers.items():
        for user in ("ann", "ann.dead"):
            assert await status(channel, **bearer(hub, user)) == (200 if user == reader else 403)
        assert await status(channel) == 403


async def test_dead_letters_are_stored_whatever_rules_somebody_gave_them(
    start_hub: StartHub,
) -> None:
    configuration = HubConfiguration(
        hub="acme",
        settings=HubSettings(callback_addresses="loopback"),
        rules={"stored": PRIVATE, "live": Rules(live_history=True)},
        channels={"payroll": ChannelSettings("stored"), "payroll.dead": ChannelSettings("live")},
    )
    hub = await start_hub(configuration, webhooks__retries=0)
    service = bearer(hub, None, level=Level.SERVICE)
    async with Callbacks(lambda request: 503) as callbacks:
        order = {"channel": "payroll", "callback": callbacks.at()}
        async with hub.http.post("/v1/hubs/acme/webhooks", json=order, headers=service) as answer:
            assert answer.status == 201
        assert await post(hub, "payroll", b"42", **service) == 200

        async def stored() -> bool:
            path = "/v1/hubs/acme/channels/payroll.dead/messages"
            async with hub.http.get(path, headers=service) as answer:
                return bool((await answer.json())["messages"])

        await eventually(stored)


async def test_a_webhook_whose_dead_letters_would_have_no_name_is_refused(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(private_hub())
    order = {"channel": "c" * 253, "callback": "http://127.0.0.1:9/"}
    service = bearer(hub, None, level=Level.SERVICE)
    async with hub.http.post("/v1/hubs/acme/webhooks", json=order, headers=service) as answer:
        assert answer.status == 400
        assert (await answer.json())["error"]["code"] == "invalid_name"


# -- keys of topics -----------------------------------------------------------------------------


async def test_the_key_of_a_topic_binds_every_door(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=STORED, open_topics=True), zeromq__endpoint=ANY_PORT)
    registered = await Light(hub).ask("PUT", "register?key=1", "owned")
    key = registered.headers["Hubbub-Topic-Key"]
    granted = (Grant("owned", publish=True),)
    writer = bearer(hub, grants=granted)

    async def put(path: str, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with hub.http.post(f"/v1/hubs/acme/{path}", data=b"{}", headers=named) as answer:
            return answer.status

    for path in (
        "channels/owned/messages",
        "topics/owned/messages",
        "topics/owned/messages?producer=p&sequence=1",
        "topics/owned/producers/p",
    ):
        assert await put(path, **writer) == 403, path
        assert await put(path, **writer, Hubbub_Topic_Key="wrong") == 403, path
        assert await put(path, **writer, Hubbub_Topic_Key=key) == 200, path
        assert await put(path, **bearer(hub, "svc", level=Level.SERVICE)) == 200 or "seq" in path

    assert await put("channels/owned.dead/messages", **writer) == 403
    assert await put("channels/owned.dead/messages", **writer, Hubbub_Topic_Key=key) == 200

    batch = {"publishes": [{"channel": "owned", "event": "e", "payload": {"json": {}}}]}
    for headers, success in ((writer, False), ({**writer, "Hubbub-Topic-Key": key}, True)):
        async with hub.http.post("/v1/hubs/acme/messages", json=batch, headers=headers) as answer:
            (result,) = (await answer.json())["published"]
            assert result["success"] is success, result

    async with zeromq_clients(hub) as clients:
        code, _ = await clients.make().refused("put", hub.token(grants=granted), "owned", "{}")
        assert code == "not_permitted"
    socket = await hub.socket(token=hub.token(grants=granted))
    refused = await socket.publish("owned", {"json": {}})
    assert refused["error"]["code"] == "not_permitted"
    assert "Hubbub-Topic-Key" in refused["error"]["message"]


# -- webhooks -----------------------------------------------------------------------------------


async def test_nobody_takes_over_the_webhook_of_another(start_hub: StartHub) -> None:
    hub = await start_hub(private_hub())
    await Light(hub, **bearer(hub, None, level=Level.SERVICE)).register("news")
    grants = (Grant("news", publish=True, subscribe=True),)
    async with Callbacks() as callbacks:
        for user in ("ann", "eve"):
            order = {"channel": "news", "callback": callbacks.at(), "secret": f"of {user}"}
            async with hub.http.post(
                "/v1/hubs/acme/webhooks", json=order, headers=bearer(hub, user, grants=grants)
            ) as answer:
                assert answer.status == 201
            light = Light(hub, **bearer(hub, user, grants=grants))
            assert (await light.subscribe(callbacks.port, "news", secret=user)).status == 200
        light = Light(hub, **bearer(hub, "eve", grants=grants))
        assert (await light.unsubscribe(callbacks.port, "news")).status == 200

        node = hub.server.node
        found = await node.feature(Webhooks).list(node.hub("acme"))
        assert sorted((each.kind, each.owner, each.secret) for each in found) == [
            ("light", "u:ann", b"ann"),
            ("plain", "u:ann", b"of ann"),
            ("plain", "u:eve", b"of eve"),
        ]

        async def renewed() -> bool:
            again = await light.subscribe(callbacks.port, "news", secret="again")
            return again.status == 200

        await eventually(renewed)
        assert len(await node.feature(Webhooks).list(node.hub("acme"))) == 4
