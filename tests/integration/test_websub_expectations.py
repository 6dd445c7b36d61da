"""What publishers and subscribers of WebSub expect of a hub beyond the plain flow."""

from __future__ import annotations

import asyncio
import gzip
import re
import time
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from harness.admin import admin_of
from harness.callbacks import Callbacks, eventually
from harness.journal import QUIET, journalled
from harness.receivers import Received, Reply, confirm, whole_answer
from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from harness.websub import WebSub
from hubbub.client import Options, connect
from hubbub.client.zeromq import ZeroMqTopics
from hubbub.domain.journal import WEBHOOK_ATTEMPT, JournalEvent
from hubbub.domain.webhooks import verify_signature
from hubbub.engine.webhooks.service import Webhooks

shared = pytest.mark.asyncio(loop_scope="module")
pytestmark = pytest.mark.spec("WEB-03")

STORED = msgspec.structs.replace(OPEN, store=True, store_by_default=True)


@shared
@pytest.mark.parametrize("path", ["/websub", "/v1/hubs/demo/websub"])
async def test_the_link_names_the_address_at_which_the_hub_was_reached(
    demo: RunningHub, path: str
) -> None:
    websub = WebSub(demo, path)
    async with Callbacks() as callbacks:
        await websub.active(callbacks, topic := websub.own(f"linked-{len(path)}"))
        query = urlencode({"hub.mode": "publish", "hub.topic": topic})
        await websub.post(b"x", f"?{query}", Content_Type="text/plain")
        told = await callbacks.next()
    assert f'<http://{demo.address}{path}>; rel="hub"' in told.headers["link"]


@shared
@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/feed+json; charset=UTF-8; profile=x",
        "Text/HTML; Charset=UTF-8",
    ],
)
@pytest.mark.parametrize("body", [b'{"a":\n 1}', b"{}"])
async def test_the_content_type_arrives_exactly_as_it_was_given(
    demo: RunningHub, content_type: str, body: bytes
) -> None:
    websub = WebSub(demo)
    async with Callbacks() as callbacks:
        await websub.active(callbacks, topic := websub.own("typed"))
        query = urlencode({"hub.mode": "publish", "hub.topic": topic})
        status, text = await websub.post(body, f"?{query}", Content_Type=content_type)
        assert status == 202, text
        told = await callbacks.next()
    assert (told.headers["content-type"], told.body) == (content_type, body)


@shared
@pytest.mark.parametrize("form", ["channels", "topics"])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("application/json; charset=utf-8", None),
        ("application/feed+json; profile=x", None),
        ("Text/HTML; Charset=UTF-8", None),
        ("application/json", None),
        ("application/x-www-form-urlencoded", "text/plain"),  # what curl sends unasked
    ],
)
async def test_the_content_type_of_any_publisher_over_http_arrives_as_it_was_given(
    demo: RunningHub, form: str, given: str, expected: str | None
) -> None:
    websub = WebSub(demo)
    async with Callbacks() as callbacks:
        await websub.active(callbacks, websub.own("spelt"))
        headers = {"Content-Type": given}
        url = f"/v1/hubs/demo/{form}/spelt/messages"
        for _ in range(2):  # the second time by the short way
            async with demo.http.post(url, data=b"{}", headers=headers) as answer:
                assert answer.status == 200, await answer.text()
            told = await callbacks.next()
            assert told.headers["content-type"] == (expected or given)


@shared
@pytest.mark.parametrize(
    "how", ["json", "json, envelope", "protobuf", "protobuf, envelope", "zeromq"]
)
@pytest.mark.parametrize(
    "given",
    ["application/json; charset=UTF-8", "application/feed+json; profile=x", "Text/HTML; Charset=X"],
)
async def test_the_content_type_of_a_publisher_over_a_socket_arrives_as_it_was_given(
    demo: RunningHub, how: str, given: str
) -> None:
    websub = WebSub(demo)
    async with Callbacks() as callbacks:
        await websub.active(callbacks, websub.own("spelt"))
        if how == "zeromq":
            assert demo.server.zeromq is not None
            async with ZeroMqTopics(demo.server.zeromq, hub="demo") as topics:
                await topics.put("spelt", b"{}", content_type=given)
        else:
            options = Options(encoding="protobuf" if "protobuf" in how else "json")
            envelope: Any = {"language": "en"} if "envelope" in how else {}
            async with connect(f"ws://{demo.address}", hub="demo", options=options) as client:
                await client.publish("spelt", b"{}", content_type=given, store=True, **envelope)
        assert (await callbacks.next()).headers["content-type"] == given


