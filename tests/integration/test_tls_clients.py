"""The command line and the SDK over TLS: every command, certificates that are trusted or not, and
servers that never answer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click
import pytest

from harness.invoking import invoke
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.scripted_hub import scripted_hub
from hubbub.cli.main import main
from hubbub.client import (
    ClientClosed,
    ClientFailed,
    Options,
    Unreachable,
    UntrustedServer,
    connect,
)
from hubbub.client import sync as synchronous
from hubbub.client.connection import supervisor as supervising
from hubbub.domain.errors import BadRequest, RequestTimeout
from hubbub.domain.requests import Authenticate
from hubbub.domain.rules import Rules

pytestmark = pytest.mark.spec("OPS-04", "UI-02", "UI-03")

STORED = Rules(public=True, client_publish=True, allow_anonymous=True, presence=True, store=True)
# What each command that talks to a hub is given, and what it then says.
COMMANDS = {
    "publish": (("a", "hello"), ""),
    "subscribe": (("a", "--from-start", "--count", "1"), "earlier"),
    "history": (("a",), "earlier"),
    "threads": (("a",), ""),
    "command": (("hEcho", '"well"'), "commands"),
    "send": (("hello", "--to", "ann"), "token"),
    "follow": (("a",), "token"),
    "followed": ((), "token"),
    "unfollow": (("a",), "token"),
    "presence": (("a",), ""),
    "search": (("hello",), ""),
    "put": (("a", "hello"), ""),
    "get": (("a",), "subscribe"),
    "topics": ((), ""),
    "ack": (("a", "--up-to", "1"), "subscribe"),
    "unsubscribe": (("a",), ""),
    "shell": ((), ""),
    "call": (("nothing", "x"), "nothing"),
    "submit": (("nothing", "x"), "nothing"),
}


@pytest.fixture
async def encrypted(start_hub: StartHub, certificate: tuple[Path, Path]) -> RunningHub:
    return await start_hub(
        open_hub(rules=STORED),
        listener__tls__certificate=str(certificate[0]),
        listener__tls__key=str(certificate[1]),
    )


def channel_commands() -> set[str]:
    return {
        name
        for name in main.list_commands(click.Context(main))
        if (command := main.get_command(click.Context(main), name)) is not None
        and not isinstance(command, click.Group)
        and {"ca_file", "hub", "config"} & {option.name for option in command.params}
        == {"ca_file", "hub"}  # commands that administer take a configuration too
    }


def at(hub: RunningHub, scheme: str = "wss") -> dict[str, str | None]:
    return {"HUBBUB_URL": f"{scheme}://{hub.address}", "HUBBUB_HUB": "acme", "HUBBUB_TOKEN": None}


def test_no_command_is_left_out() -> None:
    """`answer` waits until another client asks: test_answering_commands.py."""
    assert channel_commands() == {*COMMANDS, "answer"}


@pytest.mark.parametrize("scheme", ["wss", "https"])
@pytest.mark.parametrize("command", COMMANDS)
async def test_every_command_works_over_tls(
    encrypted: RunningHub, certificate: tuple[Path, Path], command: str, scheme: str
) -> None:
    options = Options(tls=ssl.create_default_context(cafile=str(certificate[0])))
    async with connect(f"wss://{encrypted.address}", hub="acme", options=options) as client:
        await client.publish("a", "earlier", store=True)
    arguments, said = COMMANDS[command]
    ended = await invoke(
        command, *arguments, stdin="", **at(encrypted, scheme), HUBBUB_CA_FILE=str(certificate[0])
    )
    assert said in ended.out + ended.err
    assert "TLS" not in ended.err
    assert ended.code == 0 or said in ended.err, ended.err


@pytest.mark.parametrize("command", COMMANDS)
async def test_an_untrusted_certificate_is_named_with_a_remedy(
    encrypted: RunningHub, command: str
) -> None:
    ended = await invoke(command, *COMMANDS[command][0], stdin="", **at(encrypted))
    assert ended.code == 1
    assert f"{encrypted.address}" in ended.err
    assert "is not trusted: self-signed certificate" in ended.err
    assert "--cafile" in ended.err


async def test_the_ways_to_trust_a_certificate(
    encrypted: RunningHub, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    for trusting in (("--cafile", str(certificate[0])), ("--insecure",), ("-k",)):
        assert (await invoke("publish", "a", "x", *trusting, **at(encrypted))).code == 0
    told = {**at(encrypted), "SSL_CERT_FILE": str(certificate[0])}
    assert (await invoke("publish", "a", "x", **told)).code == 0
    for wrong, why in ((certificate[1], "no PEM certificates"), (tmp_path / "no", "No such file")):
        ended = await invoke("publish", "a", "x", "--cafile", str(wrong), **at(encrypted))
        assert ended.code == 1
        assert str(wrong) in ended.err
        assert why in ended.err


async def test_a_message_waits_in_the_outbox_and_the_command_says_why(
    encrypted: RunningHub, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    put = ("put", "a", "x", "--outbox", str(tmp_path / "out.db"))
    ended = await invoke(*put, "--wait", "1", **at(encrypted))
    assert "is not trusted" in ended.err
    assert "the message is safe" in ended.err
    sent = await invoke("put", *put[3:], **at(encrypted), HUBBUB_CA_FILE=str(certificate[0]))
    assert sent.out == "1 sent\n"


async def test_commands_that_administer_trust_the_same_certificates(
    encrypted: RunningHub, certificate: tuple[Path, Path]
) -> None:
    told = {**at(encrypted), "HUBBUB_TOKEN": "none"}
    refused = await invoke("hubs", "list", **told)
    assert "is not trusted" in refused.err
    assert "--cafile" in refused.err
    reached = await invoke("hubs", "list", "--cafile", str(certificate[0]), **told)
    assert "invalid_token" in reached.err


async def test_the_sdk_trusts_what_the_system_does_unless_told_otherwise(
    encrypted: RunningHub, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"wss://{encrypted.address}"
    with pytest.raises(UntrustedServer, match="self-signed"):
        await connect(url, hub="acme")
    with pytest.raises(UntrustedServer, match="self-signed"):
        await asyncio.to_thread(synchronous.connect, url, hub="acme")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    async with connect(url, hub="acme") as client:
        assert (await client.publish("a", "x")).id


async def test_what_is_given_for_tls_needs_an_encrypted_address(hub: RunningHub) -> None:
    with pytest.raises(BadRequest, match="use wss://"):
        await connect(
            f"ws://{hub.address}", hub="acme", options=Options(tls=ssl.create_default_context())
        )
    with pytest.raises(Unreachable, match="TLS failed"):
        await connect(f"wss://{hub.address}", hub="acme")


@pytest.mark.parametrize(
    ("command", "scheme"),
    [
        (("publish", "a", "x"), "ws"),
        (("hubs", "list", "--token", "t"), "http"),
        (("followed", "--token", "t"), "http"),
    ],
)
async def test_a_plain_address_of_an_encrypted_hub_is_named(
    encrypted: RunningHub, command: tuple[str, ...], scheme: str
) -> None:
    ended = await invoke(*command, "--url", f"{scheme}://{encrypted.address}", HUBBUB_HUB="acme")
    assert ended.code == 1
    assert f"; if it speaks TLS, its address begins with {scheme}s://" in ended.err


# -- nothing hangs --------------------------------------------------------------------------------


@asynccontextmanager
async def silent_server() -> AsyncIterator[str]:
    """Takes connections and never says anything."""
    over = asyncio.Event()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"
    finally:
        over.set()
        server.close()


@pytest.mark.parametrize("scheme", ["ws", "wss"])
async def test_a_server_that_says_nothing_is_given_up_on_in_time(scheme: str) -> None:
    async with silent_server() as address, asyncio.timeout(10):
        with pytest.raises(Unreachable, match=r"timed out after 0\.2 s"):
            await connect(f"{scheme}://{address}", options=Options(connect_timeout=0.2))


async def test_a_token_that_never_comes_is_given_up_on_in_time(hub: RunningHub) -> None:
    async def never() -> str:
        await asyncio.Event().wait()
        return ""

    async with asyncio.timeout(10):
        with pytest.raises(Unreachable, match="timed out"):
            await connect(f"ws://{hub.address}", token=never, options=Options(connect_timeout=0.2))


async def test_a_hub_that_never_says_who_this_is_is_given_up_on_in_time() -> None:
    async with scripted_hub() as hub, asyncio.timeout(10):
        given = Options(connect_timeout=0.2)
        connecting = asyncio.ensure_future(_connected(hub.url, given))
        await (await hub.visitor()).expect(Authenticate)
        with pytest.raises(RequestTimeout, match="say who this is"):
            await connecting


async def _connected(url: str, options: Options) -> None:
    await connect(url, credentials="ann", options=options)


async def test_whatever_goes_wrong_in_the_client_reaches_who_connects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervising, "open_link", _broken)
    async with asyncio.timeout(10):
        with pytest.raises(ClientFailed, match="RuntimeError: out of luck") as failed:
            await connect("ws://127.0.0.1:1")
    assert isinstance(failed.value.__cause__, RuntimeError)


async def test_whatever_goes_wrong_later_reaches_all_who_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scripted_hub() as hub, asyncio.timeout(10):
        client = await connect(hub.url, options=Options(backoff_first=0.01))
        visitor = await hub.visitor()
        subscription = client.subscribe("news")
        await visitor.confirm()
        monkeypatch.setattr(supervising, "open_link", _broken)
        visitor.cut()
        with pytest.raises(ClientFailed, match="out of luck"):
            await anext(subscription)
        with pytest.raises(ClientClosed, match="out of luck"):
            await client.publish("news", "x")
        await client.close()


async def _broken(*_: object, **__: object) -> None:
    raise RuntimeError("out of luck")
