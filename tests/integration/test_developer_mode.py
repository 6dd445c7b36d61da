"""Developer mode: open, on this machine only, and gone without a trace."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness.command import hubbub
from harness.invoking import at, invoke
from harness.raw import HANDSHAKE, RawConnection
from harness.running_hub import RunningHub, StartHub
from hubbub.server.settings import SettingsError, developer_settings, load
from hubbub.server.wiring import Server


def keys(tmp_path: Path, **more: object) -> dict[str, object]:
    return {"listener.port": 0, "storage.path": str(tmp_path / "data"), **more}


@asynccontextmanager
async def developer_hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    server = Server(developer_settings(load(None, {}, keys(tmp_path))))
    await server.start()
    running = RunningHub(server)
    try:
        yield running
    finally:
        await running.close()


@pytest.mark.spec("OPS-02", "OPS-04")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "localhost.evil"])
def test_developer_mode_refuses_addresses_that_others_can_reach(tmp_path: Path, host: str) -> None:
    settings = load(None, {}, keys(tmp_path, **{"listener.host": host}))
    with pytest.raises(SettingsError, match="developer mode"):
        developer_settings(settings)


@pytest.mark.spec("OPS-02", "OPS-04")
async def test_developer_mode_is_open_and_leaves_nothing_open_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The same data folder, later started for real, has no demo hub and no echo. A hub that was
    mistyped is said in the log."""
    async with developer_hub(tmp_path) as running:
        socket = await running.socket("demo")
        await socket.subscribe("room:1")
        assert (await socket.publish("room:1", {"json": 1}))["success"]
        fresh = await running.socket("made-by-use")
        assert (await fresh.publish("a", {"json": 1}))["success"]
    told = "hub 'made-by-use' was created on first use: nobody declared it (declared: 'demo')"
    assert [record.levelname for record in caplog.records if told in record.message] == ["WARNING"]
    assert "hub 'demo' was created" not in caplog.text

    server = Server(load(None, {}, keys(tmp_path)))
    await server.start()
    running = RunningHub(server)
    for name in ("demo", "made-by-use"):
        headers = {"Authorization": f"Bearer {running.token(hub=name)}"}
        refused = await running.raw_socket(name, additional_headers=headers)
        assert (await refused.expect("Disconnect"))["code"] == "hub_not_found"
        path = f"/v1/hubs/{name}/channels/a/messages"
        async with running.http.post(path, data="x", headers=headers) as answer:
            assert answer.status == 404
    await running.close()