class Site(Callbacks):
    """A web site with pages of its own."""

    def __init__(self, **pages: Reply) -> None:
        super().__init__(self.page)
        self.pages = pages

    def page(self, request: Received) -> Reply:
        return self.pages.get(request.path.strip("/"), 404)


async def _told(demo: RunningHub, site: Site, page: str) -> Received:
    """What a subscriber gets after a ping."""
    websub = WebSub(demo)
    async with Callbacks() as callbacks:
        await websub.active(callbacks, topic := site.at(f"/{page}"))
        await websub.ask(mode="publish", url=topic)
        return await callbacks.next()


@shared
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_of_a_pinged_topic_are_followed(demo: RunningHub, status: int) -> None:
    async with Site(new=whole_answer(200, b"moved", Content_Type="text/plain")) as site:
        site.pages["old"] = whole_answer(status, Location="/between#part")
        site.pages["between"] = whole_answer(status, Location=site.at("/new"))
        assert (await _told(demo, site, "old")).body == b"moved"


@shared
@pytest.mark.spec("WEB-05")
@pytest.mark.parametrize(
    ("location", "word"),
    [
        ("/endless", "redirect"),
        ("ftp://example.org/", "redirect"),
        ("http://10.1.2.3/", "refused_address"),
        ("http://[::ffff:10.1.2.3]/", "refused_address"),
    ],
)
async def test_redirects_are_few_and_lead_nowhere_that_the_hub_may_not_go(
    demo: RunningHub, location: str, word: str
) -> None:
    websub = WebSub(demo)
    counts = demo.server.driver.counters["demo"].fetches
    before = counts[word]
    async with Callbacks() as callbacks, Site() as site:
        site.pages["endless"] = whole_answer(302, Location=location)
        await websub.active(callbacks, topic := site.at("/endless"))
        await websub.ask(mode="publish", url=topic)

        async def counted() -> bool:
            return counts[word] > before

        await eventually(counted)
        assert len(site.received) <= 6
        assert not callbacks.messages


_PLAIN = b"<feed>" + b"hello " * 1000 + b"</feed>"


@shared
@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(_PLAIN)),
        ("deflate", zlib.compress(_PLAIN)),
        ("deflate", zlib.compress(_PLAIN, wbits=-15)),
        ("identity", _PLAIN),
        ("deflate, GZIP", gzip.compress(zlib.compress(_PLAIN))),
    ],
    ids=["gzip", "deflate", "deflate without a header", "identity", "both"],
)
async def test_the_content_encoding_of_a_pinged_topic_is_undone(
    demo: RunningHub, coding: str, body: bytes
) -> None:
    page = whole_answer(200, body, Content_Type="text/xml", Content_Encoding=coding)
    async with Site(feed=page) as site:
        assert (await _told(demo, site, "feed")).body == _PLAIN


@shared
@pytest.mark.parametrize(
    ("coding", "body", "word"),
    [
        ("gzip", gzip.compress(bytes(2 << 20)), "too_large"),
        ("gzip", gzip.compress(_PLAIN)[:-9], "encoding"),
        ("gzip", b"no gzip", "encoding"),
        ("br", b"x", "encoding"),
    ],
    ids=["a bomb", "cut short", "not gzip", "unknown"],
)
async def test_an_encoding_that_cannot_be_undone_is_a_failure_that_is_counted(
    demo: RunningHub, coding: str, body: bytes, word: str
) -> None:
    counts = demo.server.driver.counters["demo"].fetches
    before = counts[word]
    websub = WebSub(demo)
    page = whole_answer(200, body, Content_Encoding=coding)
    async with Callbacks() as callbacks, Site(feed=page) as site:
        await websub.active(callbacks, topic := site.at("/feed"))
        await websub.ask(mode="publish", url=topic)

        async def counted() -> bool:
            return counts[word] > before

        await eventually(counted)


@shared
async def test_a_pinged_topic_may_be_as_large_as_what_is_fetched(demo: RunningHub) -> None:
    large = b"x" * (900 * 1024)
    async with Site(feed=whole_answer(200, large, Content_Type="text/plain")) as site:
        assert (await _told(demo, site, "feed")).body == large


async def test_a_hub_may_sign_by_sha1_and_answer_publishers_204(start_hub: StartHub) -> None:
    hub = await start_hub(
        open_hub(
            rules=STORED,
            callback_addresses="loopback",
            websub_algorithm="sha1",
            websub_no_content=True,
        )
    )
    websub = WebSub(hub, "/v1/hubs/acme/websub")
    async with Callbacks() as callbacks, Callbacks() as other:
        await websub.active(callbacks, topic := websub.own("news"), secret="s")
        await websub.active(other, topic, secret="s", algorithm="sha512")
        query = urlencode({"hub.mode": "publish", "hub.topic": topic})
        assert await websub.post(b"x", f"?{query}", Content_Type="text/plain") == (204, "")
        assert await websub.ask(mode="publish", url=topic) == (204, "")
        for receiver, method in ((callbacks, "sha1="), (other, "sha512=")):
            told = await receiver.next()
            assert told.headers["x-hub-signature"].startswith(method)
            assert verify_signature(b"s", told.headers["x-hub-signature"], told.body)


