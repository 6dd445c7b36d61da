"""The commands that administer a server, against a real one."""

from __future__ import annotations

import asyncio
import os
import pty
import re
from asyncio.subprocess import PIPE
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from harness.admin import admin_of
from harness.command import COMMAND, PATIENCE_SECONDS, Ended, hubbub
from harness.invoking import Run, answer, at, invoke, lines
from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from harness.topics import STORED, HttpTopic
from hubbub.cli.administration import admin_client
from hubbub.cli.main import main
from hubbub.domain.permissions import Level
from hubbub.domain.rules import HubSettings, RpcRoute, Rules

NOWHERE = "http://127.0.0.1:1"

pytestmark = pytest.mark.spec("UI-03", "ADMIN-01")


@pytest.fixture
def run(hub: RunningHub) -> Run:
    """Runs commands as an administrator, for the hub `acme`."""
    token = hub.token("root", hub="*", level=Level.ADMIN)

    async def run(*arguments: str) -> Ended:
        return await invoke(*arguments, **at(hub, token))

    return run


# -- hubs -----------------------------------------------------------------------------------------


async def test_the_life_of_a_hub(run: Run) -> None:
    assert (await run("hubs", "create", "shop", "allowAnonymous=on")).out == "created shop\n"
    listed = await run("hubs", "list")
    assert [line.split() for line in listed.out.splitlines()] == [
        ["HUB", "SESSIONS", "CHANNELS", "SETTINGS"],
        ["acme", "0", "0", "stored"],
        ["shop", "0", "0", "stored"],
    ]
    origins = "allowedOrigins=https://a.example, https://b.example"
    changed = await answer(run, "hubs", "set", "shop", origins, "quotas.sessions=7")
    assert changed["allowAnonymous"] is True
    assert changed["allowedOrigins"] == ["https://a.example", "https://b.example"]
    assert changed["quotas"]["sessions"] == 7
    shown = await run("hubs", "show", "shop")
    assert re.search(r"^settings.allowAnonymous +on$", shown.out, re.MULTILINE)
    assert re.search(r"^settings.quotas.sessions +7$", shown.out, re.MULTILINE)
    assert (await run("hubs", "delete", "shop", "--yes")).code == 0
    assert [hub["hub"] for hub in await lines(run, "hubs", "list")] == ["acme"]


async def test_a_setting_can_be_taken_away(run: Run) -> None:
    assert (await answer(run, "hubs", "show", "acme"))["settings"]["defaultRules"] == "default"
    changed = await answer(run, "hubs", "set", "acme", "defaultRules=", "allowedOrigins=")
    assert changed["defaultRules"] is None
    assert changed["allowedOrigins"] == []


# -- rules, namespaces and channels ---------------------------------------------------------------


async def test_rules_change_what_is_given_and_nothing_else(run: Run) -> None:
    made = await answer(run, "rules", "set", "quiet", "public=yes", "store=on")
    assert {name for name, on in made.items() if on is True} == {"public", "store"}
    await run("rules", "set", "quiet", "public=off", "presence=on", "journal=off")
    shown = await answer(run, "rules", "show", "quiet")
    assert {name for name, on in shown.items() if on is True} == {"store", "presence"}
    listed = await run("rules", "list", "--prefix", "q")
    assert listed.out.splitlines() == [
        "RULES  ON               JOURNAL",
        "quiet  store, presence  off",
    ]
    assert (await run("rules", "delete", "quiet", "-y")).out == "deleted quiet\n"


async def test_rules_take_effect_on_live_channels(hub: RunningHub, run: Run) -> None:
    publish = ("publish", "room", "x")
    assert (await run(*publish, "--token", hub.token())).code == 0
    await run("rules", "set", "default", "clientPublish=off")
    refused = await run(*publish, "--token", hub.token())
    assert refused.code == 1


