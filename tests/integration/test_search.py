"""Search for phrases in stored messages: at every door, only where one may read."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from harness.command import hubbub
from harness.engine import Cluster, receive
from harness.restoring import restore_hub
from harness.running_hub import OPEN, RunningHub, StartHub, hub_settings, open_hub
from harness.unreliable import STORMY
from hubbub.client import Client, connect, sync
from hubbub.domain.errors import BadRequest
from hubbub.domain.messages import TEXT
from hubbub.domain.notices import Published
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.requests import Publish, PublishItem
from hubbub.domain.rules import Rules
from hubbub.domain.search import Search, SearchPage
from hubbub.server.backup.making import back_up
from hubbub.server.wiring import Server

pytestmark = pytest.mark.spec("LIVE-24")

STORED = msgspec.structs.replace(OPEN, store=True, store_by_default=True)
SEARCHED = msgspec.structs.replace(STORED, search=True)
CLOSED = msgspec.structs.replace(SEARCHED, public=False)
SEARCH = "/v1/hubs/acme/search"


async def say(hub: RunningHub, channel: str, *texts: str, token: str | None = None) -> None:
    service = token or hub.token("svc", level=Level.SERVICE)
    async with connect(f"ws://{hub.address}", hub="acme", token=service) as client:
        for text in texts:
            await client.publish(channel, text)


async def read(
    hub: RunningHub, query: str, status: int = 200, token: str | None = None, **more: object
) -> dict[str, Any]:
    asked = "&".join(f"{name}={quote(str(value))}" for name, value in {"q": query, **more}.items())
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with hub.http.get(f"{SEARCH}?{asked}", headers=headers) as answer:
        found: dict[str, Any] = await answer.json()
        assert answer.status == status, found
        return found


def texts(page: dict[str, Any]) -> list[str]:
    return [hit["message"]["payload"]["text"] for hit in page["hits"]]


def places(page: dict[str, Any]) -> list[str]:
    return [hit["message"]["channel"] for hit in page["hits"]]


async def test_a_phrase_is_found_over_all_channels(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=SEARCHED))
    await say(hub, "desk", "The build is red", "lunch?")
    await say(hub, "ops", "red alert", "who broke the build?")
    page = await read(hub, '"build is red"')
    assert (texts(page), page["behind"]) == (["The build is red"], 0)
    assert "cursor" not in page
    assert places(await read(hub, "red", order="time")) == ["ops", "desk"]
    assert texts(await read(hub, "red", channel="desk")) == ["The build is red"]
    assert texts(await read(hub, "the build", channel="o*")) == ["who broke the build?"]
    assert texts(await read(hub, "dinner")) == []


async def test_the_best_come_first(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=SEARCHED))
    await say(hub, "desk", "red red red", "red", "red " + "and much more " * 20)
    page = await read(hub, "red")
    assert [text[:11] for text in texts(page)] == ["red red red", "red", "red and muc"]
    scores = [hit["score"] for hit in page["hits"]]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("order", ["rank", "time"])
async def test_pages_follow_each_other_while_messages_arrive(
    start_hub: StartHub, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.engine.search.service.RANKED", 5)
    hub = await start_hub(open_hub(rules=SEARCHED))
    for number in range(8):
        await say(hub, f"c{number % 3}", f"red {number}", "other", "red " * (number % 4 + 1))
    seen: list[tuple[str, str]] = []
    page = await read(hub, "red", order=order, limit=2)
    while True:
        seen += [(h["message"]["channel"], h["message"]["channelSerial"]) for h in page["hits"]]
        await say(hub, "c0", "red")
        if "cursor" not in page:
            break
        page = await read(hub, "red", order=order, limit=2, cursor=page["cursor"])
    assert len(seen) == len(set(seen)) == 16


async def test_times_and_filters_narrow_a_search(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=SEARCHED))
    async with connect(f"ws://{hub.address}", hub="acme") as client:
        for price in range(5):
            await client.publish("desk", {"what": "red car", "price": price})
        (_, _, middle, *_) = (await client.history("desk", after=0)).messages
        cheap = await client.search("car", where="payload.price lt 2", order="time", limit=1)
        assert [hit.message.data["price"] for hit in cheap.hits] == [1]
        assert cheap.cursor is not None
        rest = await client.search(
            "car", where="payload.price lt 2", order="time", limit=1, cursor=cheap.cursor
        )
        assert [hit.message.data["price"] for hit in rest.hits] == [0]
        at = middle.time
        assert {hit.message.serial for hit in (await client.search("car", since=at)).hits} >= {3, 5}
        before = at - timedelta(minutes=1)
        assert (await client.search("car", until=before)).hits == ()
        until = await client.search("car", until=at, order="time")
        assert until.hits[-1].message.serial == 1
    page = await read(hub, "car", where="payload.price gte 4")
    assert [hit["message"]["payload"]["json"]["price"] for hit in page["hits"]] == [4]


async def test_only_channels_that_one_may_read_are_searched(start_hub: StartHub) -> None:
    hub = await start_hub(
        open_hub(
            rules=CLOSED,
            namespaces={"open": SEARCHED},
            allow_anonymous=False,
            user_channel=True,
        )
    )
    for channel in ("open:a", "desk", "u:ann", "u:bob", "u:bob.dead"):
        await say(hub, channel, "the secret")
    ann = hub.token("ann")
    granted = hub.token("ann", grants=(Grant("desk", subscribe=True),))
    assert sorted(places(await read(hub, "secret", token=ann))) == ["open:a", "u:ann"]
    assert sorted(places(await read(hub, "secret", token=granted))) == ["desk", "open:a", "u:ann"]
    service = hub.token("svc", level=Level.SERVICE)
    assert len(places(await read(hub, "secret", token=service))) == 5
    viewer = hub.token("eve", level=Level.VIEWER)
    assert places(await read(hub, "secret", token=viewer)) == []
    for channel in ("desk", "nowhere", "u:bob"):
        refused = await read(hub, "secret", 403, ann, channel=channel)
        assert refused["error"]["message"] == f"no permission to search {channel!r}"
    assert places(await read(hub, "secret", token=ann, channel="u:*")) == ["u:ann"]


async def test_a_hidden_channel_changes_nothing_about_an_answer(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=CLOSED, namespaces={"open": SEARCHED}))
    await say(hub, "open:a", "red 1")
    before = await read(hub, "red", limit=1, order="time")
    await say(hub, "hidden", *(f"red {n}" for n in range(20)))
    assert await read(hub, "red", limit=1, order="time") == before


@pytest.mark.parametrize(
    ("query", "more", "said"),
    [
        ("", {}, "no word"),
        ('"..."', {}, "no word"),
        ("a" * 257, {}, "characters"),
        ("a " * 17, {}, "words"),
        ("a", {"limit": 0}, "limit"),
        ("a", {"limit": 101}, "limit"),
        ("a", {"order": "best"}, "order"),
        ("a", {"since": -1}, "since"),
        ("a", {"cursor": "x"}, "cursor"),
        ("a", {"cursor": "lM8AAAA"}, "cursor"),
        ("a", {"channel": "a b\x00"}, "channel"),
        ("a", {"page": 1}, "page"),
    ],
)
async def test_a_wrong_search_is_refused_by_name(
    start_hub: StartHub, query: str, more: dict[str, object], said: str
) -> None:
    hub = await start_hub(open_hub(rules=SEARCHED))
    refused = await read(hub, query, 400, **more)  # type: ignore[arg-type]
    assert said in refused["error"]["message"], refused


async def test_what_is_not_stored_or_not_indexed_is_not_found(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=STORED, namespaces={"open": SEARCHED}))
    await say(hub, "desk", "red")
    assert texts(await read(hub, "red")) == []
    async with connect(f"ws://{hub.address}", hub="acme") as client:
        await client.publish("open:a", "red", transient=True)
    assert texts(await read(hub, "red")) == []


async def restart(tmp_path: Path, rules: Rules) -> RunningHub:
    server = Server(hub_settings(tmp_path, open_hub(rules=rules)))
    await server.start()
    return RunningHub(server)


async def test_an_index_that_is_switched_on_later_is_completed_by_itself(tmp_path: Path) -> None:
    hub = await restart(tmp_path, STORED)
    await say(hub, "desk", *(f"red {number}" for number in range(250)))
    await say(hub, "ops", "red")
    await hub.close()
    hub = await restart(tmp_path, SEARCHED)
    try:
        await hub.server.owner.expire()
        async with asyncio.timeout(20):
            while len((await read(hub, "red", limit=100))["hits"]) < 100:
                await asyncio.sleep(0.01)
            while not (await read(hub, "red", channel="ops"))["hits"]:
                await asyncio.sleep(0.01)
    finally:
        await hub.close()
    hub = await restart(tmp_path, STORED)
    try:
        used = await hub.server.store.used_bytes("acme")
        await hub.server.owner.expire()
        async with asyncio.timeout(20):
            while await hub.server.store.read_indexed_channels("acme", "", 9):
                await asyncio.sleep(0.01)
        assert await hub.server.store.used_bytes("acme") < used
        assert texts(await read(hub, "red")) == []
    finally:
        await hub.close()


async def test_a_search_completes_the_index_of_what_it_searches(tmp_path: Path) -> None:
    hub = await restart(tmp_path, SEARCHED)
    await say(hub, "desk", "red 1")
    await hub.close()
    hub = await restart(tmp_path, STORED)
    await say(hub, "desk", "red 2")
    await hub.close()
    hub = await restart(tmp_path, SEARCHED)
    try:
        page = await read(hub, "red", order="time")
        assert (texts(page), page["behind"]) == (["red 2", "red 1"], 0)
    finally:
        await hub.close()


async def test_what_is_deleted_or_erased_is_not_found(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=SEARCHED))
    await say(hub, "desk", "red 1", "red 2")
    await say(hub, "desk", "red 3", token=hub.token("ann"))
    await hub.delete_before("desk", 2)
    assert texts(await read(hub, "red", order="time")) == ["red 3", "red 2"]
    admin = {"Authorization": f"Bearer {hub.token(None, '*', Level.ADMIN)}"}
    async with hub.http.delete("/v1/admin/hubs/acme/users/ann", headers=admin) as answer:
        assert answer.status == 200, await answer.text()
    assert texts(await read(hub, "red", order="time")) == ["red 2"]


@pytest.mark.spec("OPS-04")
async def test_a_hub_that_is_restored_is_searched_as_it_was(
    start_hub: StartHub, tmp_path: Path
) -> None:
    hub = await start_hub(open_hub(rules=SEARCHED))
    await say(hub, "desk", "red 1")
    data = Path(hub.server.settings.storage.path)
    archive, *_ = back_up(data, tmp_path / "backup.tar.gz", with_secrets=True)
    await say(hub, "desk", "red 2", "blue")
    told = await restore_hub(hub, archive)
    assert told["state"] == "done", told
    assert texts(await read(hub, "blue")) == []
    page = await read(hub, "red")
    assert (texts(page), page["behind"]) == (["red 1"], 0)
    await say(hub, "desk", "red 3")
    assert texts(await read(hub, "red", order="time")) == ["red 3", "red 1"]


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
async def test_search_with_the_client(start_hub: StartHub, encoding: str) -> None:
    hub = await start_hub(open_hub(rules=SEARCHED))
    await say(hub, "desk", "red 1", "red 2")
    options = msgspec.structs.replace(connect().options, encoding=encoding)
    async with connect(f"ws://{hub.address}", hub="acme", options=options) as client:
        page = await client.search("red", order="time", limit=1)
        assert [hit.message.data for hit in page.hits] == ["red 2"]
        assert page.hits[0].message.channel == "desk"
        assert 0 < (await client.search("red")).hits[0].score < 1
        rest = await client.search("red", order="time", limit=1, cursor=page.cursor)
        assert ([hit.message.data for hit in rest.hits], rest.cursor) == (["red 1"], None)
        with pytest.raises(BadRequest, match="no word"):
            await client.search("?")
        await client.set_filter("one", where='payload eq "red 1"')
        assert [hit.message.data for hit in (await client.search("red")).hits] == ["red 1"]


async def test_search_with_the_blocking_client(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=SEARCHED))
    await say(hub, "desk", "red 1")

    def work() -> list[object]:
        with sync.connect(f"ws://{hub.address}", hub="acme") as client:
            return [hit.message.data for hit in client.search("red").hits]

    assert await asyncio.to_thread(work) == ["red 1"]


@pytest.mark.spec("UI-03")
async def test_search_on_the_command_line(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=SEARCHED))
    await say(hub, "desk", "red 1", "red 2", "blue")
    at = {"HUBBUB_URL": f"ws://{hub.address}", "HUBBUB_HUB": "acme"}
    found = await hubbub("search", "red", "--newest", env=at)
    assert [line.split("  ")[0] for line in found.out.splitlines()] == ["desk", "desk"]
    assert "red 2" in found.out.splitlines()[0]
    one = await hubbub("search", '"red 1"', "--json", env=at)
    (shown,) = map(json.loads, one.out.splitlines())
    assert shown["message"]["payload"] == {"text": "red 1"}
    assert 0 < shown["score"] < 1
    some = await hubbub("search", "red", "--limit", "1", env=at)
    assert "--limit" in some.err
    none = await hubbub("search", "green", "--since", "1h", env=at)
    assert "no such messages" in none.err


async def test_search_by_command(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=SEARCHED, commands=True))
    await say(hub, "desk", "The build is red", "lunch")
    async with connect(f"ws://{hub.address}", hub="acme", token=hub.token("ann")) as client:
        found = await ask(client, {"q": '"build is"', "chid": "#desk"})
        assert [hit["message"]["payload"] for hit in found["hits"]] == ["The build is red"]
        assert found["hits"][0]["message"]["chid"] == "#desk@acme"
        assert found["behind"] == 0
        page = await ask(client, {"q": "the", "limit": 1, "order": "time"})
        assert "cursor" not in page
        for wrong, status in (({}, 6), ({"q": "..."}, 7), ({"q": "a", "limit": 0}, 7), (None, 6)):
            with pytest.raises(Exception) as refused:
                await ask(client, wrong)
            assert refused.value.status == status, wrong  # type: ignore[attr-defined]


async def ask(client: Client, params: object) -> Any:
    return await client.command("hSearch", params)


async def test_too_many_channels_and_too_long_searches_are_refused(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await start_hub(open_hub(rules=SEARCHED))
    for number in range(3):
        await say(hub, f"c{number}", "red")
    monkeypatch.setattr("hubbub.engine.search.service.MAX_CHANNELS", 2)
    refused = await read(hub, "red", 429)
    assert refused["error"]["code"] == "too_many_channels"
    assert len((await read(hub, "red", channel="c1"))["hits"]) == 1
    monkeypatch.setattr("hubbub.engine.search.service.MAX_CHANNELS", 9)
    monkeypatch.setattr("hubbub.engine.search.service.MAX_SECONDS", -1.0)
    refused = await read(hub, "red", 504)
    assert "rarer word" in refused["error"]["message"]


async def test_a_channel_with_a_hook_is_searched_only_by_its_name(start_hub: StartHub) -> None:
    hooked = msgspec.structs.replace(SEARCHED, subscribe_hook="may")
    hub = await start_hub(open_hub(rules=SEARCHED, namespaces={"asked": hooked}))
    await say(hub, "asked:a", "red")
    assert places(await read(hub, "red")) == []
    refused = await read(hub, "red", 502, channel="asked:a")
    assert refused["error"]["code"] == "hook_failed"
    service = hub.token("svc", level=Level.SERVICE)
    assert places(await read(hub, "red", token=service)) == ["asked:a"]


@pytest.mark.parametrize("seed", [21, 22])
async def test_every_node_finds_the_same(tmp_path: Path, seed: int) -> None:
    async with Cluster(
        tmp_path, seed=seed, faults=STORMY, hubs=[open_hub(rules=SEARCHED)]
    ) as cluster:
        channel = cluster.channel_of("west")
        publisher = cluster.nodes["east"].connect()
        for number in range(1, 4):
            item = PublishItem(channel, "", b"red %d" % number, TEXT, store=True, req_id=number)
            receive(publisher, Publish((item,)))
            await publisher.next(Published, number)
        pages = []
        for node in cluster.nodes.values():
            asking = node.connect()
            receive(asking, Search("red", req_id=9, order="time"))
            pages.append(await asking.next(SearchPage))
        assert [hit.message.payload for hit in pages[0].hits] == [b"red 3", b"red 2", b"red 1"]
        assert pages[0] == pages[1]
