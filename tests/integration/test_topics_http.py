"""Topics over HTTP on real sockets: every path, every answer, and everything that can be wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from harness.admin import HUB, admin_of
from harness.raw import RawConnection
from harness.running_hub import RunningHub, StartHub, hub_settings, open_hub
from harness.topics import LIVE, STORED, Codec, HttpTopic, TopicSocket, texts, topic_hub, until
from hubbub.domain.messages import TEXT
from hubbub.domain.notices import PublishResult
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.requests import Producer, Publish, PublishItem
from hubbub.protocols.json.codec import JSON_V1
from hubbub.protocols.protobuf.codec import PROTOBUF_V1
from hubbub.server.wiring import Server

shared = pytest.mark.asyncio(loop_scope="module")
pytestmark = pytest.mark.spec("ONCE-01", "ONCE-04")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningHub]:
    """A server with two hubs of topics, `acme` and `other`; tests use topics of their own."""
    folder = tmp_path_factory.mktemp("topics")
    server = Server(hub_settings(folder, topic_hub(), topic_hub("other")))
    await server.start()
    running = RunningHub(server)
    yield running
    await running.close()


# -- put ----------------------------------------------------------------------------------------


@shared
async def test_a_put_is_answered_with_its_place(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "put")

    first, second = await topic.put("a", event="greeting"), await topic.put("b")

    assert first.status == 200
    assert first.json == {
        "answer": "PutReply",
        "msgID": first.json["msgID"],
        "channelSerial": "1",
        "duplicate": False,
    }
    assert second.json["channelSerial"] == "2"
    assert second.json["msgID"] != first.json["msgID"]


@pytest.mark.spec("ONCE-02")
@shared
async def test_a_repeated_put_is_answered_like_the_first(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "put:again")
    await topic.put("before")

    first = await topic.put("a", producer="p", sequence="1")
    again = await topic.put("a", producer="p", sequence="1")
    other = await topic.put("a", producer="q", sequence="1")

    assert first.json["duplicate"] is False
    assert again.json == {**first.json, "duplicate": True}
    assert (other.json["channelSerial"], other.json["duplicate"]) == ("3", False)


@pytest.mark.spec("ONCE-02")
@shared
async def test_sequences_are_kept_in_order(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "put:order")
    await topic.put("a", producer="p", sequence="1")

    gap = await topic.put("c", producer="p", sequence="3")
    reused = await topic.put("other", producer="p", sequence="1")

    assert gap.error == (409, "sequence_gap")
    assert "2" in gap.json["error"]["message"]
    assert reused.error == (409, "sequence_reused")
    assert (await topic.put("b", producer="p", sequence="2")).json["channelSerial"] == "2"


@pytest.mark.spec("ONCE-02")
@shared
async def test_opening_a_producer_fences_the_one_before(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "put:fence")

    opened = await topic.open("p")
    fence = opened.json["fence"]
    assert opened.json == {"fence": fence, "sequence": "0"}
    assert (await topic.put("a", producer="p", sequence="1", fence=fence)).status == 200

    taken = await topic.open("p")
    assert int(taken.json["fence"]) > int(fence)
    assert taken.json["sequence"] == "1"
    late = await topic.put("b", producer="p", sequence="2", fence=fence)
    assert late.error == (409, "producer_fenced")
    newer = await topic.put("b", producer="p", sequence="2", fence=taken.json["fence"])
    assert newer.json["channelSerial"] == "2"


@pytest.mark.spec("ONCE-02")
@shared
async def test_a_refused_put_uses_up_no_sequence(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "put:refused")

    refused = await topic.put("x" * 300_000, producer="p", sequence="1")

    assert refused.error == (413, "too_large")
    assert (await topic.put("y", producer="p", sequence="1")).json["duplicate"] is False


@pytest.mark.spec("ONCE-02")
@pytest.mark.parametrize("encoding", [JSON_V1, PROTOBUF_V1], ids=lambda each: each.subprotocol)
async def test_a_repeat_of_what_was_reclaimed_is_known_all_the_same(
    start_hub: StartHub, encoding: Codec
) -> None:
    hub = await start_hub(topic_hub())
    topic = HttpTopic(hub, "reclaimed")
    for number in "12":
        await topic.put(number, producer="p", sequence=number)

    await hub.delete_before("reclaimed", 3)

    again = await topic.put("1", producer="p", sequence="1")
    assert again.json == {"answer": "PutReply", "duplicate": True}
    item = PublishItem("reclaimed", "", b"1", TEXT, req_id=9, producer=Producer("p", 1))
    async with await TopicSocket.open(hub, encoding) as socket:
        await socket.send(Publish((item,)))
        (result,) = (await socket.hear(9)).results
    assert result == PublishResult(9, None, 0, None, duplicate=True)
    assert (await topic.put("3", producer="p", sequence="3")).json["channelSerial"] == "3"


@pytest.mark.spec("ONCE-02")
@shared
async def test_a_batch_may_be_repeated(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "batch")
    item = {
        "channel": "batch",
        "payload": {"text": "a"},
        "producer": {"id": "p", "sequence": "1"},
    }

    first = await topic.call("POST", "/v1/hubs/acme/messages", json={"publishes": [item]})
    again = await topic.call("POST", "/v1/hubs/acme/messages", json={"publishes": [item]})

    (stored,) = first.json["published"]
    assert stored == {"success": True, "msgID": stored["msgID"], "channelSerial": "1"}
    assert again.json["published"] == [{**stored, "duplicate": True}]


# -- subscriptions ------------------------------------------------------------------------------


@shared
async def test_a_subscription_says_where_it_stands(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "state")
    await topic.put("before")

    made = await topic.subscribe("billing")

    assert made.status == 200
    expected = {
        "topic": "state",
        "name": "billing",
        "options": {
            "shared": False,
            "leaseSeconds": 30.0,
            "maxUnacknowledged": 1000,
            "maxDeliveries": 0,
        },
        "epoch": made.json["epoch"],
        "floor": "1",
        "head": "1",
        "lag": 0,
        "handedOut": 0,
        "createdAt": made.json["createdAt"],
        "redeliveries": 0,
        "deadLetters": 0,
        "missed": 0,
    }
    assert made.json == {"answer": "SUBSCRIBED", "new": True, **expected}
    assert (await topic.state("billing")).json == expected

    await topic.put("after")
    again = await topic.subscribe("billing", start="first")
    assert again.json == {"answer": "SUBSCRIBED", **expected, "head": "2", "lag": 1}


@pytest.mark.parametrize(
    ("start", "expected"), [("first", ["1", "2", "3"]), ("2", ["3"]), ("new", []), ("0", ["1"])]
)
@shared
async def test_a_subscription_begins_where_it_is_told_to(
    hub: RunningHub, start: str, expected: list[str]
) -> None:
    topic = HttpTopic(hub, f"start:{start}")
    for number in "123":
        await topic.put(number)

    await topic.subscribe(start=start)

    assert texts(await topic.get(limit=10))[: len(expected) or None] == expected


@shared
async def test_options_are_kept_until_others_are_given(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "options")
    given: dict[str, Any] = {
        "shared": True,
        "leaseSeconds": 2.5,
        "maxUnacknowledged": 7,
        "maxDeliveries": 3,
        "deadLetters": "options:bad",
    }

    assert (await topic.subscribe(**given)).json["options"] == given
    assert (await topic.subscribe()).json["options"] == given
    changed = await topic.subscribe(shared=True)
    assert changed.json["options"]["leaseSeconds"] == 30.0


@shared
async def test_who_unsubscribed_is_not_subscribed_any_more(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "unsubscribe")
    await topic.subscribe()

    gone = await topic.unsubscribe()

    assert (gone.status, gone.json) == (200, {"answer": "UNSUBSCRIBED"})
    await topic.put("x")
    assert (await topic.get()).error == (404, "not_subscribed")
    assert (await topic.state()).error == (404, "not_subscribed")
    assert (await topic.unsubscribe()).error == (404, "not_subscribed")
    assert (await topic.ack(upTo="1")).error == (404, "not_subscribed")


@shared
async def test_a_topic_that_nobody_made_is_not_there(hub: RunningHub) -> None:
    for topic in (HttpTopic(hub, "nowhere"), HttpTopic(hub, "live:nowhere")):
        assert (await topic.get()).error == (404, "topic_not_found")
        assert (await topic.state()).error == (404, "topic_not_found")


@shared
async def test_a_channel_that_does_not_store_is_no_topic(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "live:never")
    assert (await topic.put()).error == (404, "topic_not_found")
    assert (await topic.subscribe()).error == (404, "topic_not_found")


async def test_the_first_put_makes_a_topic_where_the_hub_says_so(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=LIVE, namespaces={"log": STORED}, topic_rules="of-log"))
    topic = HttpTopic(hub, "one")

    assert (await topic.put("a")).json["channelSerial"] == "1"

    await topic.subscribe(start="first")
    assert texts(await topic.get()) == ["a"]


@shared
async def test_the_callers_own_subscriptions_are_listed(hub: RunningHub) -> None:
    token = hub.token("lister")
    topics = [HttpTopic(hub, f"list:{n}", token) for n in (1, 2)]
    for topic in topics:
        await topic.subscribe("a")
    await topics[0].subscribe("b")

    listed = (await topics[0].listed()).json["subscriptions"]

    assert sorted((each["topic"], each["name"]) for each in listed) == [
        ("list:1", "a"),
        ("list:1", "b"),
        ("list:2", "a"),
    ]
    assert all(each["lag"] == 0 for each in listed)


# -- get and acknowledge ------------------------------------------------------------------------


@shared
async def test_a_get_answers_the_first_messages_that_are_not_acknowledged(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "get")
    await topic.subscribe()
    put = [await topic.put(text, event="e") for text in "abc"]

    got = await topic.get(limit=2)

    assert got.json["answer"] == "TopicArticle"
    assert got.json["messages"][0] == {
        "channel": "get",
        "event": "e",
        "payload": {"text": "a"},
        "msgID": put[0].json["msgID"],
        "ts": got.json["messages"][0]["ts"],
        "channelSerial": "1",
        "deliveries": 1,
        "redelivered": False,
    }
    assert texts(got) == ["a", "b"]
    again = await topic.get()
    assert texts(again) == ["a"]
    assert again.json["messages"][0]["redelivered"] is True
    assert again.json["messages"][0]["deliveries"] == 2


@shared
async def test_an_acknowledged_message_never_comes_again(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "ack")
    await topic.subscribe()
    for text in "abcde":
        await topic.put(text)

    assert (await topic.ack(upTo="2")).json == {"answer": "Ack", "floor": "2"}
    assert (await topic.ack(serials=["4"])).json == {"answer": "Ack", "floor": "2"}
    assert texts(await topic.get(limit=10)) == ["c", "e"]
    assert (await topic.ack(serials=["3"])).json == {"answer": "Ack", "floor": "4"}
    assert texts(await topic.get(limit=10, ackUpTo=5)) == []
    assert (await topic.get()).json == {"answer": "EmptyTopic", "messages": []}


@shared
async def test_who_gets_may_fetch_ahead(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "ahead")
    await topic.subscribe()
    for text in "abc":
        await topic.put(text)

    assert texts(await topic.get()) == ["a"]
    assert texts(await topic.get(limit=10, after=1)) == ["b", "c"]
    assert texts(await topic.get(limit=10, after=3)) == []
    assert texts(await topic.get(limit=10)) == ["a", "b", "c"]


@shared
async def test_what_is_given_back_comes_again_at_once(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "back")
    await topic.subscribe(shared=True)
    await topic.put("a")

    assert texts(await topic.get(consumer="one")) == ["a"]
    assert texts(await topic.get(consumer="two")) == []
    back = await topic.ack(serials=["1"], consumer="one", giveBack=True)
    assert back.json == {"answer": "Ack", "floor": "0"}
    assert texts(await topic.get(consumer="two")) == ["a"]


@shared
async def test_who_shares_a_subscription_shares_its_messages(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "shared")
    await topic.subscribe(shared=True)
    for number in range(6):
        await topic.put(str(number))

    got = [texts(await topic.get(limit=3, consumer=consumer)) for consumer in ("one", "two")]

    assert sorted(got[0] + got[1]) == [str(number) for number in range(6)]
    await topic.ack(upTo="6", consumer="one")
    assert (await topic.state()).json["handedOut"] == 3


@shared
async def test_one_request_gets_a_message_of_each_topic(hub: RunningHub) -> None:
    token = hub.token("each")
    full, empty, named = (HttpTopic(hub, f"each:{n}", token) for n in ("full", "empty", "named"))
    await full.subscribe()
    await empty.subscribe()
    await named.subscribe("mine")
    await full.put("a")
    await full.put("b")

    topics = (await full.get_each()).json["topics"]

    assert topics.keys() == {"each:full", "each:empty"}
    assert topics["each:empty"] == {"answer": "EmptyTopic", "messages": []}
    assert topics["each:full"]["answer"] == "TopicArticle"
    assert [m["payload"] for m in topics["each:full"]["messages"]] == [{"text": "a"}]
    assert (await full.get_each(name="mine")).json["topics"].keys() == {"each:named"}


# -- waiting ------------------------------------------------------------------------------------


@shared
async def test_a_waiting_get_is_woken_by_a_put_through_another_door(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "wait:woken")
    await topic.subscribe()
    async with asyncio.TaskGroup() as group:
        get = group.create_task(topic.get(wait=60))
        await until(lambda: hub.waiting_consumers())
        socket = await hub.socket()
        item = {"channel": "wait:woken", "payload": {"text": "a"}, "reqID": 1}
        await socket.send("Publish", publishes=[{**item, "extra": {"store": True}}])
    assert texts(get.result()) == ["a"]


@shared
async def test_a_get_waits_no_longer_than_it_was_told_to(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "wait:over")
    await topic.subscribe()
    assert (await topic.get(wait="0.05")).json == {"answer": "EmptyTopic", "messages": []}


@shared
async def test_a_client_that_goes_away_waits_no_more(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "wait:gone")
    await topic.subscribe()
    async with await RawConnection.open(hub.address) as client:
        client.request(f"POST {topic.path()}/get?wait=60")
        await until(lambda: hub.waiting_consumers())
    await until(lambda: not hub.waiting_consumers())
    await topic.put("a")
    assert (await topic.get()).json["messages"][0]["deliveries"] == 1


async def test_who_waits_is_sent_away_when_the_server_stops(start_server: StartHub) -> None:
    hub = await start_server(topic_hub())
    topic = HttpTopic(hub, "wait:stop")
    await topic.subscribe()
    async with asyncio.TaskGroup() as group:
        get = group.create_task(topic.get(wait=60))
        await until(lambda: hub.waiting_consumers())
        await hub.server.stop()
    assert get.result().error == (503, "going_away")
    assert get.result().headers["Retry-After"]


@pytest.mark.spec("OPS-03")
@pytest.mark.parametrize("ended", ["token", "permission"])
async def test_what_ends_while_a_get_waits_ends_for_it_too(start_hub: StartHub, ended: str) -> None:
    hub = await start_hub(topic_hub())
    ann = HttpTopic(hub, "wait:ended", hub.token("ann"))
    await ann.subscribe()
    async with asyncio.TaskGroup() as group:
        get = group.create_task(ann.get(wait=60))
        await until(lambda: hub.waiting_consumers())
        if ended == "token":
            body: dict[str, Any] = {"kind": "user", "subject": "ann"}
            assert (await admin_of(hub)("POST", f"{HUB}/revocations", body)).status == 201
        else:
            body = {"store": True}
            assert (await admin_of(hub)("PUT", f"{HUB}/rules/default", body)).status == 200
        service = HttpTopic(hub, "wait:ended", hub.token(None, level=Level.SERVICE))
        assert (await service.put("secret")).status == 200
    expected = (401, "invalid_token") if ended == "token" else (403, "not_permitted")
    assert get.result().error == expected


# -- what stays ---------------------------------------------------------------------------------


@pytest.mark.spec("ONCE-02", "ONCE-03")
async def test_a_restart_forgets_nothing(start_server: StartHub) -> None:
    hub = await start_server(topic_hub())
    topic = HttpTopic(hub, "restart")
    await topic.subscribe()
    put = [await topic.put(text, producer="p", sequence=str(n)) for n, text in ((1, "a"), (2, "b"))]
    await topic.ack(upTo="1")
    assert texts(await topic.get()) == ["b"]
    await hub.server.stop()

    topic = HttpTopic(await start_server(topic_hub()), "restart")

    again = await topic.put("b", producer="p", sequence="2")
    assert again.json == {**put[1].json, "duplicate": True}
    got = await topic.get(limit=10)
    assert texts(got) == ["b"]
    assert got.json["messages"][0]["redelivered"] is True


@shared
async def test_what_is_handed_out_too_often_becomes_a_dead_letter(hub: RunningHub) -> None:
    topic, letters = HttpTopic(hub, "worn"), HttpTopic(hub, "worn.dead")
    await letters.subscribe(start="new")
    await topic.subscribe(maxDeliveries=2)
    await topic.put("bad")
    for _ in range(2):
        assert texts(await topic.get()) == ["bad"]

    assert texts(await topic.get()) == []

    assert texts(await letters.get(wait=5)) == ["bad"]
    await topic.put("good")
    assert texts(await topic.get(wait=5)) == ["good"]
    assert (await topic.state()).json["deadLetters"] == 1


# -- mistakes -----------------------------------------------------------------------------------

T = "/v1/hubs/acme/topics/bad"
S = f"{T}/subscriptions/default"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.spec("OPS-03")
@pytest.mark.parametrize(
    ("line", "body", "code", "named"),
    [
        (f"POST {T}/messages?sequence=1", b"x", "malformed", "sequence"),
        (f"POST {T}/messages?fence=1", b"x", "malformed", "fence"),
        (f"POST {T}/messages?producer=p", b"x", "malformed", "sequence"),
        (f"POST {T}/messages?producer=p&sequence=0", b"x", "bad_request", "sequence"),
        (f"POST {T}/messages?producer=p&sequence=-1", b"x", "malformed", "sequence"),
        (f"POST {T}/messages?producer=p&sequence=1.5", b"x", "malformed", "sequence"),
        (f"POST {T}/messages?producer=p&sequence={'9' * 19}", b"x", "malformed", "sequence"),
        (f"POST {T}/messages?producer=p&sequence=1&fence=x", b"x", "malformed", "fence"),
        (f"POST {T}/messages?producer=&sequence=1", b"x", "invalid_name", "producer"),
        (f"POST {T}/messages?producer=a%00&sequence=1", b"x", "invalid_name", "producer"),
        (f"POST {T}/messages?producer=p&producer=q&sequence=1", b"x", "malformed", "twice"),
        (f"POST {T}/messages?event=%0a", b"x", "invalid_name", "event"),
        (f"POST {T}/messages?store=true", b"x", "malformed", "store"),
        (f"POST {T}/producers/a%0A", b"", "invalid_name", "producer"),
        (f"POST {T}/producers/p?fence=1", b"", "malformed", "fence"),
        (f"PUT {S}?start=middle", b"", "malformed", "start"),
        (f"PUT {S}?start=-1", b"", "malformed", "start"),
        (f"PUT {S}?start=", b"", "malformed", "start"),
        (f"PUT {S}?begin=new", b"", "malformed", "begin"),
        (f"PUT {S}", b"{", "malformed", "options"),
        (f"PUT {S}", b"\xff", "malformed", "UTF-8"),
        (f"PUT {S}", b"[" * 5000, "malformed", "body"),
        (f"PUT {S}", b'{"share":true}', "malformed", "share"),
        (f"PUT {S}", b'{"shared":"yes"}', "malformed", "shared"),
        (f"PUT {S}", b'{"leaseSeconds":0}', "bad_request", "leaseSeconds"),
        (f"PUT {S}", b'{"leaseSeconds":1e9}', "bad_request", "leaseSeconds"),
        (f"PUT {S}", b'{"maxUnacknowledged":0}', "bad_request", "maxUnacknowledged"),
        (f"PUT {S}", b'{"maxDeliveries":-1}', "bad_request", "maxDeliveries"),
        (f"PUT {S}", b'{"maxDeliveries":1,"deadLetters":"a*"}', "invalid_name", "channel"),
        (f"PUT {S}", b'{"deadLetters":"a"}', "bad_request", "maxDeliveries"),
        (f"PUT {T}/subscriptions/a%2A", b"", "invalid_name", "subscription"),
        (f"PUT {T}/subscriptions/{'n' * 256}", b"", "invalid_name", "subscription"),
        (f"PUT {T}/subscriptions/", b"", "invalid_name", "subscription"),
        ("PUT /v1/hubs/acme/topics/a%2A/subscriptions/a", b"", "invalid_name", "channel"),
        ("PUT /v1/hubs/acme/topics//subscriptions/a", b"", "invalid_name", "channel"),
        (f"GET {S}?limit=1", b"", "malformed", "limit"),
        (f"DELETE {S}?force=1", b"", "malformed", "force"),
        (f"POST {S}/get?limit=0", b"", "malformed", "limit"),
        (f"POST {S}/get?limit=1001", b"", "malformed", "limit"),
        (f"POST {S}/get?limit=ten", b"", "malformed", "limit"),
        (f"POST {S}/get?wait=61", b"", "malformed", "wait"),
        (f"POST {S}/get?wait=-1", b"", "malformed", "wait"),
        (f"POST {S}/get?wait=nan", b"", "malformed", "wait"),
        (f"POST {S}/get?wait=1s", b"", "malformed", "wait"),
        (f"POST {S}/get?ackUpTo=x", b"", "malformed", "ackUpTo"),
        (f"POST {S}/get?after=x", b"", "malformed", "after"),
        (f"POST {S}/get?waits=1", b"", "malformed", "waits"),
        (f"POST {S}/ack", b"", "malformed", "acknowledgement"),
        (f"POST {S}/ack", b"{}", "malformed", "serials"),
        (f"POST {S}/ack", b'{"serials":[]}', "malformed", "serials"),
        (f"POST {S}/ack", b'{"serials":["1"],"upTo":"1"}', "malformed", "upTo"),
        (f"POST {S}/ack", b'{"upTo":"-1"}', "malformed", "upTo"),
        (f"POST {S}/ack", b'{"upTo":true}', "malformed", "upTo"),
        (f"POST {S}/ack", b'{"serials":["one"]}', "malformed", "serials"),
        (f"POST {S}/ack", b'{"upto":"1"}', "malformed", "upto"),
        (f"POST {S}/ack?upTo=1", b"", "malformed", "upTo"),
        ("GET /v1/hubs/acme/subscriptions?name=a", b"", "malformed", "name"),
        ("POST /v1/hubs/acme/subscriptions/get?topic=a", b"", "malformed", "topic"),
        ("POST /v1/hubs/acme/subscriptions/get?name=", b"", "invalid_name", "subscription"),
    ],
)
@shared
async def test_a_mistake_is_named(
    shared_hub: RunningHub, line: str, body: bytes, code: str, named: str
) -> None:
    async with await RawConnection.open(shared_hub.address) as client:
        client.request(line, body=body)
        answer = await client.response()
        assert (answer.status, answer.error) == (400, code), answer.body
        assert named in answer.body.decode(), answer.body
        client.request("GET /healthz")
        assert (await client.response()).status == 200


@shared
async def test_too_many_serials_are_refused(hub: RunningHub) -> None:
    topic = HttpTopic(hub, "many")
    refused = await topic.ack(serials=[str(number) for number in range(1, 1002)])
    assert refused.error == (413, "too_large")


@pytest.mark.spec("OPS-03")
@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        (f"{T}/messages", "POST"),
        (f"{T}/producers/p", "POST"),
        (S, "DELETE, GET, HEAD, PUT"),
        (f"{S}/get", "POST"),
        (f"{S}/ack", "POST"),
        ("/v1/hubs/acme/subscriptions", "GET, HEAD"),
        ("/v1/hubs/acme/subscriptions/get", "POST"),
    ],
)
@shared
async def test_a_wrong_method_is_told_the_right_ones(
    hub: RunningHub, path: str, allowed: str
) -> None:
    for method in {"GET", "POST", "PUT", "DELETE", "PATCH"} - set(allowed.split(", ")):
        async with hub.http.request(method, path) as answer:
            assert answer.status == 405
            assert answer.headers["Allow"] == allowed


@pytest.mark.parametrize(
    "path",
    [
        "/v1/hubs/acme/topics",
        T,
        f"{T}/subscriptions",
        f"{S}/nothing",
        f"{S}/get/more",
        f"{T}/producers",
        "/v1/hubs/acme/subscriptions/other",
    ],
)
@shared
async def test_other_paths_are_not_there(hub: RunningHub, path: str) -> None:
    async with hub.http.get(path) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (404, "not_found")


# -- whose --------------------------------------------------------------------------------------


@pytest.mark.spec("OPS-03")
@shared
async def test_nobody_reads_anothers_subscription(hub: RunningHub) -> None:
    ann = HttpTopic(hub, "whose", hub.token("ann"))
    bob = HttpTopic(hub, "whose", hub.token("bob"))
    nobody = HttpTopic(hub, "whose")
    elsewhere = HttpTopic(hub, "whose", hub.token("ann", hub="other"), name="other")
    await ann.subscribe()
    await ann.put("a")

    for other in (bob, nobody):
        assert (await other.get()).error == (404, "not_subscribed")
        assert (await other.ack(upTo="1")).error == (404, "not_subscribed")
        assert (await other.unsubscribe()).error == (404, "not_subscribed")
        assert (await other.state()).error == (404, "not_subscribed")
        assert "whose" not in str((await other.listed()).json)
    assert (await elsewhere.get()).error == (404, "topic_not_found")
    assert (await elsewhere.listed()).json == {"subscriptions": []}
    await bob.subscribe(start="first")
    await bob.ack(upTo="1")
    assert texts(await ann.get()) == ["a"]


@pytest.mark.spec("OPS-03", "ONCE-02")
@shared
async def test_nobody_uses_up_anothers_sequences(hub: RunningHub) -> None:
    ann = HttpTopic(hub, "whose:producer", hub.token("ann"))
    bob = HttpTopic(hub, "whose:producer", hub.token("bob"))
    elsewhere = HttpTopic(hub, "whose:producer", hub.token("ann", hub="other"), name="other")

    fence = (await ann.open("p")).json["fence"]
    await bob.open("p")
    await bob.open("p")
    put: dict[str, Any] = {"producer": "p", "sequence": "1"}

    assert (await bob.put("b", **put)).json["duplicate"] is False
    assert (await elsewhere.put("e", **put)).json["channelSerial"] == "1"
    mine = await ann.put("a", **put, fence=fence)
    assert (mine.json["duplicate"], mine.json["channelSerial"]) == (False, "2")


@pytest.mark.spec("OPS-03")
async def test_a_hub_that_wants_a_token_gives_nothing_without(start_hub: StartHub) -> None:
    hub = await start_hub(topic_hub(allow_anonymous=False, default_rules=None))
    stranger = HttpTopic(hub, "t")
    powerless = HttpTopic(hub, "t", hub.token("ann"))
    reader = HttpTopic(hub, "t", hub.token("bob", grants=(Grant("t", subscribe=True),)))

    for call in (stranger.put(), stranger.get(), stranger.listed(), stranger.subscribe()):
        assert (await call).error == (401, "not_authenticated")
    forged = HttpTopic(hub, "t", "no.real.token")
    assert (await forged.get()).error == (401, "invalid_token")
    for call in (powerless.put(), powerless.subscribe(), powerless.open("p"), reader.put()):
        assert (await call).error == (403, "not_permitted")
