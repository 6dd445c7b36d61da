"""Clients that answer commands of others: the Python client, with and without asyncio, and the
command line."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from harness.command import hubbub, running_hubbub
from harness.commands import command_hub
from harness.running_hub import RunningHub, StartHub
from hubbub.client import Client, Command, CommandRefused, Disconnected, Options, Status, connect
from hubbub.client import sync as synchronous
from hubbub.domain.errors import BadRequest

pytestmark = pytest.mark.spec("CMD-03")

QUICK = Options(backoff_first=0.02, backoff_longest=0.05, connect_timeout=5)


@pytest.fixture
async def hub(start_hub: StartHub) -> RunningHub:
    return await start_hub(command_hub())


def of(hub: RunningHub, user: str, **options: Any) -> Client:
    return connect(
        f"ws://{hub.address}", hub="demo", token=hub.token(user, "demo"), options=QUICK, **options
    )


async def test_a_handler_answers_the_commands_of_its_name(hub: RunningHub) -> None:
    async with of(hub, "ann") as ann, of(hub, "bob") as bob:
        asked: list[Command] = []

        async def ring(command: Command) -> dict[str, Any]:
            asked.append(command)
            return {"rang": command.params["times"]}

        bob.on_command("Ring", ring)
        bob.on_command("nothing", lambda command: None)
        assert await ann.command("rING", {"times": 2}, entity="bob@demo") == {"rang": 2}
        assert await ann.command("nothing", entity="bob@demo") is None
        (command,) = asked
        assert ann.session is not None
        assert command.sender == f"ann@demo/{ann.session.session_id}"
        assert (command.cmd, command.entity) == ("rING", "bob@demo")


async def test_a_handler_that_refuses_fails_or_cannot_be_encoded_gives_a_status(
    hub: RunningHub,
) -> None:
    async with of(hub, "ann") as ann, of(hub, "bob") as bob:

        def refuse(command: Command) -> None:
            raise CommandRefused(Status.NOT_AUTHORIZED, "not for you")

        def fail(command: Command) -> None:
            raise KeyError("lamp")

        bob.on_command("refuse", refuse)
        bob.on_command("fail", fail)
        bob.on_command("strange", lambda command: {1, 2, object()})
        bob.on_command("large", lambda command: "x" * 2_000_000)
        for cmd, status, text in (
            ("refuse", 5, "not for you"),
            ("fail", 1, "lamp"),
            ("strange", 1, "the result"),
            ("large", 1, "the result"),
        ):
            with pytest.raises(CommandRefused, match=text) as refused:
                await ann.command(cmd, entity="bob@demo")
            assert refused.value.status == status


async def test_a_command_without_a_handler_is_left_to_other_sessions(hub: RunningHub) -> None:
    async with of(hub, "ann") as ann, of(hub, "bob") as phone, of(hub, "bob") as lamp:
        phone.on_command("ring", lambda command: "phone")
        lamp.on_command("dim", lambda command: "lamp")
        assert await ann.command("ring", entity="bob@demo") == "phone"
        assert await ann.command("dim", entity="bob@demo") == "lamp"
        with pytest.raises(CommandRefused) as refused:
            await ann.command("fly", entity="bob@demo", timeout=0.1)
        assert refused.value.status is Status.TIMEOUT


async def test_a_handler_can_be_taken_away_and_a_second_one_is_refused(hub: RunningHub) -> None:
    async with of(hub, "ann") as ann, of(hub, "bob") as bob:
        end = bob.on_command("ring", lambda command: 1)
        with pytest.raises(BadRequest):
            bob.on_command("RING", lambda command: 2)
        end()
        bob.on_command("RING", lambda command: 2)
        assert await ann.command("ring", entity="bob@demo") == 2


async def test_commands_are_handled_side_by_side(hub: RunningHub) -> None:
    async with of(hub, "ann") as ann, of(hub, "bob") as bob:
        both = asyncio.Barrier(2)

        async def wait(command: Command) -> int:
            await both.wait()
            return 1

        bob.on_command("wait", wait)
        asking = [ann.command("wait", entity="bob@demo") for _ in range(2)]
        assert await asyncio.gather(*asking) == [1, 1]


async def test_an_answer_goes_out_on_the_connection_that_follows(hub: RunningHub) -> None:
    async with of(hub, "ann") as ann, of(hub, "bob") as bob:
        assert bob.session is not None
        session_id = bob.session.session_id
        lost = asyncio.Event()
        bob.on(Disconnected, lambda _: lost.set())

        async def slow(command: Command) -> str:
            connection = hub.server.node.hub("demo").sessions[session_id].connection
            connection.transport.abort()  # type: ignore[attr-defined]
            await lost.wait()
            return "after all"

        bob.on_command("slow", slow)
        assert await ann.command("slow", entity="bob@demo") == "after all"


async def test_the_client_without_asyncio_answers_on_a_thread_of_its_own(hub: RunningHub) -> None:
    url, token = f"ws://{hub.address}", hub.token("bob", "demo")
    bob = await asyncio.to_thread(synchronous.connect, url, hub="demo", token=token)
    try:
        bob.on_command("ask", lambda command: bob.command("hEcho", command.params))
        async with of(hub, "ann") as ann:
            assert await ann.command("ask", [1, 2], entity="bob@demo") == [1, 2]
    finally:
        await asyncio.to_thread(bob.close)


async def test_a_client_subscribes_to_what_its_user_follows_already(hub: RunningHub) -> None:
    record = {"chid": "news", "owner": "bob@demo", "participants": ["bob@demo"], "active": True}
    async with of(hub, "bob") as bob:
        await bob.command("hCreateUpdateChannel", record)
        await bob.command("hSubscribe", {"chid": "news"})
        async with of(hub, "bob") as later:
            for client in (bob, later):
                subscription = client.subscribe("news")
                await asyncio.wait_for(subscription.__aenter__(), 20)
                said = {"chid": "news", "publisher": "bob@demo", "payload": 1}
                await client.command("hPublish", said)
                assert (await asyncio.wait_for(anext(subscription), 20)).data == 1


async def test_the_command_line_answers(hub: RunningHub) -> None:
    env = {"HUBBUB_URL": f"ws://{hub.address}", "HUBBUB_HUB": "demo"}
    bob = {**env, "HUBBUB_TOKEN": hub.token("bob", "demo")}
    ann = {**env, "HUBBUB_TOKEN": hub.token("ann", "demo")}
    asking = ("command", "ring", '{"times": 2}', "--entity", "bob@demo")
    async with running_hubbub("answer", "ring", '"rang"', "--count", "1", env=bob) as answering:
        await answering.remark("answers ring")
        answered = await hubbub(*asking, env=ann)
        assert (answered.code, answered.out) == (0, '"rang"\n')
        shown = json.loads(await answering.line())
        assert (shown["params"], shown["sender"].partition("/")[0]) == ({"times": 2}, "ann@demo")
    refusing = ("answer", "ring", "not now", "--refuse", "5")
    async with running_hubbub(*refusing, env=bob) as answering:
        await answering.remark("answers ring")
        refused = await hubbub(*asking, env=ann)
        assert refused.code == 1
        assert "ring ended with status 5: not now" in refused.err
    wrong = await hubbub("answer", "ring", "{", env=bob)
    assert wrong.code == 2
    assert "RESULT is no JSON" in wrong.err


async def test_who_has_no_user_is_told_what_to_do(start_hub: StartHub) -> None:
    hub = await start_hub(command_hub(allow_anonymous=True))
    env = {"HUBBUB_URL": f"ws://{hub.address}", "HUBBUB_HUB": "demo"}
    refused = await hubbub("command", "hEcho", "1", env=env)
    assert refused.code == 1
    assert "status 5" in refused.err
    assert "hubbub token --user" in refused.err