@shared
async def test_who_unsubscribes_from_nothing_is_told_so(demo: RunningHub) -> None:
    websub = WebSub(demo)
    async with Callbacks() as callbacks:
        status, text = await websub.ask(
            mode="unsubscribe", callback=callbacks.at(), topic=websub.own("never")
        )
        assert status == 404
        assert "nothing to unsubscribe from" in text
        assert not callbacks.received


@shared
async def test_a_callback_hears_that_an_administrator_ended_its_subscription(
    demo: RunningHub,
) -> None:
    websub = WebSub(demo)
    admin = admin_of(demo)
    async with Callbacks() as callbacks:
        await websub.active(callbacks, topic := websub.own("ended"))
        (webhook,) = [each for each in await websub.webhooks() if each.topic == topic]
        reply = await admin("DELETE", f"/v1/admin/hubs/demo/webhooks/{webhook.id}")
        assert reply.status == 204
        told = await callbacks.next()
    assert (told.method, told.query["hub.mode"]) == ("GET", "denied")
    assert "administrator" in told.query["hub.reason"]


async def test_callbacks_hear_of_the_erasure_of_their_user_and_of_the_end_of_their_hub(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=STORED, callback_addresses="loopback"))
    path = "/v1/hubs/acme/websub"
    async with Callbacks() as of_ann, Callbacks() as of_hub:
        ann = WebSub(hub, path, Authorization=f"Bearer {hub.token('ann')}")
        await ann.active(of_ann, topic := ann.own("news"))
        await WebSub(hub, path).active(of_hub, topic)
        for callbacks, address, word in (
            (of_ann, "/v1/admin/hubs/acme/users/ann", "erased"),
            (of_hub, "/v1/admin/hubs/acme", "deleted"),
        ):
            assert (await admin_of(hub)("DELETE", address)).status in (200, 204)
            told = await callbacks.next()
            assert told.query["hub.mode"] == "denied"
            assert word in told.query["hub.reason"]


async def modes_heard(hub: RunningHub, end: Callable[[WebSub], Awaitable[None]]) -> list[str]:
    """What one callback hears when somebody ends ann's subscription, up to bob's."""
    async with Callbacks() as callbacks:
        ann = WebSub(hub, "/v1/hubs/acme/websub", Authorization=f"Bearer {hub.token('ann')}")
        await ann.active(callbacks, ann.own("news"))
        await end(ann)
        await callbacks.next()
        bob = WebSub(hub, "/v1/hubs/acme/websub", Authorization=f"Bearer {hub.token('bob')}")
        await bob.active(callbacks, bob.own("news"))
        return [each.query["hub.mode"] for each in callbacks.received]


async def test_a_callback_hears_once_that_its_user_was_revoked_and_erased(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=STORED, callback_addresses="loopback"))

    async def erase(_: WebSub) -> None:
        erased = await admin_of(hub)("DELETE", "/v1/admin/hubs/acme/users/ann?revoke=true")
        assert erased.status == 200

    assert await modes_heard(hub, erase) == ["subscribe", "denied", "subscribe"]


async def test_a_callback_hears_once_of_several_administrators_who_end_its_subscription(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=STORED, callback_addresses="loopback"))

    async def remove(ann: WebSub) -> None:
        (webhook,) = await ann.webhooks()
        path = f"/v1/admin/hubs/acme/webhooks/{webhook.id}"
        answers = await asyncio.gather(*(admin_of(hub)("DELETE", path) for _ in range(5)))
        assert {each.status for each in answers} <= {204, 404}

    assert await modes_heard(hub, remove) == ["subscribe", "denied", "subscribe"]


