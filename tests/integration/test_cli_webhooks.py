"""`hubbub webhooks`, against a real server."""

from __future__ import annotations

import pytest

from harness.callbacks import Callbacks, eventually
from harness.command import Ended
from harness.invoking import answer, at, invoke, lines
from harness.light import Light
from harness.running_hub import RunningHub, StartHub
from harness.topics import topic_hub
from hubbub.domain.permissions import Level

pytestmark = pytest.mark.spec("UI-03", "WEB-04")


@pytest.fixture
async def hub(start_hub: StartHub) -> RunningHub:
    """What a receiver does not take at once is given up."""
    open_to_all = topic_hub(open_topics=True, callback_addresses="loopback")
    return await start_hub(open_to_all, webhooks__retries=0)


@pytest.fixture
def light(hub: RunningHub) -> Light:
    return Light(hub, "/v1/hubs/acme/hub")


class Commands:
    """As an administrator, for the hub `acme`."""

    def __init__(self, hub: RunningHub) -> None:
        self._environment = at(hub, hub.token("root", hub="*", level=Level.ADMIN))

    async def __call__(self, *arguments: str) -> Ended:
        return await invoke("webhooks", *arguments, **self._environment)


@pytest.fixture
def run(hub: RunningHub) -> Commands:
    return Commands(hub)


async def test_webhooks_are_listed_shown_and_removed(run: Commands, light: Light) -> None:
    assert "has no such webhook" in (await run("list")).err
    for topic in ("news", "sports"):
        await light.register(topic)
        await light.subscribe(9, topic)

    listed = await run("list", "--channel", "news")
    title, row = (line.split() for line in listed.out.splitlines())
    assert title[:6] == ["ID", "KIND", "CHANNEL", "CALLBACK", "STATE", "WAITING"]
    assert row[1:6] == ["light", "news", "http://127.0.0.1:9/", "active", "0"]
    (found,) = await lines(run, "list", "--channel", "sports")
    assert await answer(run, "show", found["id"]) == found
    shown = dict(
        line.split(maxsplit=1) for line in (await run("show", found["id"])).out.splitlines()
    )
    assert shown["callback"] == "http://127.0.0.1:9/"
    assert shown["status.breaker"] == "closed"
    assert shown["createdAt"] != str(found["createdAt"])  # but as people read it
    assert (await run("remove", found["id"], "--yes")).out == f"removed {found['id']}\n"
    gone = await run("show", found["id"])
    assert (gone.code, "not_found" in gone.err) == (1, True)
    assert len(await lines(run, "list")) == 1


async def test_what_was_given_up_is_replayed(run: Commands, light: Light) -> None:
    await light.register("news")
    async with Callbacks(lambda request: 503) as receiver:
        await light.subscribe(receiver.port, "news")
        await light.publish("news", "hello")
        webhook = (await lines(run, "list"))[0]["id"]

        async def given_up() -> bool:
            return bool((await answer(run, "show", webhook))["status"]["deadLetters"])

        await eventually(given_up)
        failing = await run("list", "--failing")
        assert failing.out.splitlines()[1].endswith("the receiver answered 503")
        failed = await run("replay", webhook)
        assert (failed.code, failed.out) == (1, "0 delivered, 1 failed\n")
        receiver.respond = lambda request: 200
        replayed = await run("replay", webhook)
        assert (replayed.code, replayed.out) == (0, "1 delivered, 0 failed\n")
        assert receiver.received[-1].body == b"hello"
        assert await answer(run, "replay", webhook) == {"delivered": 0, "failed": 0}
    assert await lines(run, "list", "--failing") == []


async def test_topics_are_listed_and_removed(run: Commands, light: Light) -> None:
    assert "has no registered topic" in (await run("topics")).err
    await light.register("a/b")
    await light.ask("PUT", "register?key=true", "owned")
    await light.subscribe(9, "a/b")

    rows = [line.split() for line in (await run("topics")).out.splitlines()]
    assert [row[:2] for row in rows] == [["CHANNEL", "KEY"], ["a/b", "off"], ["owned", "on"]]
    assert "--yes" in (await run("remove-topic", "a/b")).err
    assert (await run("remove-topic", "a/b", "--yes")).out == "removed a/b\n"
    assert [each["channel"] for each in await lines(run, "topics")] == ["owned"]
    assert await lines(run, "list") == []
