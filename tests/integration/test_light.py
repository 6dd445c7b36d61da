"""Light-PubSubHubbub on real sockets: the requests of the paper as it prints them, what goes beyond
them, and everything that can be wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.light import Light
from harness.raw import RawConnection
from harness.running_hub import RunningHub, StartHub
from harness.topics import topic_hub
from hubbub.domain.permissions import Grant, Level

shared = pytest.mark.asyncio(loop_scope="module")
pytestmark = pytest.mark.spec("WEB-01")

# Figures 3 to 6. The lengths of the second and the third body count a line break behind them.
FIGURES = [
    b"""PUT /hub/register HTTP/1.1
Content-Type: text/plain
User-Agent: Java/1.6.0_43
Host: 127.0.0.1:8084
Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2
Connection: keep-alive
Content-Length: 6

sports""",
    b"""PUT /hub/subscribe HTTP/1.1
Content-Type: text/plain
User-Agent: Java/1.6.0_43
Host: 127.0.0.1:8084
Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2
Connection: keep-alive
Content-Length: 57

{"address":"127.0.0.1","port":"50355","topic":"sports"}
""",
    b"""POST /hub/publish/sports HTTP/1.1
Content-Type: text/plain
User-Agent: Java/1.6.0_43
Host: 127.0.0.1:8084
Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2
Connection: keep-alive
Content-Length: 80

The 2014 FIFA World Cup will take place in Brazil from 12 June to 13 July 2014
""",
    b"""DELETE /hub/unsubscribe/?address=127.0.0.1&idTopic=sports&port=14746 HTTP/1.1
User-Agent: Java/1.6.0_43
Host: 127.0.0.1:8084
Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2
Connection: keep-alive

""",
]


# -- the paper ----------------------------------------------------------------------------------


@shared
async def test_the_figures_of_the_paper_are_understood_byte_for_byte(demo: RunningHub) -> None:
    async with await RawConnection.open(demo.address) as wire:
        answers = []
        for figure in FIGURES:
            wire.send(figure.replace(b"\n", b"\r\n"))
            answers.append(await wire.response())

    assert [answer.status for answer in answers] == [201, 200, 200, 200]
    assert [answer.body.decode().partition(",")[0].strip() for answer in answers] == [
        "the topic 'sports' is registered",
        "what is published to 'sports' goes to http://127.0.0.1:50355/",
        "published to 'sports' as message 1",
        "http://127.0.0.1:14746/ was not subscribed to 'sports'",
    ]
    assert {answer.headers["content-type"] for answer in answers} == {"text/plain; charset=utf-8"}


@shared
async def test_an_unknown_topic_is_not_found_by_publishers_and_subscribers(
    demo: RunningHub,
) -> None:
    light = Light(demo)

    published = await light.publish("unknown")
    assert published.error == (404, "topic_not_found")
    assert published.text.startswith("topic not found: ")
    assert "unknown" in published.text
    assert (await light.subscribe(50355, "unknown")).error == (404, "topic_not_found")
    assert (await light.unsubscribe(50355, "unknown")).error == (404, "topic_not_found")


@shared
async def test_a_topic_is_registered_once(demo: RunningHub) -> None:
    light = Light(demo)

    assert (await light.register("once")).status == 201
    assert (await light.register("once")).error == (409, "topic_exists")


# -- beyond the paper ---------------------------------------------------------------------------


@pytest.mark.spec("WEB-02")
@shared
async def test_only_who_has_the_key_publishes_to_a_topic_with_a_key(demo: RunningHub) -> None:
    light = Light(demo)
    registered = await light.ask("PUT", "register?key=1", "owned")
    key = registered.headers["Hubbub-Topic-Key"]
    assert key in registered.text

    assert (await light.publish("owned")).error == (403, "not_permitted")
    assert (await light.publish("owned", Hubbub_Topic_Key="wrong")).error[0] == 403
    assert (await light.publish("owned", Hubbub_Topic_Key=key)).status == 200


@pytest.mark.spec("SEC-01")
async def test_topics_with_a_key_are_bounded_and_others_go_on(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their keys are read again with each change of the hub's settings."""
    monkeypatch.setattr("hubbub.engine.webhooks.web_topics.MAX_TOPICS", 2)
    light = Light(await start_hub(topic_hub("acme", open_topics=True)))
    for name in ("one", "two"):
        assert (await light.ask("PUT", "register?key=1", name)).status == 201
    refused = await light.ask("PUT", "register?key=1", "three")
    assert refused.error == (429, "quota_exceeded")
    assert "'three'" in refused.text
    assert (await light.register("three")).status == 201
    assert (await light.ask("PUT", "register?key=1", "one")).error == (409, "topic_exists")