async def test_namespaces_and_what_uses_rules(run: Run) -> None:
    await run("rules", "set", "logs", "store=on")
    assert (await run("namespaces", "set", "log", "logs")).out == "log:… has the rules logs\n"
    listed = await run("namespaces", "list")
    assert listed.out.splitlines() == ["NAMESPACE  RULES", "log        logs"]
    in_use = await run("rules", "delete", "logs", "--yes")
    assert in_use.code == 1
    assert "'log' (conflict)" in in_use.err
    assert (await run("namespaces", "delete", "log", "--yes")).code == 0
    assert (await run("rules", "delete", "logs", "--yes")).code == 0
    empty = await run("namespaces", "list")
    assert (empty.code, empty.out) == (0, "")
    assert empty.err == "the hub 'acme' has no namespaces\n"


async def test_channels_with_messages_are_listed(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=STORED))
    options = at(hub, hub.token("root", hub="*", level=Level.ADMIN))
    assert (await invoke("publish", "log:a", "hello", "--store", **options)).code == 0
    listed = (await invoke("channels", "list", **options)).out.splitlines()
    assert listed[0].split() == [
        "CHANNEL",
        "SESSIONS",
        "STORED",
        "BYTES",
        "LAST",
        "STORED",
        "RULES",
        "OF",
        "ITS",
        "OWN",
        "METADATA",
    ]
    assert listed[1].split()[:4] == ["log:a", "0", "1", "5"]


async def test_channels_in_use_and_with_settings(hub: RunningHub, run: Run) -> None:
    socket = await hub.socket()
    await socket.subscribe("room:a/b ü", "room")
    await run("channels", "set", "news", "--rules", "default", "--metadata", '{"owner": "ann"}')
    assert [each["channel"] for each in await lines(run, "channels", "list")] == [
        "news",
        "room",
        "room:a/b ü",
    ]
    assert len(await lines(run, "channels", "list", "--live")) == 2
    assert (await answer(run, "channels", "show", "room"))["sessions"] == 1
    assert (await answer(run, "channels", "show", "room:a/b ü"))["sessions"] == 1
    reset = await answer(run, "channels", "set", "news", "--no-rules")
    assert (reset["rules"], reset["metadata"]) == (None, {"owner": "ann"})
    unknown = await run("channels", "show", "roo")
    assert unknown.out.splitlines()[:2] == ["channel   roo", "sessions  0"]


# -- durable subscriptions ------------------------------------------------------------------------


async def test_durable_subscriptions_are_seen_and_removed(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=STORED))
    token = hub.token("root", hub="*", level=Level.ADMIN)

    async def run(*arguments: str) -> Ended:
        return await invoke(*arguments, **at(hub, token))

    assert "has no such durable subscription" in (await run("subscriptions", "list")).err
    for user, channel in (("ann", "orders"), ("bob", "orders"), ("ann", "room:a/b")):
        topic = HttpTopic(hub, channel, hub.token(user))
        await topic.subscribe()
        await topic.put("x")
    listed = await run("subscriptions", "list", "--channel", "orders")
    assert [line.split()[:4] for line in listed.out.splitlines()] == [
        ["CHANNEL", "OWNER", "NAME", "LAG"],
        ["orders", "u:ann", "default", "2"],
        ["orders", "u:bob", "default", "1"],
    ]
    of_ann = await lines(run, "subscriptions", "list", "--owner", "u:ann")
    assert [found["channel"] for found in of_ann] == ["orders", "room:a/b"]
    shown = await answer(run, "subscriptions", "show", "room:a/b", "u:ann")
    assert shown == of_ann[1]
    removed = await run("subscriptions", "remove", "room:a/b", "u:ann", "--yes")
    assert (removed.code, removed.out) == (0, "removed default\n")
    gone = await run("subscriptions", "show", "room:a/b", "u:ann")
    assert (gone.code, "not_found" in gone.err) == (1, True)


