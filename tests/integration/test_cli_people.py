"""`hubbub send`, `follow`, `peers`, `collectives`, `routes` and `adapters`, at a real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.admin import HUB, service_of
from harness.command import Ended
from harness.invoking import at, invoke, lines
from harness.receivers import Receiver
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.topics import STORED
from hubbub.client.people import People
from hubbub.domain.communication.settings import AdapterSettings, CommunicationSettings
from hubbub.domain.permissions import Level
from hubbub.domain.rules import HubConfiguration, HubSettings

pytestmark = pytest.mark.spec("UI-03", "COMM-01", "COMM-04")


class Commands:
    """As an administrator, for the hub `acme`."""

    def __init__(self, hub: RunningHub) -> None:
        self._environment = at(hub, hub.token("root", hub="*", level=Level.ADMIN))

    async def __call__(self, *arguments: str) -> Ended:
        return await invoke(*arguments, **self._environment)

    async def well(self, *arguments: str) -> str:
        ended = await self(*arguments)
        assert ended.code == 0, ended.err
        return ended.out


def a_hub() -> HubConfiguration:
    return HubConfiguration("acme", HubSettings(callback_addresses="loopback"))


async def test_a_message_reaches_a_group_that_was_set_up_on_the_command_line(
    start_hub: StartHub,
) -> None:
    run = Commands(await start_hub(a_hub()))
    async with Receiver(lambda _: 204) as server:
        await run.well("adapters", "set", "pager", "rest", "timeoutSeconds=5")
        for peer in ("ann", "bob"):
            await run.well("peers", "set", peer, f"pager:{server.url}/{peer}")
        await run.well("collectives", "set", "ops", "ann")
        assert await run.well("collectives", "add", "ops", "bob") == "added bob\n"
        route = (await run.well("routes", "add", "collective:ops", "--type", "BUILD")).strip()
        (listed,) = await lines(run, "routes", "list")
        assert (listed["name"], listed["value"]["route"]) == (route, ["collective:ops"])

        sent = (await run.well("send", "it is red", "--type", "BUILD", "--from", "ci")).strip()
        assert sent
        assert {each.path for each in await server.got(2)} == {"/ann", "/bob"}
        await run.well("send", "to you", "--to", "ann", "--from", "ci")
        assert b"to you" in (await server.got(3))[2].body

        (status,) = await lines(run, "adapters", "list")
        assert status["name"] == "pager"
        assert {each["id"] for each in await lines(run, "peers", "list")} == {"ann", "bob"}
        await run.well("collectives", "remove", "ops", "bob")
        assert "bob" not in await run.well("collectives", "show", "ops")
        for words in (("routes", route), ("collectives", "ops"), ("peers", "ann")):
            await run.well(words[0], "delete", words[1], "--yes")
        assert (await run("send", "x", "--to", "ann", "--type", "", "--from", "ci")).code == 1


async def test_the_list_of_adapters_says_why_one_cannot_be_used(start_hub: StartHub) -> None:
    adapters = {"fax": AdapterSettings("fax")}
    run = Commands(await start_hub(HubConfiguration("acme", adapters=adapters)))
    assert "there is no adapter of the kind 'fax'" in await run.well("adapters", "list")


async def test_dead_deliveries_are_listed_replayed_and_discarded_on_the_command_line(
    start_hub: StartHub,
) -> None:
    run = Commands(await start_hub(a_hub()))
    async with Receiver(lambda _: 400) as server:
        await run.well("adapters", "set", "pager", "rest")
        await run.well("peers", "set", "ann", f"pager:{server.url}/ann")
        await run.well("send", "x", "--to", "ann", "--from", "ci")
        while not (dead := await lines(run, "peers", "dead")):
            pass
        assert (dead[0]["peer"], dead[0]["adapter"]) == ("ann", "pager")
        assert "status 400" in await run.well("peers", "dead")
        assert await run.well("peers", "replay", dead[0]["key"]) == "1 tried again\n"
        await server.got(2)
        while not await lines(run, "peers", "dead"):
            pass
        assert await run.well("peers", "discard", dead[0]["key"], "--yes") == "1 deleted\n"
        assert await lines(run, "peers", "dead") == []


@pytest.mark.spec("COMM-06", "COMM-09", "COMM-12")
async def test_what_the_admin_api_knows_of_peers_is_set_on_the_command_line(
    start_hub: StartHub,
) -> None:
    run = Commands(await start_hub(a_hub()))
    deny = {"effect": "deny", "types": ["ALARM"]}
    several = '["ftp", "ftp.example.org", "/in"]'
    await run.well("peers", "set", "ann", "pager:one", several, "--privacy", json.dumps(deny))
    ann = await shown(run, "peers", "show", "ann")
    assert [each["parameters"] for each in ann["addresses"]] == [
        ["one"],
        ["ftp.example.org", "/in"],
    ]
    assert ann["privacy"][0].items() >= deny.items()
    await run.well("peers", "set", "ann", "pager:one", "--no-privacy")
    assert (await shown(run, "peers", "show", "ann"))["privacy"] == []
    assert (await run("peers", "set", "ann", "[1]")).code == 2
    assert (await run("peers", "set", "ann", "--privacy", "{")).code == 2

    url = "http://127.0.0.1:9/"
    await run.well("callbacks", "set", "crm", "--callback-url", url, "--roles", "peerInfo")
    (listed,) = await lines(run, "callbacks", "list")
    assert (listed["name"], listed["value"]["roles"]) == ("crm", ["peerInfo"])
    headers = '{"Authorization": "x"}'
    await run.well("callbacks", "set", "crm", "--headers", headers)
    kept = await shown(run, "callbacks", "show", "crm")
    assert (kept["url"], kept["headers"]) == (url, {"Authorization": "(hidden)"})
    assert await run.well("callbacks", "delete", "crm", "--yes") == "deleted crm\n"
    assert "has no callbacks" in (await run("callbacks", "list")).err

    info = ("--type", "BUILD", "--subtype", "RESULT")
    await run.well("message-info", "set", "build", *info, "--purpose", "how a build ended")
    about = await shown(run, "message-info", "about", *info)
    assert about["purpose"] == "how a build ended"

    pulled = ("rest-pull", f"url={url}next", "--every", "60", "--awaits", "m1")
    await run.well("adapters", "set", "inbox", *pulled)
    assert (await shown(run, "adapters", "show", "inbox"))["awaits"] == "m1"


async def test_headers_go_along_with_a_message(start_hub: StartHub) -> None:
    hub = await start_hub(a_hub())
    run = Commands(hub)
    headers = ("--header", "ticket=7", "--header", "team=ops")
    await run.well("send", "x", "--to", "ann", "--from", "ci", *headers)
    (logged,) = await lines(run, "admin", "query-messages", "--receiver", "ann")
    assert logged["message"]["headers"] == {"ticket": "7", "team": "ops"}
    assert (await run("send", "x", "--to", "ann", "--from", "ci", "--header", "ticket")).code == 1


async def shown(run: Commands, *arguments: str) -> Any:
    return json.loads(await run.well(*arguments, "--json"))


async def test_who_sends_without_a_token_is_advised_of_one_that_may(start_hub: StartHub) -> None:
    refused = await invoke("send", "x", "--to", "ann", **at(await start_hub()))
    assert refused.code == 1
    assert "hubbub token --level service" in refused.err
    assert "grant" not in refused.err


async def test_peers_follow_channels_from_the_command_line(start_hub: StartHub) -> None:
    run = Commands(await start_hub(open_hub(rules=STORED)))
    assert "news" in await run.well("peers", "follow", "ann", "news", "--start", "first")
    (followed,) = await lines(run, "peers", "followed", "ann")
    assert (followed["channel"], followed["lag"]) == ("news", 0)
    assert await run.well("peers", "unfollow", "ann", "news") == "ann follows news no longer\n"
    assert (await run("peers", "unfollow", "ann", "news")).code == 1
    assert "follows no channel" in (await run("peers", "followed", "ann")).err


async def test_users_send_in_their_own_name_and_follow_channels_by_their_own_token(
    start_hub: StartHub,
) -> None:
    may_send = CommunicationSettings(client_send=True)
    hub = await start_hub(open_hub(rules=STORED, communication=may_send))
    user = at(hub, hub.token("ann"))

    async def run(*arguments: str) -> Ended:
        return await invoke(*arguments, **user)

    assert "news" in (await run("follow", "news", "--start", "first")).out
    (followed,) = await lines(run, "followed")
    assert (followed["channel"], followed["lag"]) == ("news", 0)
    assert (await run("unfollow", "news")).out == "you follow news no longer\n"
    again = await run("unfollow", "news")
    assert (again.code, "you do not follow 'news'" in again.err) == (1, True)
    assert "you follow no channel" in (await run("followed")).err
    sent = await run("send", "hello", "--to", "bob")
    assert sent.code == 0, sent.err
    people = People(f"ws://{hub.address}", "acme", hub.token("desk", level=Level.SERVICE))
    (logged,) = [each async for each in people.messages(receiver="bob")]
    assert logged["message"]["sender"] == "ann"


async def test_peers_are_imported_from_a_table(start_server: StartHub, tmp_path: Path) -> None:
    run = Commands(await start_server(a_hub()))
    file = tmp_path / "peers.csv"
    rows = [f"p{number},,p{number}@example.org; p{number}@example.com" for number in range(2500)]
    file.write_text("\n".join(["peer,policy,email", *rows, "ann,PREFERRED,", ""]))
    assert await run.well("peers", "import", str(file)) == "2501 peers\n"
    listed = {each["id"]: each["peer"] for each in await lines(run, "peers", "list")}
    assert len(listed) == 2501
    assert listed["ann"] == {"addresses": [], "policy": "PREFERRED", "privacy": []}
    addresses = [each["parameters"] for each in listed["p7"]["addresses"]]
    assert addresses == [["p7@example.org"], ["p7@example.com"]]


async def test_what_the_commands_do_not_know_stays_as_it_was(
    start_server: StartHub, tmp_path: Path
) -> None:
    hub = await start_server(a_hub())
    run, service = Commands(hub), service_of(hub)

    async def put(path: str, body: dict[str, object]) -> None:
        reply = await service("PUT", f"{HUB}/{path}", body)
        assert reply.status < 300, reply.text

    async def value(path: str) -> dict[str, Any]:
        found: dict[str, Any] = (await service("GET", f"{HUB}/{path}")).json
        return found

    await put("peers/ann", {"privacy": [{"effect": "deny", "senders": ["spam"]}], "addresses": []})
    privacy = (await value("peers/ann"))["privacy"]
    assert privacy
    await run.well("peers", "set", "ann", "pager:one", "--policy", "PREFERRED")
    assert (await value("peers/ann"))["privacy"] == privacy
    file = tmp_path / "peers.csv"
    file.write_text("peer,pager\nann,two\nbob,three\n")
    await run.well("peers", "import", str(file))
    ann = await value("peers/ann")
    assert (ann["privacy"], ann["addresses"][0]["parameters"]) == (privacy, ["two"])
    assert (await value("peers/bob"))["privacy"] == []
    await run.well("peers", "set", "ann", "pager:four")
    assert (await value("peers/ann"))["policy"] == ann["policy"] == "PREFERRED"
    await run.well("collectives", "set", "ops", "ann", "--policy", "TO_ANY")
    await run.well("collectives", "set", "ops", "bob")
    assert await value("collectives/ops") == {"members": ["bob"], "policy": "TO_ANY"}

    more = {"maxParallel": 3, "maxPerLook": 7, "transient": True, "deleteIfSuccessful": True}
    url = {"url": "http://127.0.0.1:9/next"}
    pulled = {"kind": "rest-pull", "settings": url, "intervalMs": 3_600_000, "awaits": "m1"}
    await put("adapters/inbox", {**pulled, **more, "secrets": {"authorization": "x"}})
    await run.well("adapters", "set", "inbox", "rest-pull", f"url={url['url']}", "--every", "60")
    kept = await value("adapters/inbox")
    assert {**more, "awaits": "m1"}.items() <= kept.items()
    assert (kept["intervalMs"], kept["secrets"]) == (60_000, {})
    await run.well("adapters", "set", "inbox", "rest-pull", f"url={url['url']}")
    assert (await value("adapters/inbox"))["awaits"] == ""
    await run.well("adapters", "set", "inbox", "rest")
    assert (await value("adapters/inbox"))["maxParallel"] == 30, "of another kind nothing stays"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name,email\nann,a@b\n", "one of them `peer`"),
        ("peer,email\nann\n", "line 2 has 1 cells"),
        ("peer,policy\nann,SOMETIMES\n", "line 2 has no peer, or a policy"),
        ("", "the first line"),
        (b"peer,email\nJ\xf6rg,a@b\n", "is not encoded in UTF-8"),
        (f"peer,email\nann,{'a' * 200_000}\n", "is no CSV file"),
    ],
)
async def test_a_table_that_cannot_be_read_is_refused_by_line(
    start_server: StartHub, tmp_path: Path, text: str | bytes, problem: str
) -> None:
    run = Commands(await start_server(a_hub()))
    (tmp_path / "peers.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    ended = await run("peers", "import", str(tmp_path / "peers.csv"))
    assert ended.code != 0
    assert problem in ended.err
