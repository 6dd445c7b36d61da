"""The WebSub hub on real sockets: subscriptions verified, leases, signatures, pings, content, and
everything that can be wrong."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from harness.callbacks import Callbacks
from harness.receivers import Received, Reply, confirm, whole_answer
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.websub import WebSub
from hubbub.domain.permissions import Grant
from hubbub.domain.rules import Rules
from hubbub.domain.webhooks import ALGORITHMS, verify_signature, websub_channel
from hubbub.protocols.websub import FORM

shared = pytest.mark.asyncio(loop_scope="module")
pytestmark = pytest.mark.spec("WEB-03")

FEED = b"<?xml version='1.0'?>\n<feed>\xc3\xa4</feed>\n"
FEED_TYPE = "application/atom+xml; charset=utf-8"


# -- discovery ----------------------------------------------------------------------------------


@shared
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_channel_says_which_hub_it_has_and_what_it_is_called(
    demo: RunningHub, method: str
) -> None:
    path = "/v1/hubs/demo/channels/caf%C3%A9:1/messages"
    async with demo.http.request(method, f"{path}?limit=1") as answer:
        assert answer.status == 200
        assert str(answer.links["hub"]["url"]) == f"http://{demo.address}/v1/hubs/demo/websub"
        assert str(answer.links["self"]["url"]) == f"http://{demo.address}{path}"


async def test_behind_a_proxy_the_public_address_is_shown(start_hub: StartHub) -> None:
    hub = await start_hub(webhooks__publicUrl="https://hub.example.org/base/")

    async with hub.http.get("/v1/hubs/acme/channels/a/messages") as answer:
        assert str(answer.links["hub"]["url"]) == "https://hub.example.org/base/v1/hubs/acme/websub"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1:1", "10.1.2.3", "localhost:1", ""]
)
@pytest.mark.spec("SEC-04")
async def test_a_forged_host_does_not_become_a_link(start_hub: StartHub, host: str) -> None:
    hub = await start_hub()
    path = "/v1/hubs/acme/channels/a/messages"

    async with hub.http.get(path, headers={"Host": host}) as answer:
        assert answer.headers["link"] == (
            f'</v1/hubs/acme/websub>; rel="hub", <{path}>; rel="self"'
        )


@pytest.mark.spec("SEC-04")
async def test_a_forged_host_is_not_told_to_receivers(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=Rules(store=True), callback_addresses="loopback"))
    granted = hub.token(grants=(Grant("*", subscribe=True),))
    forged = {"Authorization": f"Bearer {granted}", "Host": "evil.example"}
    async with Callbacks() as callbacks:
        websub = WebSub(hub, "/v1/hubs/acme/websub", **forged)
        await websub.active(callbacks, "http://feeds.example/one")
        (webhook,) = await websub.webhooks()
    assert webhook.hub_url is None


# -- subscriptions ------------------------------------------------------------------------------


@shared
async def test_a_subscription_is_verified_before_anything_is_sent(demo: RunningHub) -> None:
    websub = WebSub(demo)
    topic = websub.own("verified")
    async with Callbacks() as callbacks:
        callback = callbacks.at("/in?id=7&hub.mode=mine")
        assert (await websub.subscribe(callback, topic, lease_seconds="3600"))[0] == 202

        asked = await callbacks.next()
        assert asked.method == "GET"
        assert asked.target.startswith("/in?id=7&hub.mode=mine&")
        values = dict(
            pair.split("=", 1) for pair in asked.target.partition("hub.mode=mine&")[2].split("&")
        )
        assert values.keys() == {"hub.mode", "hub.topic", "hub.challenge", "hub.lease_seconds"}
        assert (values["hub.mode"], values["hub.lease_seconds"]) == ("subscribe", "3600")
        assert asked.query["hub.topic"] == topic
        assert len(asked.query["hub.challenge"]) >= 20


@shared
async def test_every_name_of_this_machine_means_the_same_topic(demo: RunningHub) -> None:
    websub = WebSub(demo)
    topic = websub.own("named").replace("127.0.0.1", "localhost")
    async with Callbacks() as callbacks:
        await websub.active(callbacks, topic)
        (webhook,) = [each for each in await websub.webhooks() if each.topic == topic]
    assert webhook.channel == "named"


@shared
async def test_content_is_distributed_with_its_type_and_links(demo: RunningHub) -> None:
    websub = WebSub(demo)
    topic = websub.own("distributed")
    async with Callbacks() as callbacks:
        await websub.active(callbacks, topic)
        async with demo.http.post(
            "/v1/hubs/demo/channels/distributed/messages",
            data=b'{"a":1}',
            headers={"Content-Type": "application/json"},
        ) as answer:
            assert answer.status == 200
        told = await callbacks.next()

    assert (told.method, told.body) == ("POST", b'{"a":1}')
    assert told.headers["content-type"] == "application/json"
    assert 'rel="hub"' in told.headers["link"]
    assert f'<{topic}>; rel="self"' in told.headers["link"]
    assert "x-hub-signature" not in told.headers


@shared
@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_content_is_signed_by_the_method_of_choice(demo: RunningHub, algorithm: str) -> None:
    websub = WebSub(demo)
    topic = websub.own(f"signed-{algorithm}")
    async with Callbacks() as callbacks:
        await websub.active(callbacks, topic, secret="s" * 199, algorithm=algorithm)
        await websub.post(FEED, _content(topic), Content_Type=FEED_TYPE)
        told = await callbacks.next()

    assert told.headers["x-hub-signature"].startswith(f"{algorithm}=")
    assert verify_signature(b"s" * 199, told.headers["x-hub-signature"], told.body)


@shared
@pytest.mark.parametrize(
    "answer",
    [
        lambda asked: whole_answer(404, asked.query["hub.challenge"].encode()),
        lambda asked: whole_answer(200, b"something else"),
        lambda asked: whole_answer(200, asked.query["hub.challenge"].encode() + b"x"),
        lambda asked: whole_answer(302, Location="/?" + urlencode(asked.query)),
    ],
    ids=["not found", "wrong", "more", "redirect"],
)
async def test_without_the_right_challenge_there_is_no_subscription(
    demo: RunningHub, answer: Any
) -> None:
    websub = WebSub(demo)
    async with Callbacks(answer) as callbacks:
        topic = websub.own(f"refused-{callbacks.port}")
        assert (await websub.subscribe(callbacks.at(), topic))[0] == 202
        await callbacks.next()
        await websub.gone(topic)


@shared
async def test_subscribing_again_renews_the_lease_after_verification(demo: RunningHub) -> None:
    websub = WebSub(demo)
    topic = websub.own("renewed")

    async def expiry() -> int:
        (found,) = [each for each in await websub.webhooks() if each.topic == topic]
        assert found.expires_at is not None
        return found.expires_at

    async with Callbacks() as callbacks:
        await websub.active(callbacks, topic, lease_seconds="60")
        first = await expiry()
        again = await websub.active(callbacks, topic, lease_seconds="3600")
        assert again.query["hub.lease_seconds"] == "3600"
        assert await expiry() > first + 3_000_000


@shared
@pytest.mark.parametrize(
    ("asked", "granted"),
    [("1", 60), ("0", 864_000), ("", 864_000), ("99999999999999999999", 2_592_000)],
)
async def test_absurd_leases_are_brought_within_bounds(
    demo: RunningHub, asked: str, granted: int
) -> None:
    websub = WebSub(demo)
    async with Callbacks() as callbacks:
        topic = websub.own(f"lease-{callbacks.port}")
        verification = await websub.active(callbacks, topic, lease_seconds=asked)
    assert verification.query["hub.lease_seconds"] == str(granted)


@shared
async def test_the_end_of_a_subscription_is_verified_too(demo: RunningHub) -> None:
    websub = WebSub(demo)
    topic = websub.own("ended")
    asked = {"mode": "unsubscribe", "topic": topic}
    async with Callbacks() as callbacks:
        await websub.active(callbacks, topic)
        callbacks.respond = lambda _: 404
        assert (await websub.ask(**asked, callback=callbacks.at()))[0] == 202
        refused = await callbacks.next()
        assert refused.query["hub.mode"] == "unsubscribe"
        assert "hub.lease_seconds" not in refused.query
        callbacks.respond = confirm
        await websub.post(b"still here", _content(topic), Content_Type="text/plain")
        assert (await callbacks.next()).body == b"still here"

        assert (await websub.ask(**asked, callback=callbacks.at()))[0] == 202
        assert (await callbacks.next()).query["hub.mode"] == "unsubscribe"
        await websub.gone(topic)


@shared
async def test_unknown_parameters_are_ignored(demo: RunningHub) -> None:
    websub = WebSub(demo)
    async with Callbacks() as callbacks:
        await websub.active(callbacks, websub.own("unknown"), verify="sync", foo="bar")


# -- publishing ---------------------------------------------------------------------------------


def _content(topic: str) -> str:
    return "?" + urlencode({"hub.mode": "publish", "hub.topic": topic})


class Publisher(Callbacks):
    """A site with a feed, which says whether it changed."""

    def __init__(self) -> None:
        super().__init__(self._feed)
        self.body = FEED
        self.etag = '"1"'

    def _feed(self, asked: Received) -> Reply:
        if asked.headers.get("if-none-match") == self.etag:
            return 304
        return whole_answer(200, self.body, Content_Type=FEED_TYPE, ETag=self.etag)


@shared
@pytest.mark.parametrize("name", ["url", "topic"])
async def test_a_ping_makes_the_hub_fetch_the_topic(demo: RunningHub, name: str) -> None:
    websub = WebSub(demo)
    async with Callbacks() as callbacks, Publisher() as site:
        topic = site.at("/feed?a=b")
        await websub.active(callbacks, topic, secret="s3cret")
        assert (await websub.ask(mode="publish", **{name: topic}))[0] == 202

        told = await callbacks.next()
        assert told.body == FEED
        assert told.headers["content-type"] == FEED_TYPE
        assert f'<{topic}>; rel="self"' in told.headers["link"]
        assert verify_signature(b"s3cret", told.headers["x-hub-signature"], told.body)

        await websub.ask(mode="publish", url=topic)
        await site.next()
        await site.next()
        assert site.received[1].headers["if-none-match"] == '"1"'
        site.body, site.etag = b"<feed>new</feed>", '"2"'
        await websub.ask(mode="publish", url=topic)
        assert (await callbacks.next()).body == b"<feed>new</feed>"
        assert len([each for each in callbacks.received if each.method == "POST"]) == 2


@shared
async def test_one_ping_may_name_several_topics(demo: RunningHub) -> None:
    websub = WebSub(demo)
    async with Callbacks() as one, Callbacks() as two, Publisher() as site:
        await websub.active(one, site.at("/1"))
        await websub.active(two, site.at("/2"))
        form = [("hub.mode", "publish"), ("hub.url", site.at("/1")), ("hub.url", site.at("/2"))]
        assert (await websub.post(form))[0] == 202
        assert (await one.next()).body == FEED
        assert (await two.next()).body == FEED


@shared
async def test_content_can_be_sent_along(demo: RunningHub) -> None:
    """To a topic that is elsewhere on the Web, which is not fetched then."""
    websub = WebSub(demo)
    async with Callbacks() as callbacks, Publisher() as site:
        topic = site.at("/direct")
        await websub.active(callbacks, topic)
        status, text = await websub.post(FEED, _content(topic), Content_Type=FEED_TYPE)
        assert status == 202, text
        told = await callbacks.next()

    assert (told.body, told.headers["content-type"]) == (FEED, FEED_TYPE)
    assert site.received == []


@shared
async def test_a_topic_of_the_web_is_a_channel_that_sockets_can_follow(demo: RunningHub) -> None:
    websub = WebSub(demo)
    topic = "https://example.org/x#y*" + "z" * 10
    socket = await demo.socket("demo")
    await socket.subscribe(websub_channel(topic))
    await websub.post(b"hello", _content(topic), Content_Type="text/plain")
    assert (await socket.find("Publish"))["payload"] == {"text": "hello"}


# -- who may, and what is wrong -----------------------------------------------------------------


async def test_a_subscription_without_permission_is_denied(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=Rules(store=True), callback_addresses="loopback"))
    topic = f"http://{hub.address}/v1/hubs/acme/channels/secret:1/messages"
    granted = hub.token(grants=(Grant("secret:*", subscribe=True),))
    async with Callbacks() as callbacks:
        asked = {"mode": "subscribe", "callback": callbacks.at(), "topic": topic}
        status, text = await WebSub(hub).ask(**asked)
        assert (status, "not permitted" in text) == (403, True)
        denied = (await callbacks.next()).query
        assert (denied["hub.mode"], denied["hub.topic"]) == ("denied", topic)
        assert "permission" in denied["hub.reason"]
        assert (await WebSub(hub, Authorization=f"Bearer {granted}").ask(**asked))[0] == 202
        assert (await callbacks.next()).query["hub.mode"] == "subscribe"


@pytest.mark.spec("WEB-05")
async def test_private_callbacks_are_refused_unless_allowed(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub())
    status, text = await WebSub(hub).subscribe("http://127.0.0.1:9/", "https://example.org/")
    assert (status, "not permitted" in text) == (403, True)


@shared
@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"mode": ""}, "hub.mode"),
        ({"mode": "listen"}, "hub.mode"),
        ({"callback": ""}, "hub.callback"),
        ({"callback": "no URL"}, "callback"),
        ({"callback": "ftp://example.org/"}, "callback"),
        ({"callback": "http://example.org:99999/"}, "callback"),
        ({"topic": ""}, "hub.topic"),
        ({"topic": "no URL"}, "topic"),
        ({"lease_seconds": "-1"}, "lease_seconds"),
        ({"lease_seconds": "soon"}, "lease_seconds"),
        ({"lease_seconds": "nan"}, "lease_seconds"),
        ({"secret": "s" * 200}, "secret"),
        ({"algorithm": "md5"}, "algorithm"),
        ({"mode": "publish", "topic": ""}, "hub.url"),
        ({"mode": "publish", "topic": "file:///etc/passwd"}, "topic"),
    ],
)
async def test_a_wrong_form_is_answered_at_once_in_words(
    demo: RunningHub, wrong: dict[str, str], named: str
) -> None:
    asked = {
        "mode": "subscribe",
        "callback": "http://127.0.0.1:9/",
        "topic": "https://example.org/",
    }
    status, text = await WebSub(demo).ask(**{**asked, **wrong})

    assert status == 400
    assert named in text
    assert "\n" not in text.rstrip("\n")
    assert "sss" not in text


@shared
async def test_other_bodies_methods_and_paths_are_refused(demo: RunningHub) -> None:
    websub = WebSub(demo)

    assert (await websub.post(b"{}", Content_Type="application/json"))[0] == 400
    assert (await websub.post(b"\xff=1", Content_Type=FORM))[0] == 400
    two = "?hub.mode=publish&hub.topic=http%3A%2F%2Fa&hub.topic=http%3A%2F%2Fb"
    assert (await websub.post(b"content", two, Content_Type="text/plain"))[0] == 400
    assert (await WebSub(demo, "/websub/else").ask(mode="publish"))[0] == 404
    async with demo.http.get("/websub") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    async with demo.http.post("/websub", headers={"Accept": "application/json"}) as answer:
        assert json.loads(await answer.text())["error"]["code"] == "malformed"


@shared
async def test_topics_of_another_hub_have_their_own_door(demo: RunningHub) -> None:
    topic = f"http://{demo.address}/v1/hubs/other/channels/a/messages"
    status, text = await WebSub(demo).subscribe("http://127.0.0.1:9/", topic)
    assert (status, "/v1/hubs/other/websub" in text) == (400, True)
    async with Callbacks() as callbacks:
        other = WebSub(demo, "/v1/hubs/other/websub")
        assert (await other.subscribe(callbacks.at(), topic))[0] == 202
        assert (await callbacks.next()).query["hub.topic"] == topic