async def test_limits_of_rules_are_numbers(run: Run) -> None:
    await run("rules", "set", "short", "store=on", "maxAgeSeconds=3600", "dropUnread=on")
    listed = await run("rules", "list", "--prefix", "short")
    assert "store, maxAgeSeconds=3600, dropUnread" in listed.out
    refused = await run("rules", "set", "short", "maxAgeSeconds=on")
    assert (refused.code, "maxAgeSeconds is a whole number" in refused.err) == (2, True)


# -- sessions and figures -------------------------------------------------------------------------


async def test_sessions_are_seen_and_ended(hub: RunningHub, run: Run) -> None:
    ann = await hub.socket(token=hub.token("ann"))
    await hub.socket(token=hub.token("bob"))
    await ann.subscribe(*"abcdefg")
    listed = await run("sessions", "list")
    assert "a, b, c, d, e, and 2 more" in listed.out
    (session,) = await lines(run, "sessions", "list", "--user", "ann", "--channel", "a")
    ended = await run("sessions", "disconnect", session["sessionID"])
    assert ended.out == f"disconnected {session['sessionID']}\n"
    await ann.closed()
    again = await run("sessions", "disconnect", session["sessionID"])
    assert again.code == 1
    assert "(not_found)" in again.err
    assert len(await lines(run, "sessions", "list")) == 1


async def test_figures_of_all_hubs_and_of_one(hub: RunningHub, run: Run) -> None:
    socket = await hub.socket()
    await socket.publish("a", {"text": "x"})
    assert (await answer(run, "stats"))["messagesIn"] == 1
    of_all = await invoke("stats", **at(hub, admin_of(hub).token) | {"HUBBUB_HUB": None})
    titles, acme, total = of_all.out.splitlines()
    assert titles.split()[:2] == ["HUB", "SESSIONS"]
    assert acme.split()[:2] == ["acme", "1"]
    assert total.split() == ["(all)", *acme.split()[1:]]


async def test_long_lists_are_read_to_their_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_client, "PAGE_ENTRIES", 2)
    for number in range(4):
        await run("rules", "set", f"r{number}")
    names = [each["name"] for each in await lines(run, "rules", "list")]
    assert names == ["default", "r0", "r1", "r2", "r3"]


async def test_a_change_never_undoes_that_of_another(hub: RunningHub, run: Run) -> None:
    token = admin_of(hub).token or ""
    path = {"hub": "acme", "rules": "r"}
    await run("rules", "set", "r", "store=on")
    with closing(admin_client.AdminClient(hub.address, token)) as admin:
        before = await asyncio.to_thread(admin.find, "getRules", path)
        await run("rules", "set", "r", "public=on")
        with pytest.raises(admin_client.Refused) as refused:
            await asyncio.to_thread(
                admin.call, "putRules", path, body={"retain": True}, over=before
            )
        assert refused.value.reason == "version_mismatch"
        with pytest.raises(admin_client.Refused):
            await asyncio.to_thread(admin.call, "putRules", path, body={"retain": True}, new=True)
    assert (await answer(run, "rules", "show", "r"))["public"]


# -- tokens ---------------------------------------------------------------------------------------


async def test_where_the_keys_are_no_token_is_needed(
    start_server: StartHub, tmp_path: Path
) -> None:
    hub = await start_server()
    data = str(tmp_path / "data")
    made = await invoke("hubs", "create", "shop", "--data", data, **at(hub))
    assert (made.code, made.err) == (0, "")
    config = tmp_path / "hubbub.yaml"
    config.write_text(f"storage: {{path: {data}}}\n")
    assert (await invoke("hubs", "list", "--config", str(config), **at(hub))).code == 0
    audit = await admin_of(hub)("GET", "/v1/admin/audit?limit=1")
    entry = audit.json["items"][0]
    assert (entry["action"], entry["level"]) == ("hub.put", "admin")
    assert entry["actor"]