@pytest.mark.parametrize("confirms", [True, False])
async def test_a_callback_hears_that_its_lease_is_cut(
    start_server: StartHub, confirms: bool
) -> None:
    """The operator lowers the longest lease: a callback confirms the shorter lease, or hears that
    its subscription ended."""
    settings = open_hub(rules=STORED, callback_addresses="loopback")
    hub = await start_server(settings)
    path, day = "/v1/hubs/acme/websub", 86_400
    async with Callbacks() as callbacks:
        websub = WebSub(hub, path)
        await websub.active(callbacks, websub.own("news"), lease_seconds=str(9 * day))
        await hub.server.stop()
        if not confirms:
            callbacks.respond = lambda request: 404
        hub = await start_server(settings, webhooks__maxLease=day)
        websub = WebSub(hub, path)
        asked = await callbacks.next()
        assert (asked.query["hub.mode"], asked.query["hub.lease_seconds"]) == (
            "subscribe",
            str(day),
        )
        if not confirms:
            told = await callbacks.next()
            assert told.query["hub.mode"] == "denied"
            assert f"longest lease is {day} seconds" in told.query["hub.reason"]
            assert not await websub.webhooks()
            return

        async def shortened() -> bool:
            (webhook,) = await websub.webhooks()
            assert webhook.expires_at is not None
            return webhook.pending is None and webhook.expires_at < (time.time() + day + 1) * 1000

        await eventually(shortened)


@pytest.mark.parametrize("status", [302, 404])
async def test_retries_hold_for_refusals_and_dead_letters_are_fewer_after_a_replay(
    start_server: StartHub, tmp_path: Path, status: int
) -> None:
    hub = await start_server(
        open_hub(rules=STORED, callback_addresses="loopback"),
        webhooks__retries=2, webhooks__firstRetry=0.01, webhooks__breakerFailures=1000,
        channel__lagSeries=1, channel__lagInterval=0.05, **QUIET,
    )  # fmt: skip
    websub = WebSub(hub, "/v1/hubs/acme/websub")
    async with Callbacks() as callbacks:
        await websub.active(callbacks, topic := websub.own("refused"))
        (webhook,) = await websub.webhooks()
        callbacks.respond = lambda request: status
        query = urlencode({"hub.mode": "publish", "hub.topic": topic})
        await websub.post(b"x", f"?{query}", Content_Type="text/plain")
        node = hub.server.node
        place = node.hub("acme")

        async def dead() -> bool:
            return (await node.feature(Webhooks).describe(place, webhook.id)).dead_letters == 1

        async def shown() -> bool:
            """The number of dead letters among the metrics is the one that it has."""
            number = (await node.feature(Webhooks).describe(place, webhook.id)).dead_letters
            told = rf"^hubbub_subscription_dead_letters{{.*}} {number}\.0$"
            return re.search(told, await hub.metrics(), re.MULTILINE) is not None

        await eventually(dead)
        await eventually(shown)
        assert len(callbacks.messages) == 3
        assert "hubbub_webhook_failed_seconds_count" in await hub.metrics()
        assert hub.server.driver.counters["acme"].failed.count == 3
        callbacks.respond = confirm
        assert await node.feature(Webhooks).replay(place, webhook.id) == (1, 0)
        assert (await node.feature(Webhooks).describe(place, webhook.id)).dead_letters == 0
        await eventually(shown)

    def attempts(events: list[JournalEvent]) -> list[JournalEvent]:
        return [each for each in events if each.kind == WEBHOOK_ATTEMPT]

    events = await journalled(tmp_path / "data" / "journal", lambda found: len(attempts(found)) > 3)
    told = attempts(events)
    assert [each.outcome for each in told] == ["status"] * 3 + ["ok"]
    assert [each.status for each in told[:3]] == [status] * 3
    assert all(each.duration for each in told), "also of those that failed"


@shared
@pytest.mark.parametrize(
    ("content_type", "body"),
    [("application/json; charset=utf-8", b'{"a":\n 1}'), ("text/html", b"<script>x</script>")],
)
async def test_a_topic_delivers_what_getting_it_answers(
    demo: RunningHub, content_type: str, body: bytes
) -> None:
    path = f"/v1/hubs/demo/channels/page-{len(body)}/content"
    topic, websub = f"http://{demo.address}{path}", WebSub(demo)
    async with demo.http.get(path) as answer:
        assert answer.status == 404
    async with Callbacks() as callbacks:
        await websub.active(callbacks, topic)
        query = urlencode({"hub.mode": "publish", "hub.topic": topic})
        await websub.post(body, f"?{query}", Content_Type=content_type)
        told = await callbacks.next()
    async with demo.http.get(path) as answer:
        spelt = answer.headers.get("hubbub-content-type", answer.headers["content-type"])
        assert (await answer.read(), spelt) == (body, content_type)
        assert str(answer.links["self"]["url"]) == topic
        assert str(answer.links["hub"]["url"]) == f"http://{demo.address}/v1/hubs/demo/websub"
        assert answer.headers["content-security-policy"].startswith("sandbox")
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert (told.body, told.headers["content-type"]) == (body, content_type)
    assert f'<{topic}>; rel="self"' in told.headers["link"]
    async with demo.http.head(path) as answer:
        assert (answer.status, answer.headers["content-length"]) == (200, str(len(body)))
    async with demo.http.delete(path) as answer:
        assert answer.status == 405