@shared
async def test_who_accepts_json_gets_json(demo: RunningHub) -> None:
    light = Light(demo, Accept="application/json")

    registered = await light.register('{"topic": "in-json", "key": true}')
    key = json.loads(registered.text)["key"]
    assert json.loads(registered.text) == {"topic": "in-json", "key": key}
    subscribed = json.loads((await light.subscribe(9, "in-json")).text)
    assert subscribed == {
        "id": subscribed["id"],
        "topic": "in-json",
        "callback": "http://127.0.0.1:9/",
    }
    published = json.loads((await light.publish("in-json", Hubbub_Topic_Key=key)).text)
    assert published == {
        "topic": "in-json",
        "msgID": published["msgID"],
        "channelSerial": "1",
    }
    left = json.loads((await light.unsubscribe(9, "in-json")).text)
    assert left == {"topic": "in-json", "callback": "http://127.0.0.1:9/", "removed": True}
    refused = await light.publish("unknown")
    assert refused.status == 404
    assert json.loads(refused.text)["error"]["code"] == "topic_not_found"


# -- other hubs, and who may --------------------------------------------------------------------


@pytest.mark.spec("WEB-02")
async def test_the_only_hub_is_meant_at_the_root_and_others_have_paths_of_their_own(
    start_server: StartHub,
) -> None:
    hub = await start_server(*(topic_hub(name, open_topics=True) for name in ("one", "two")))

    assert (await Light(hub).register("a")).error == (400, "bad_request")
    one, two = Light(hub, "/v1/hubs/one/hub"), Light(hub, "/v1/hubs/two/Hub")
    assert (await one.register("a")).status == 201
    assert (await two.publish("a")).error == (404, "topic_not_found")
    assert (await two.register("a")).status == 201
    nowhere = Light(hub, "/v1/hubs/nowhere/hub")
    assert (await nowhere.register("a")).error == (401, "not_authenticated")


@pytest.mark.spec("WEB-02")
async def test_the_hub_at_the_root_is_a_setting(start_hub: StartHub) -> None:
    hubs = [topic_hub(name, open_topics=True) for name in ("one", "two")]
    hub = await start_hub(*hubs, webhooks__hub="two")

    await Light(hub).register("a")
    assert (await Light(hub, "/v1/hubs/two/hub").register("a")).status == 409


@pytest.mark.spec("WEB-02", "WEB-05")
async def test_without_open_topics_only_known_callers_with_permission_come_in(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(topic_hub(callback_addresses="loopback"))
    grants = (Grant("mine", publish=True, subscribe=True),)

    def speaking(**identity: Any) -> Light:
        return Light(hub, Authorization=f"Bearer {hub.token(**identity)}")

    for asked in (
        Light(hub).register("a"),
        Light(hub).subscribe(9, "a"),
        Light(hub).unsubscribe(9, "a"),
        Light(hub).publish("a"),
    ):
        assert (await asked).error == (401, "not_authenticated")
    assert (await Light(hub, Authorization="Bearer x").register("a")).error == (
        401,
        "invalid_token",
    )
    assert (await speaking(user="svc", level=Level.SERVICE).register("mine")).status == 201
    assert (await speaking(grants=grants).publish("mine")).status == 200


@pytest.mark.spec("WEB-05")
@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "0.0.0.0"]
)
async def test_private_addresses_are_refused_unless_allowed(
    start_hub: StartHub, address: str
) -> None:
    hub = await start_hub(topic_hub(open_topics=True))
    light = Light(hub)
    await light.register("a")

    assert (await light.subscribe(80, "a", address=address)).error == (403, "not_permitted")