@pytest.mark.spec("OPS-03")
async def test_a_port_of_zeromq_that_is_taken_is_named_with_the_ways_out(tmp_path: Path) -> None:
    """Developer mode listens beside its port, which nobody chose."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        beside = taken.getsockname()[1]
        ended = await hubbub("serve", "--dev", "--port", str(beside - 1), folder=tmp_path)
    assert ended.code == 1
    assert f"cannot listen on tcp://127.0.0.1:{beside}: Address already in use" in ended.err
    assert "HUBBUB_ZEROMQ_ENDPOINT" in ended.err
    assert "another --port" in ended.err


@pytest.mark.spec("OPS-02", "UI-03")
@pytest.mark.parametrize(
    "command", [("publish", "news", "x"), ("history", "news"), ("put", "orders", "x"), ("topics",)]
)
async def test_whoever_mistypes_a_hub_is_told_on_the_command_line(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    async with developer_hub(tmp_path) as running:
        told = await invoke(*command, **at(running, name="dmeo"))
        assert told.code == 0, told.err
        assert "note: nobody declared the hub 'dmeo'" in told.err
        assert "nobody declared" not in (await invoke(*command, **at(running, name="demo"))).err


@pytest.mark.spec("OPS-02", "UI-03")
@pytest.mark.parametrize("command", [("put", "orders", "x"), ("subscribe", "--durable", "orders")])
async def test_whoever_mistypes_a_hub_is_told_over_zeromq(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    async with developer_hub(tmp_path) as running:
        endpoint = running.server.zeromq
        assert endpoint is not None
        told = await invoke(*command, "--zeromq", endpoint, **at(running, name="dmeo"))
        assert told.code == 0, told.err
        assert "note: nobody declared the hub 'dmeo'" in told.err
        well = await invoke(*command, "--zeromq", endpoint, **at(running, name="demo"))
        assert (well.code, "nobody declared" in well.err) == (0, False)


@pytest.mark.spec("OPS-02")
async def test_answers_of_a_hub_that_was_made_by_use_say_so(tmp_path: Path) -> None:
    note = (
        "nobody declared the hub 'dm%C3%A9o': it was created on first use; if the name is a typo, "
        "delete it with `hubbub hubs delete`"
    )
    async with developer_hub(tmp_path) as running:
        for hub, wanted in (("dm%C3%A9o", note), ("demo", None)):
            path = f"/v1/hubs/{hub}"
            for _ in range(2):  # the second time by the short way, if there is one
                async with running.http.post(f"{path}/channels/a/messages", data="x") as answer:
                    assert (answer.status, answer.headers.get("Hubbub-Note")) == (200, wanted)
            async with running.http.get(f"{path}/events?channel=a") as stream:
                assert stream.headers.get("Hubbub-Note") == wanted
            response = (await running.socket(hub)).connection.response
            assert response is not None
            assert response.headers.get("Hubbub-Note") == wanted


@pytest.mark.spec("OPS-02", "SEC-01")
async def test_strangers_do_not_learn_which_hubs_are_declared(start_hub: StartHub) -> None:
    """Where hubs come into being by use and want tokens."""
    running = await start_hub(engine__allowDynamicHubs=True)
    async with running.http.post("/v1/hubs/guess/channels/a/messages", data="x") as answer:
        assert (answer.status, answer.headers.get("Hubbub-Note")) == (401, None)


@pytest.mark.spec("OPS-02")
async def test_a_first_start_makes_secrets_that_only_their_owner_can_read(tmp_path: Path) -> None:
    server = Server(load(None, {}, keys(tmp_path)))
    folder = tmp_path / "data"
    await server.start()
    try:
        assert (folder / "secrets.json").stat().st_mode & 0o077 == 0
        assert folder.stat().st_mode & 0o077 == 0
        assert server.settings.listener.host == "127.0.0.1"
    finally:
        await server.stop()
    other = Server(load(None, {}, keys(tmp_path, **{"storage.path": str(tmp_path / "other")})))
    first = (folder / "secrets.json").read_text()
    assert (tmp_path / "other" / "secrets.json").read_text() != first
    assert other.port == 0


OWN = (
    *("localhost", "LocalHost", "127.0.0.1", "127.0.0.2", "127.255.255.254", "[::1]"),
    *("[0:0:0:0:0:0:0:1]", "localhost:8000", "127.0.0.1:65535", "[::1]:8000"),
)
FOREIGN = (
    *(
        "evil.example",
        "evil.example:8000",
        "127.evil.com",
        "127.evil.com:8000",
        "127.0.0.1.evil.com",
    ),
    *("localhost.evil.com", "evil.localhost", "localhost.", "127.0.0.1.", "127.1", "127.0.0.01"),
    *("2130706433", "0x7f.0.0.1", "0.0.0.0", "[::]", "[::1].evil.com", "[::1]evil", "::1"),
    *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::1%25lo]", "[127.0.0.1]", "[localhost]"),
    *("localhost@evil.com", "user@localhost", "user:secret@127.0.0.1", "localhost:evil.com"),
    *("localhost:", "localhost:8000:8000", "localhost:+80", "localhost:\xb2", "localhost/x"),
    *("localhost,evil.com", "localhost evil.com", "127.0.0.1\tevil.com", "%6cocalhost", ""),
)


@pytest.mark.spec("OPS-02", "OPS-04", "SEC-01")
async def test_developer_mode_serves_no_page_that_gave_its_own_name_this_address(
    tmp_path: Path,
) -> None:
    """DNS rebinding, over HTTP and WebSocket."""
    async with developer_hub(tmp_path) as running:
        await _check_hosts(running)


async def _check_hosts(running: RunningHub) -> None:
    for host in (*OWN, *FOREIGN):
        for line, headers, right in (
            ("GET /v1/hubs/demo/channels/news/messages", (), 200),
            ("GET /metrics", (), 200),
            ("GET /v1/hubs/demo/socket", HANDSHAKE, 101),
            ("GET /v1/echo", HANDSHAKE, 101),
        ):
            async with await RawConnection.open(running.address) as client:
                lines = [f"{line} HTTP/1.1", f"Host: {host}", *headers, "", ""]
                client.send("\r\n".join(lines).encode("latin-1"))
                status = (await client.response()).status
            assert status == (right if host in OWN else 403), (line, host)
