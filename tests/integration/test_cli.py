"""The command line, as users run it: in a process of its own."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import aiohttp
import pytest

from harness.command import hubbub, running_hubbub
from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.client import connect
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.rules import Rules

ROOM = Rules(public=True, client_publish=True, allow_anonymous=True, presence=True, retain=True)
CLOSED = Rules()


def at(hub: RunningHub, name: str = "acme") -> dict[str, str]:
    return {"HUBBUB_URL": f"ws://{hub.address}", "HUBBUB_HUB": name}


# -- serve --------------------------------------------------------------------------------------


@pytest.mark.spec("UI-03", "OPS-02")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_serve_shows_what_to_try_and_it_works(tmp_path: Path, number: signal.Signals) -> None:
    async with running_hubbub("serve", "--dev", "--port", "0", folder=tmp_path) as server:
        ready = await server.line("is ready at")
        address = ready.split(" is ready at ")[1].split()[0]
        chat = (await server.line("Chat in the browser")).split()[4]
        published = (await server.line("hubbub publish")).split("hubbub ")[1]
        command = [word.strip("'") for word in published.split()]
        assert (await hubbub(*command)).code == 0
        async with aiohttp.ClientSession() as http:
            for path in (chat, f"{address}/"):
                async with http.get(path) as answer:
                    assert answer.status == 200
                    assert answer.content_type == "text/html"
        ended = await server.stop(number)
        assert ended.code == 0
    assert (tmp_path / "data").is_dir()


@pytest.mark.spec("UI-03", "OPS-02")
async def test_serve_without_developer_mode_has_no_open_doors(tmp_path: Path) -> None:
    async with running_hubbub("serve", "--port", "0", folder=tmp_path) as server:
        ready = await server.line("is ready at")
        address = ready.split(" is ready at ")[1].split()[0]
        async with aiohttp.ClientSession() as http, http.get(f"{address}/chat") as answer:
            assert answer.status == 404
        refused = await hubbub("publish", "news", "x", "--url", address)
        assert refused.code == 1
        assert "demo" in refused.err
        await server.stop()


@pytest.mark.spec("UI-03", "OPS-02")
async def test_serve_that_cannot_start_says_why(hub: RunningHub, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    taken = await hubbub("serve", "--port", str(hub.server.port), folder=other)
    assert taken.code == 1
    assert "choose another with --port" in taken.err
    exposed = await hubbub("serve", "--dev", "--host", "0.0.0.0", folder=tmp_path)
    assert exposed.code == 2
    assert "developer mode" in exposed.err


# -- publish and subscribe ----------------------------------------------------------------------


@pytest.mark.spec("UI-03")
async def test_subscribe_prints_each_message_at_once(hub: RunningHub) -> None:
    async with running_hubbub("subscribe", "a", "b", env=at(hub)) as subscriber:
        await subscriber.remark("subscribed to a, b")
        for channel, data, *options in (
            ("a", "hello", "--event", "greeting"),
            ("b", '{"degrees": 21}', "--json"),
            ("a", "evil \x1b[2J line\nbreak"),
        ):
            published = await hubbub("publish", channel, data, *options, env=at(hub))
            assert published.code == 0
            assert published.out.split()[1].isdigit()
        assert (await subscriber.line()).endswith("a  #1  greeting  hello")
        assert (await subscriber.line()).endswith('b  #1  {"degrees": 21}')
        assert (await subscriber.line()).endswith(r"a  #2  evil \x1b[2J line\nbreak")
        ended = await subscriber.stop()
        assert (ended.code, ended.out) == (0, "")


@pytest.mark.spec("UI-03")
async def test_subscribe_from_a_position_as_json(hub: RunningHub, tmp_path: Path) -> None:
    file = tmp_path / "blob"
    file.write_bytes(b"\x00\xff")
    await hubbub("publish", "a", stdin="from a pipe ü".encode(), env=at(hub))
    await hubbub("publish", "a", "--file", str(file), env=at(hub))
    await hubbub("publish", "a", "[1]", "--json", "-q", env=at(hub))
    everything = await hubbub(
        "subscribe", "a", "--from-start", "--count", "3", "--json", env=at(hub)
    )
    lines = [json.loads(line) for line in everything.out.splitlines()]
    assert [line["payload"] for line in lines] == [
        {"text": "from a pipe ü"},
        {"base64": "AP8="},
        {"json": [1]},
    ]
    since = await hubbub("subscribe", "a", "--since", "2", "--count", "1", env=at(hub))
    assert since.out.strip().endswith("#3  [1]")


@pytest.mark.spec("UI-03")
async def test_subscribe_says_what_is_missing(start_hub: StartHub) -> None:
    hub = await start_hub(engine__maxLiveHistorySize=2)
    async with connect(f"ws://{hub.address}", hub="acme") as client:
        for number in range(5):
            await client.publish("a", number)
    found = await hubbub("subscribe", "a", "--from-start", "--count", "2", env=at(hub))
    assert [line.split()[-1] for line in found.out.splitlines()] == ["3", "4"]
    assert "messages of a may be missing" in found.err
    strict = await hubbub("subscribe", "a", "--from-start", "--strict", env=at(hub))
    assert (strict.code, strict.out) == (1, "")
    assert "--strict" in strict.err


@pytest.mark.spec("UI-03", "LIVE-13")
async def test_history_in_pages_and_as_a_whole(start_hub: StartHub) -> None:
    hub = await start_hub(channel__historyPageSize=2)
    async with connect(f"ws://{hub.address}", hub="acme") as client:
        for number in range(1, 6):
            await client.publish("a", number)

    async def numbers(*options: str) -> list[str]:
        ended = await hubbub("history", "a", *options, env=at(hub))
        assert ended.code == 0
        return [line.split()[-1] for line in ended.out.splitlines()]

    assert await numbers() == ["4", "5"]
    assert await numbers("--before", "4", "--limit", "1") == ["3"]
    assert await numbers("--limit", "4") == ["2", "3", "4", "5"]
    assert await numbers("--after", "1", "--limit", "3") == ["2", "3", "4"]
    assert await numbers("--all") == ["1", "2", "3", "4", "5"]


@pytest.mark.spec("UI-03", "LIVE-12")
async def test_presence_and_who_comes_and_goes(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=ROOM))
    async with running_hubbub("subscribe", "room", "--presence", env=at(hub)) as subscriber:
        await subscriber.line("here are")
        token = hub.token("ann")
        async with connect(f"ws://{hub.address}", hub="acme", token=token) as ann:
            await ann.subscribe("room", presence={"mood": "well"})
            await subscriber.line('joined: ann {"mood":"well"}')
            listed = await hubbub("presence", "room", "--json", env=at(hub))
            users = {json.loads(line)["user_id"] for line in listed.out.splitlines()}
            assert users == {None, "ann"}
        await subscriber.line("left: ann")


# -- token --------------------------------------------------------------------------------------


@pytest.mark.spec("UI-03", "LIVE-06")
async def test_a_token_opens_what_it_grants(start_server: StartHub, tmp_path: Path) -> None:
    hub = await start_server(open_hub(rules=CLOSED))
    options = ("--hub", "acme", "--user", "ann", "--grant", "room:*=ps", "--ttl", "15m")
    made = await hubbub("token", *options, folder=tmp_path)
    assert made.code == 0
    token = made.out.strip()
    identity = hub.server.tokens.verify(token, "acme")
    assert identity.user_id == "ann"
    assert identity.grants == (Grant("room:*", publish=True, subscribe=True),)
    opened = await hubbub("publish", "room:a", "x", env={**at(hub), "HUBBUB_TOKEN": token})
    assert opened.code == 0
    closed = await hubbub("publish", "other", "x", "--token", token, env=at(hub))
    assert closed.code == 1
    assert "--grant" in closed.err
    service = await hubbub("token", "--hub", "acme", "--level", "service", folder=tmp_path)
    assert hub.server.tokens.verify(service.out.strip(), "acme").level is Level.SERVICE


@pytest.mark.spec("UI-03")
async def test_a_token_from_a_folder_without_a_server_is_made_with_a_note(tmp_path: Path) -> None:
    sign = ("token", "--hub", "acme", "--user", "ann")
    first = await hubbub(*sign, folder=tmp_path)
    assert (first.code, first.out.count(".")) == (0, 2)
    assert "no server has run" in first.err
    assert "new signing keys" in first.err
    again = await hubbub(*sign, folder=tmp_path)
    assert "no server has run" in again.err
    assert "new signing keys" not in again.err
    secrets = {f"HUBBUB_AUTH_{each}_SECRET": each * 10 for each in ("SESSION", "ADMIN")}
    assert (await hubbub(*sign, folder=tmp_path, env=secrets)).err == ""


@pytest.mark.spec("UI-03")
@pytest.mark.parametrize("anonymous", [True, False])
async def test_a_token_without_a_user_is_made_with_a_note(tmp_path: Path, anonymous: bool) -> None:
    file = tmp_path / "given.yaml"
    hub = f"hubs: {{acme: {{settings: {{allowAnonymous: {str(anonymous).lower()}}}}}}}\n"
    file.write_text(hub + "storage: {path: data}\n")
    sign = ("token", "--hub", "acme", "--grant", "room=s", "--config", str(file))
    assert ("names no user" in (await hubbub(*sign, folder=tmp_path)).err) is not anonymous
    assert "names no user" not in (await hubbub(*sign, "--user", "ann", folder=tmp_path)).err


# -- mistakes -----------------------------------------------------------------------------------


@pytest.mark.spec("UI-03")
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("publish", "a", "x", "--url", "ws://127.0.0.1:1"), 1, "is the server running?"),
        (("publish", "a", "x", "--url", "ftp://x"), 1, "not the address of a server"),
        (("publish", "a", "{", "--json"), 2, "not JSON"),
        (("publish", "a", "x", "--file", "y"), 2, "not both"),
        (("publish", "a", "--file", "nowhere"), 1, "nowhere: No such file"),
        (("token", "--ttl", "soon", "--user", "u"), 2, "30d"),
        (("token", "--grant", "room", "--user", "u"), 2, "room:*=ps"),
        (("token",), 2, "--user, --grant or --rpc"),
        (("token", "--hub", "*", "--user", "u"), 2, "admin"),
        (("token", "--user", "u", "--extra", "[]"), 2, "JSON object"),
        (("config", "check", "--config", "nowhere.yaml"), 2, "nowhere.yaml"),
        (("subscribe",), 2, "Missing argument"),
        (("nonsense",), 2, "No such command"),
    ],
)
async def test_a_mistake_gets_a_sentence_and_a_code(
    arguments: tuple[str, ...], code: int, says: str, tmp_path: Path
) -> None:
    ended = await hubbub(*arguments, folder=tmp_path)
    assert (ended.code, ended.out) == (code, "")
    assert says in ended.err


@pytest.mark.spec("UI-03", "LIVE-17")
async def test_what_the_hub_refuses_is_told_with_advice(hub: RunningHub) -> None:
    unknown = await hubbub("publish", "a", "x", env=at(hub, "nix"))
    assert unknown.code == 1
    assert "--hub" in unknown.err
    forged = await hubbub("subscribe", "a", "--token", "forged", env=at(hub))
    assert forged.code == 1
    assert "hubbub token" in forged.err


# -- config check -------------------------------------------------------------------------------


@pytest.mark.spec("UI-03", "OPS-01")
async def test_config_check_lists_settings_cautions_and_problems(tmp_path: Path) -> None:
    file = tmp_path / "hubbub.yaml"
    file.write_text("listener: {host: 0.0.0.0}\nauth: {session: {secret: " + "k" * 40 + "}}\n")
    good = await hubbub(
        "config", "check", "--config", str(file), env={"HUBBUB_LISTENER_PORT": "8111"}
    )
    assert good.code == 0
    assert "listener.port = 8111    # set" in good.out
    assert "kkk" not in good.out
    assert "caution: listener.host 0.0.0.0" in good.err
    file.write_text("listener: {port: 99999, prot: 1}\n")
    variables = {"HUBBUB_CONFIG": str(file), "HUBBUB_TOKEN": "no setting"}
    bad = await hubbub("config", "check", env=variables)
    assert (bad.code, bad.out) == (2, "")
    assert "99999" in bad.err
    assert "prot" in bad.err
    assert len(bad.err.splitlines()) == 2