@pytest.mark.spec("OPS-03")
async def test_a_command_that_names_a_data_folder_talks_to_its_server_alone(
    start_server: StartHub, tmp_path: Path
) -> None:
    """Whatever server listens at the usual address or at that of the environment."""
    one = await start_server(open_hub(), storage__path=str(tmp_path / "one"))
    other = await start_server(open_hub(), storage__path=str(tmp_path / "other"))
    elsewhere = at(one, admin_of(one).token)
    data = ("--data", str(tmp_path / "other"))
    made = await invoke("hubs", "create", "shop", *data, **elsewhere)
    assert (made.code, made.err) == (0, "")
    assert "shop" in other.server.directory
    assert "shop" not in one.server.directory
    config = tmp_path / "hubbub.yaml"
    config.write_text(f"storage: {{path: {tmp_path / 'other'}}}\n")
    listed = await invoke("hubs", "list", "--config", str(config), HUBBUB_URL=None)
    assert "shop" in listed.out, listed.err
    await other.server.stop()
    restore = ("restore", str(tmp_path / "archive.tar.gz"), "--hub", "acme", "--yes")
    stopped = await invoke(*restore, *data, **elsewhere)
    assert stopped.code == 2
    assert f"no server runs with the data folder {tmp_path / 'other'}" in stopped.err


async def test_keys_are_never_made_nor_offered_to_strangers(tmp_path: Path) -> None:
    """Also in a process of its own, in a folder that has no data."""
    here = await hubbub("hubs", "list", folder=tmp_path, env={"HUBBUB_URL": NOWHERE})
    assert here.code == 2
    assert "--token or HUBBUB_TOKEN" in here.err
    assert not list(tmp_path.iterdir())
    elsewhere = await invoke("hubs", "list", HUBBUB_URL="https://hub.example", HUBBUB_TOKEN=None)
    assert elsewhere.code == 2
    assert "--token" in elsewhere.err


async def test_a_service_sees_its_own_hub_only(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(), open_hub("other", OPEN))
    token = hub.token("backend", level=Level.SERVICE)
    assert (await invoke("rules", "list", **at(hub, token))).code == 0
    foreign = await invoke("rules", "list", **at(hub, token, "other"))
    assert (foreign.code, foreign.out) == (1, "")
    assert "(invalid_token)" in foreign.err
    above = await invoke("hubs", "create", "x", **at(hub, token))
    assert above.code == 1
    client = await invoke("rules", "list", **at(hub, hub.token()))
    assert client.code == 1
    assert "(not_permitted); use a token of that level" in client.err