# -- bad input ----------------------------------------------------------------------------------


@shared
@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("PUT", "register", b"", (400, "invalid_name")),
        ("PUT", "register", b"a*", (400, "invalid_name")),
        ("PUT", "register", b"\xff", (400, "malformed")),
        ("PUT", "register?kye=1", b"misspelt", (400, "malformed")),
        ("PUT", "register?key=perhaps", b"perhaps", (400, "malformed")),
        ("POST", "register", b"a", (405, "method_not_allowed")),
        ("PUT", "subscribe", b"sports", (400, "malformed")),
        ("PUT", "subscribe", b"{}", (400, "malformed")),
        ("GET", "subscribe", None, (405, "method_not_allowed")),
        ("DELETE", "unsubscribe/", None, (400, "malformed")),
        ("DELETE", "unsubscribe?address=1.2.3.4&port=1", None, (400, "malformed")),
        ("DELETE", "unsubscribe?address=a&idTopic=b&port=x", None, (400, "bad_request")),
        ("PUT", "unsubscribe", None, (405, "method_not_allowed")),
        ("GET", "publish/a", None, (405, "method_not_allowed")),
        ("POST", "publish", b"x", (404, "not_found")),
        ("POST", "publish/", b"x", (404, "not_found")),
        ("POST", "publish/a%00", b"x", (400, "invalid_name")),
        ("POST", "publish/" + "a" * 256, b"x", (400, "invalid_name")),
        ("POST", "else", b"x", (404, "not_found")),
        ("GET", "", None, (404, "not_found")),
    ],
)
async def test_requests_that_are_wrong_are_answered_in_words(
    demo: RunningHub,
    method: str,
    path: str,
    body: bytes | None,
    expected: tuple[int, str],
) -> None:
    assert (await Light(demo).ask(method, path, body)).error == expected


@shared
@pytest.mark.parametrize("port", [0, -1, 65536, "x", "", 1.5, None, True, "80; rm"])
async def test_a_wrong_port_is_refused(demo: RunningHub, port: Any) -> None:
    light = Light(demo)
    await light.register("ports")

    assert (await light.subscribe(port, "ports")).status == 400


@shared
@pytest.mark.parametrize(
    "address", ["", "http://127.0.0.1", "a b", "127.0.0.1:80", "user@host", "../etc", 7, None]
)
async def test_a_callback_that_is_no_address_is_refused(demo: RunningHub, address: Any) -> None:
    light = Light(demo)
    await light.register("addresses")

    assert (await light.subscribe(80, "addresses", address=address)).status == 400


@shared
async def test_a_callback_may_have_https(demo: RunningHub) -> None:
    light = Light(demo)
    await light.register("safe")

    subscribed = await light.subscribe(8443, "safe", scheme="https", path="/in")
    assert (subscribed.status, "goes to https://127.0.0.1:8443/in" in subscribed.text) == (
        200,
        True,
    ), subscribed.text
    plain = await light.unsubscribe(8443, "safe", path="/in")
    assert "http://127.0.0.1:8443/in was not subscribed" in plain.text
    left = await light.unsubscribe(8443, "safe", path="/in", scheme="https")
    assert "to https://127.0.0.1:8443/in any more" in left.text
    wrong = await light.subscribe(8443, "safe", scheme="ftp")
    assert (wrong.status, "scheme" in wrong.text) == (400, True), wrong.text


@shared
async def test_a_body_that_is_too_large_is_refused(demo: RunningHub) -> None:
    light = Light(demo)
    await light.register("large")

    assert (await light.publish("large", b"x" * 300_000)).status == 413
