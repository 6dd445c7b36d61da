"""Topics over WebSocket in both encodings: every request, every answer, and what goes on beside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from harness.running_hub import RunningHub, StartHub, hub_settings
from harness.topics import Codec, HttpTopic, TopicSocket, texts, topic_hub, until
from hubbub.domain import errors, notices, requests
from hubbub.domain.messages import TEXT
from hubbub.domain.requests import Producer, PublishItem, Request
from hubbub.domain.topics import Article, SubscriptionOptions
from hubbub.engine.sessions.session import Session
from hubbub.engine.topics.requests import MAX_UNDER_WAY
from hubbub.protocols.json.codec import JSON_V1
from hubbub.protocols.protobuf.codec import PROTOBUF_V1
from hubbub.server.wiring import Server

shared = pytest.mark.asyncio(loop_scope="module")
both = pytest.mark.parametrize(
    "codec", [JSON_V1, PROTOBUF_V1], ids=lambda codec: str(codec.subprotocol)
)
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


def put(topic: str, text: str, producer: Producer | None = None) -> Callable[..., Request]:
    def request(req_id: int) -> Request:
        body = text.encode()
        return requests.Publish(
            (PublishItem(topic, "", body, TEXT, True, req_id=req_id, producer=producer),)
        )

    return request


def said(articles: tuple[Article, ...]) -> list[str]:
    return [each.message.payload.decode() for each in articles]


def session_of(hub: RunningHub) -> Session:
    """The only session of the hub."""
    (session,) = hub.server.node.hub("acme").sessions.values()
    assert isinstance(session, Session)
    return session


# -- every request ------------------------------------------------------------------------------


@both
@shared
async def test_put_get_and_acknowledge(hub: RunningHub, codec: Codec) -> None:
    topic = f"round:{codec.opcode}"
    async with await TopicSocket.open(hub, codec) as socket:
        made = await socket.ask(requests.TopicSubscribe, topic)
        assert isinstance(made, notices.TopicSubscribed)
        assert (made.subscription.new, made.subscription.floor) == (True, 0)
        (stored,) = (await socket.ask(put(topic, "a"))).results
        assert (stored.error, stored.serial, stored.duplicate) == (None, 1, False)

        got = await socket.ask(requests.TopicGet, topic, limit=10)
        assert isinstance(got, notices.TopicMessages)
        assert said(got.messages) == ["a"]
        (article,) = got.messages
        assert (article.deliveries, article.redelivered) == (1, False)
        assert (article.message.id, article.message.serial) == (stored.message_id, 1)

        acked = await socket.ask(requests.TopicAck, topic, up_to=1)
        assert (acked.topic, acked.name, acked.floor) == (topic, "default", 1)
        empty = await socket.ask(requests.TopicGet, topic)
        assert isinstance(empty, notices.TopicMessages)
        assert empty.messages == ()
        gone = await socket.ask(requests.TopicUnsubscribe, topic)
        assert isinstance(gone, notices.TopicUnsubscribed)
        failed = await socket.ask(requests.TopicGet, topic)
        assert isinstance(failed.error, errors.NotSubscribed)
        failed = await socket.ask(requests.TopicGet, "nowhere")
        assert isinstance(failed.error, errors.TopicNotFound)


@both
@pytest.mark.spec("ONCE-02")
@shared
async def test_a_producer_is_opened_and_its_puts_are_known_again(
    hub: RunningHub, codec: Codec
) -> None:
    topic = f"producer:{codec.opcode}"
    async with await TopicSocket.open(hub, codec) as socket:
        first = await socket.ask(requests.ProducerOpen, topic, "p")
        assert (first.topic, first.producer, first.sequence) == (topic, "p", 0)
        stamp = Producer("p", 1, first.fence)

        (stored,) = (await socket.ask(put(topic, "a", stamp))).results
        (again,) = (await socket.ask(put(topic, "a", stamp))).results
        (other,) = (await socket.ask(put(topic, "b", stamp))).results
        (gap,) = (await socket.ask(put(topic, "c", Producer("p", 3, first.fence)))).results

        assert (stored.serial, stored.duplicate) == (1, False)
        assert (again.message_id, again.serial, again.duplicate) == (stored.message_id, 1, True)
        assert isinstance(other.error, errors.SequenceReused)
        assert isinstance(gap.error, errors.SequenceGap)
        second = await socket.ask(requests.ProducerOpen, topic, "p")
        assert second.fence > first.fence
        assert second.sequence == 1
        (late,) = (await socket.ask(put(topic, "b", Producer("p", 2, first.fence)))).results
        assert isinstance(late.error, errors.ProducerFenced)


@both
@shared
async def test_a_shared_subscription_hands_each_message_to_one(
    hub: RunningHub, codec: Codec
) -> None:
    topic = f"shared:{codec.opcode}"
    options = SubscriptionOptions(True, 60.0, 10, 0, None)
    async with await TopicSocket.open(hub, codec) as socket:
        made = await socket.ask(requests.TopicSubscribe, topic, "work", options)
        assert made.subscription.options == options
        for text in "abc":
            await socket.ask(put(topic, text))

        one = await socket.ask(requests.TopicGet, topic, "work", 2, consumer="one")
        two = await socket.ask(requests.TopicGet, topic, "work", 2, consumer="two")
        assert (said(one.messages), said(two.messages)) == (["a", "b"], ["c"])
        back = await socket.ask(
            requests.TopicAck, topic, "work", (2,), consumer="one", give_back=True
        )
        assert back.floor == 0
        two = await socket.ask(requests.TopicGet, topic, "work", 2, consumer="two")
        assert said(two.messages) == ["b"]
        assert two.messages[0].redelivered


@both
@shared
async def test_own_subscriptions_are_listed_and_asked_all_at_once(
    hub: RunningHub, codec: Codec
) -> None:
    token = hub.token(f"lister{codec.opcode}")
    async with await TopicSocket.open(hub, codec, token) as socket:
        assert (await socket.ask(requests.TopicList)).subscriptions == ()
        for topic in ("list:a", "list:b"):
            await socket.ask(requests.TopicSubscribe, topic, "mine")
        await socket.ask(put("list:a", "x"))

        listed = await socket.ask(requests.TopicList)
        found = {each.key.channel: each.lag for each in listed.subscriptions}
        each = await socket.ask(requests.TopicGet, None, "mine")

        assert found == {"list:a": 1, "list:b": 0}
        assert isinstance(each, notices.EachTopicMessages)
        assert {topic: said(found.messages) for topic, found in each.topics.items()} == {
            "list:a": ["x"],
            "list:b": [],
        }


@both
@shared
async def test_large_messages_come_in_several_answers(hub: RunningHub, codec: Codec) -> None:
    topic = f"large:{codec.opcode}"
    http = HttpTopic(hub, topic)
    count, padding = 50, "x" * 200_000
    async with await TopicSocket.open(hub, codec) as socket:
        await socket.ask(requests.TopicSubscribe, topic)
        for start in range(0, count, 10):
            await asyncio.gather(*(http.put(padding) for _ in range(start, start + 10)))
        serials: list[int] = []
        answers = 0
        while len(serials) < count:
            done = serials[-1] if serials else None
            got = await socket.ask(requests.TopicGet, topic, limit=1000, ack_up_to=done)
            serials += [each.message.serial for each in got.messages]
            answers += 1
    assert serials == list(range(1, count + 1))
    assert answers > 1


# -- waiting ------------------------------------------------------------------------------------


@both
@shared
async def test_a_session_goes_on_while_its_get_waits(hub: RunningHub, codec: Codec) -> None:
    topic = f"beside:{codec.opcode}"
    async with await TopicSocket.open(hub, codec) as socket:
        await socket.ask(requests.TopicSubscribe, topic)
        await socket.send(requests.TopicGet(topic, wait_seconds=60, req_id=1000))

        assert await socket.ask(requests.Ping) is not None
        page = await socket.ask(requests.History, topic)
        assert isinstance(page, notices.HistoryPage)
        (stored,) = (await socket.ask(put(topic, "mine"))).results

        assert stored.serial == 1
        assert said((await socket.hear(1000)).messages) == ["mine"]


@both
@shared
async def test_a_waiting_get_is_woken_by_a_put_over_http(hub: RunningHub, codec: Codec) -> None:
    topic = f"woken:{codec.opcode}"
    async with await TopicSocket.open(hub, codec) as socket:
        await socket.ask(requests.TopicSubscribe, topic)
        await socket.send(requests.TopicGet(topic, wait_seconds=60, req_id=1000))
        await socket.ask(requests.Ping)
        assert (await HttpTopic(hub, topic).put("from http")).status == 200
        assert said((await socket.hear(1000)).messages) == ["from http"]


@shared
async def test_both_doors_lead_to_the_same_subscription(hub: RunningHub) -> None:
    token = hub.token("doors")
    http = HttpTopic(hub, "doors", token)
    async with await TopicSocket.open(hub, JSON_V1, token) as socket:
        await http.subscribe()
        await http.put("a")
        await http.put("b")
        await socket.ask(requests.TopicAck, "doors", up_to=1)
        assert texts(await http.get(limit=5)) == ["b"]


@both
async def test_a_closed_session_waits_no_more(start_server: StartHub, codec: Codec) -> None:
    hub = await start_server(topic_hub())
    socket = await TopicSocket.open(hub, codec)
    await socket.ask(requests.TopicSubscribe, "t")
    session = session_of(hub)
    (under_way,) = (session._under_way or {}).values()
    await socket.send(requests.TopicGet("t", wait_seconds=60))
    await until(lambda: under_way.waiting)

    await socket.connection.close()

    await until(lambda: not under_way.waiting and not under_way.count)
    await HttpTopic(hub, "t").put("a")
    assert (await HttpTopic(hub, "t").get()).json["messages"][0]["deliveries"] == 1


async def test_a_session_that_never_asks_counts_no_requests(start_hub: StartHub) -> None:
    hub = await start_hub(topic_hub())
    async with await TopicSocket.open(hub, JSON_V1) as socket:
        await socket.ask(put("t", "a"))
        assert session_of(hub)._under_way is None


async def test_a_session_has_only_so_many_requests_under_way(start_hub: StartHub) -> None:
    hub = await start_hub(topic_hub(), session__messagesPerSecond=0)
    async with await TopicSocket.open(hub, JSON_V1) as socket:
        await socket.ask(requests.TopicSubscribe, "t")
        for number in range(MAX_UNDER_WAY):
            await socket.send(requests.TopicGet("t", wait_seconds=60, req_id=1000 + number))

        refused = await socket.ask(requests.TopicList)

        assert isinstance(refused.error, errors.Limited)
        assert str(MAX_UNDER_WAY) in refused.error.message
        await HttpTopic(hub, "t").put("a")
        for number in range(MAX_UNDER_WAY):
            assert said((await socket.hear(1000 + number)).messages) == ["a"]
        assert isinstance(await socket.ask(requests.TopicList), notices.TopicSubscriptions)


async def test_requests_about_topics_count_for_the_rate(start_hub: StartHub) -> None:
    hub = await start_hub(topic_hub(), session__messagesPerSecond=1, session__messageBurst=3)
    async with await TopicSocket.open(hub, JSON_V1) as socket:
        answers = [await socket.ask(requests.TopicList) for _ in range(5)]
    limited = [each for each in answers if isinstance(each, notices.Failed)]
    assert limited
    assert all(isinstance(each.error, errors.RateLimited) for each in limited)


# -- whose --------------------------------------------------------------------------------------


@both
@pytest.mark.spec("OPS-03")
@shared
async def test_nobody_reads_anothers_subscription(hub: RunningHub, codec: Codec) -> None:
    topic = f"whose:{codec.opcode}"
    async with (
        await TopicSocket.open(hub, codec, hub.token("ann")) as ann,
        await TopicSocket.open(hub, codec, hub.token("bob")) as bob,
        await TopicSocket.open(hub, codec, hub.token("ann", hub="other"), "other") as elsewhere,
    ):
        await ann.ask(requests.TopicSubscribe, topic)
        await ann.ask(put(topic, "a"))

        for refused in (
            await bob.ask(requests.TopicGet, topic),
            await bob.ask(requests.TopicAck, topic, up_to=1),
            await bob.ask(requests.TopicUnsubscribe, topic),
        ):
            assert isinstance(refused.error, errors.NotSubscribed)
        refused = await elsewhere.ask(requests.TopicGet, topic)
        assert isinstance(refused.error, errors.TopicNotFound)
        for other in (bob, elsewhere):
            listed = await other.ask(requests.TopicList)
            assert topic not in {each.key.channel for each in listed.subscriptions}
        assert said((await ann.ask(requests.TopicGet, topic)).messages) == ["a"]


@pytest.mark.spec("OPS-03")
@shared
async def test_who_became_someone_else_gets_nothing_of_before(hub: RunningHub) -> None:
    async with await TopicSocket.open(hub, JSON_V1, hub.token("before")) as socket:
        await socket.ask(requests.TopicSubscribe, "became")
        await socket.send(requests.TopicGet("became", wait_seconds=60, req_id=1000))
        await socket.ask(requests.Authenticate, token=hub.token("after"))
        await HttpTopic(hub, "became").put("secret")
        assert isinstance((await socket.hear(1000)).error, errors.NotPermitted)


@pytest.mark.spec("OPS-03")
async def test_who_has_not_authenticated_gets_nothing(start_hub: StartHub) -> None:
    hub = await start_hub(topic_hub(allow_anonymous=False))
    async with await TopicSocket.open(hub, JSON_V1) as socket:
        refused = await socket.ask(requests.TopicList)
        assert isinstance(refused.error, errors.NotAuthenticated)


@pytest.mark.asyncio(loop_scope="module")
@both
@pytest.mark.parametrize(
    ("request_sent", "named"),
    [
        (requests.TopicGet("t", limit=0, req_id=7), "limit"),
        (requests.TopicGet("t", limit=1001, req_id=7), "limit"),
        (requests.TopicGet("t", wait_seconds=60.5, req_id=7), "wait"),
        (requests.TopicGet(None, limit=2, req_id=7), "topic"),
        (requests.TopicAck("t", req_id=7), "serials"),
        (requests.TopicAck("t", serials=(1,), up_to=1, req_id=7), "upTo"),
        (requests.TopicSubscribe("t", options=SubscriptionOptions(lease_seconds=0), req_id=7), "l"),
        (requests.TopicSubscribe("t*", req_id=7), "channel"),
        (requests.TopicSubscribe("t", "a*", req_id=7), "subscription"),
        (requests.ProducerOpen("t", "", req_id=7), "producer"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
@pytest.mark.spec("OPS-03")
@shared
async def test_a_mistake_is_answered_and_the_session_goes_on(
    shared_hub: RunningHub, codec: Codec, request_sent: Request, named: str
) -> None:
    async with await TopicSocket.open(shared_hub, codec) as socket:
        await socket.send(request_sent)
        refused = await socket.hear(7)
        assert isinstance(refused.error, errors.BadRequest)
        assert named in refused.error.message
        assert isinstance(await socket.ask(requests.TopicList), notices.TopicSubscriptions)