# -- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("hubz",), 2, "Did you mean 'hubs'"),
        (("rules", "lst"), 2, "'list'"),
        (("hubs", "show", "nix"), 1, "(hub_not_found); `hubbub hubs list`"),
        (("hubs", "set", "nix", "userChannel=on"), 1, "(hub_not_found)"),
        (("hubs", "create", "acme"), 1, "exists already (conflict)"),
        (("hubs", "create", "a*"), 2, "'*'"),
        (("hubs", "set", "acme"), 2, "Missing argument"),
        (("hubs", "set", "acme", "userchannel=on"), 2, "did you mean userChannel?"),
        (("hubs", "set", "acme", "quotas.session=1"), 2, "did you mean quotas.sessions?"),
        (("hubs", "set", "acme", "zzzz=1"), 2, "there are allowAnonymous, "),
        (("hubs", "set", "acme", "userChannel"), 2, "is not KEY=VALUE"),
        (("hubs", "set", "acme", "userChannel=maybe"), 2, "on or off"),
        (("hubs", "set", "acme", "quotas.sessions=-1"), 2, "whole number"),
        (("hubs", "set", "acme", "quotas={"), 2, "not JSON"),
        (("hubs", "set", "acme", "trustedIssuers=[1]"), 1, "(bad_request)"),
        (("hubs", "set", "acme", "defaultRules=nix"), 1, "(conflict)"),
        (("hubs", "delete", "acme"), 2, "--yes"),
        (("hubs", "delete", "nix", "--yes"), 1, "(hub_not_found)"),
        (("rules", "show", "nix"), 1, "(not_found)"),
        (("rules", "set", "x", "public=2"), 2, "on or off"),
        (("namespaces", "set", "a:b", "default"), 1, "(bad_request)"),
        (("namespaces", "set", "a", "nix"), 1, "(conflict)"),
        (("channels", "set", "a"), 2, "--rules, --no-rules or --metadata"),
        (("channels", "set", "a", "--rules", "x", "--no-rules"), 2, "not both"),
        (("channels", "set", "a", "--metadata", "[]"), 2, "JSON object"),
        (("sessions", "disconnect"), 2, "Missing argument"),
        (("stats", "--hub", "nix"), 1, "(hub_not_found)"),
        (("stats", "--token", "forged"), 1, "(invalid_token); make another"),
        (("stats", "--url", NOWHERE), 1, "is the server running?"),
        (("stats", "--url", "ftp://x"), 1, "not the address of a server"),
        (("stats", "--url", "http://x:port"), 1, "not the address of a server"),
        (("completion", "cmd.exe"), 2, "'bash', 'zsh', 'fish'"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_mistake_gets_a_sentence_and_a_code(
    shared_hub: RunningHub, arguments: tuple[str, ...], code: int, says: str
) -> None:
    ended = await invoke(*arguments, **at(shared_hub, admin_of(shared_hub).token))
    assert (ended.code, ended.out) == (code, "")
    assert says in ended.err


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\n<ht>", "not as a hub does"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\xff", "not as a hub does"),
        (b"SSH-2.0-OpenSSH\r\n", "does not speak HTTP"),
        (b"", "cannot reach"),
    ],
)
async def test_what_is_no_hub_is_told_apart(said: bytes, says: str) -> None:
    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ended = await invoke("stats", "--url", url, "--token", "x")
    assert (ended.code, ended.out) == (1, "")
    assert says in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(("noun", "shape"), [("hubs", HubSettings), ("rules", Rules)])
async def test_help_names_every_setting(noun: str, shape: type[HubSettings | Rules]) -> None:
    told = (await invoke(noun, "set", "--help")).out
    settings = msgspec.to_builtins(shape())
    assert not {name for name in settings if name not in told}
    assert not {name for name in settings.get("quotas", ()) if f".{name}" not in told}


@pytest.mark.parametrize(("word", "left"), [(b"n", ["acme", "shop"]), (b"y", ["acme"])])
async def test_deleting_asks_on_a_terminal(
    hub: RunningHub, run: Run, word: bytes, left: list[str]
) -> None:
    await run("hubs", "create", "shop")
    ours, theirs = pty.openpty()
    try:
        os.write(ours, word + b"\n")
        variables = {name: value for name, value in at(hub, admin_of(hub).token).items() if value}
        process = await asyncio.create_subprocess_exec(
            *COMMAND, "hubs", "delete", "shop",
            stdin=theirs, stdout=PIPE, stderr=PIPE, env={**os.environ, **variables},
        )  # fmt: skip
        out, _ = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    finally:
        os.close(ours)
        os.close(theirs)
    assert process.returncode == (0 if word == b"y" else 1)
    assert b"[y/N]" in out
    assert [each["hub"] for each in await lines(run, "hubs", "list")] == left


# -- completion and benchmarks --------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_completion_prints_a_script(shell: str) -> None:
    ended = await invoke("completion", shell)
    assert ended.code == 0
    assert f"_HUBBUB_COMPLETE={shell}_complete" in ended.out


async def test_commands_and_options_are_completed() -> None:
    completed = {"_HUBBUB_COMPLETE": "bash_complete", "COMP_CWORD": "2"}
    env = {**completed, "COMP_WORDS": "hubbub channels s"}
    runner = CliRunner(env=env)
    result = await asyncio.to_thread(runner.invoke, main, prog_name="hubbub")
    assert result.stdout.split() == ["plain,set", "plain,show"]


async def test_bench_runs_those_of_the_checkout() -> None:
    found = await hubbub("bench", "--", "--help")
    assert found.code == 0
    assert "python -m benchmarks" in found.out
    wrong = await hubbub("bench", "--only", "nonsense")
    assert wrong.code == 2


async def test_bench_says_where_the_benchmarks_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hubbub.__file__", str(tmp_path / "site" / "hubbub" / "__init__.py"))
    ended = await invoke("bench")
    assert (ended.code, ended.out) == (1, "")
    assert "checkout" in ended.err


@pytest.mark.spec("UI-03")
async def test_the_nodes_of_a_server_are_listed(start_hub: StartHub) -> None:
    hub = await start_hub()
    token = hub.token(None, "*", Level.ADMIN)
    shown = await invoke("cluster", **at(hub, token))
    assert shown.code == 0, shown.err
    titles, node = shown.out.splitlines()
    assert titles.split()[:3] == ["NODE", "ROLE", "VERSION"]
    assert node.split()[1] == "core"


@pytest.mark.spec("UI-03", "OPS-03")
async def test_who_may_not_call_or_submit_is_told_the_option_that_helps(
    start_hub: StartHub,
) -> None:
    routes = {"carts": RpcRoute("cart.*", "http://127.0.0.1:9/", {}, 2)}
    hub = await start_hub(msgspec.structs.replace(open_hub(), rpc_routes=routes))
    ann = at(hub, hub.token("ann"))
    refused = await invoke("call", "cart.add", "{}", **ann)
    assert refused.code == 1
    assert "`hubbub token --rpc 'cart.add'`" in refused.err
    refused = await invoke("submit", "clicks", "{}", **ann)
    assert refused.code == 1
    assert "`hubbub token --grant 'stream:clicks=p'`" in refused.err


EMPTY = (
    ("namespaces", "list"),
    ("channels", "list"),
    ("sessions", "list"),
    ("subscriptions", "list"),
    ("webhooks", "list"),
    ("webhooks", "topics"),
    ("notifications", "list", "notification:news"),
    ("push", "tokens", "ann"),
    ("push", "followings", "ann"),
    ("push", "credentials"),
    ("peers", "list"),
    ("collectives", "list"),
    ("routes", "list"),
    ("adapters", "list"),
    ("document", "list"),
    ("topics",),
    ("presence", "room"),
    ("threads", "room"),
    ("threads", "room", "c-1"),
    ("get", "room"),
)


@pytest.mark.spec("UI-03")
async def test_every_empty_list_says_in_words_that_it_is_empty(
    start_server: StartHub, tmp_path: Path
) -> None:
    hub = await start_server(open_hub(rules=msgspec.structs.replace(STORED, presence=True)))
    await HttpTopic(hub, "room", hub.token("ann")).subscribe("default")
    admin = hub.token("root", "*", Level.ADMIN)
    (tmp_path / "j").mkdir()
    of_journal = [
        ("journal", what, "--journal", str(tmp_path / "j")) for what in ("show", "segments")
    ]
    for command in (*EMPTY, *of_journal):
        of_client = command[0] in ("topics", "presence", "threads", "get")
        token = hub.token("ann" if command[0] == "get" else "bob") if of_client else admin
        ended = await invoke(*command, **at(hub, token))
        if command == ("subscriptions", "list"):  # there is one
            assert "room" in ended.out
            continue
        assert (ended.code, ended.out) == (0, ""), (command, ended)
        assert re.search(r"\b(no|nothing|nobody|none|empty)\b", ended.err), (command, ended)


@pytest.mark.spec("UI-03")
async def test_results_that_are_empty_say_so_and_so_does_a_store_that_is_none(
    start_hub: StartHub,
) -> None:
    hub = await start_hub()
    assert "no messages in news" in (await invoke("history", "news", **at(hub))).err
    assert "no messages in news" in (await invoke("history", "news", "--all", **at(hub))).err
    stored = await invoke("publish", "news", "x", "--store", **at(hub))
    assert stored.code == 0
    assert "nothing stores news" in stored.err
    assert (await invoke("publish", "news", "x", **at(hub))).err == ""
