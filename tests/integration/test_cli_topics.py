"""Topics from the command line, as users run it: in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
from pathlib import Path

import msgspec
import pytest

from harness.command import COMMAND, hubbub, running_hubbub
from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from hubbub.domain.rules import Rules

pytestmark = pytest.mark.spec("ONCE-05", "UI-03")

STORED = msgspec.structs.replace(OPEN, store=True, live_history=False)


@pytest.fixture
async def hub(start_hub: StartHub) -> RunningHub:
    """Its channels store."""
    return await start_hub(open_hub(rules=STORED))


def at(hub: RunningHub) -> dict[str, str]:
    return {"HUBBUB_URL": f"http://{hub.address}", "HUBBUB_HUB": "acme"}


async def test_what_is_put_is_got_once(hub: RunningHub) -> None:
    env = at(hub)
    subscribed = await hubbub("subscribe", "--durable", "orders", env=env)
    assert (subscribed.code, subscribed.out) == (0, "SUBSCRIBED orders (default), 0 waiting\n")
    for arguments, stdin in (
        (("orders", "hello"), b""),
        (("orders", "-", "--json"), b'{"item": 7}'),
        (("orders", "last", "--event", "goodbye"), b""),
    ):
        put = await hubbub("put", *arguments, stdin=stdin, env=env)
        assert put.code == 0, put.err
        assert put.out.split()[1].isdigit()
    first = await hubbub("get", "orders", env=env)
    assert (first.code, first.out.endswith("orders  #1  hello\n")) == (0, True)
    rest = await hubbub("get", "orders", "--limit", "5", "--json", env=env)
    assert [json.loads(line)["payload"] for line in rest.out.splitlines()] == [
        {"json": {"item": 7}},
        {"text": "last"},
    ]
    empty = await hubbub("get", "orders", env=env)
    assert (empty.code, empty.out, empty.err) == (0, "", "EmptyTopic: nothing waits\n")


async def test_what_is_not_acknowledged_is_got_again(hub: RunningHub) -> None:
    env = at(hub)
    await hubbub("subscribe", "--durable", "orders", "--name", "billing", env=env)
    await hubbub("put", "orders", "hello", env=env)
    for delivery in (1, 2):
        got = await hubbub("get", "orders", "-n", "billing", "--no-ack", "--json", env=env)
        message = json.loads(got.out)
        assert (message["deliveries"], message["redelivered"]) == (delivery, delivery > 1)
    acknowledged = await hubbub("ack", "orders", "1", "--name", "billing", env=env)
    assert acknowledged.out == "1\n"
    assert (await hubbub("get", "orders", "-n", "billing", env=env)).out == ""


async def test_get_without_a_topic_gets_one_of_each(hub: RunningHub) -> None:
    env = at(hub)
    await hubbub("subscribe", "--durable", "a", "b", "c", env=env)
    for topic in ("a", "a", "b"):
        await hubbub("put", topic, "x", env=env)
    got = await hubbub("get", "--json", env=env)
    assert [json.loads(line)["channel"] for line in got.out.splitlines()] == ["a", "b"]
    listed = await hubbub("topics", env=env)
    assert [line.split()[:3] for line in listed.out.splitlines()] == [
        ["topic", "name", "lag"],
        ["a", "default", "1"],
        ["b", "default", "0"],
        ["c", "default", "0"],
    ]
    in_json = await hubbub("topics", "--json", env=env)
    assert json.loads(in_json.out.splitlines()[0])["lag"] == 1


async def test_get_can_wait_and_follow(hub: RunningHub) -> None:
    env = at(hub)
    await hubbub("subscribe", "--durable", "orders", env=env)
    waited, _ = await asyncio.gather(
        hubbub("get", "orders", "--wait", "20", env=env), hubbub("put", "orders", "one", env=env)
    )
    assert waited.out.endswith("#1  one\n")
    async with running_hubbub("get", "orders", "--follow", env=env) as following:
        for number in (2, 3):
            await hubbub("put", "orders", f"number {number}", env=env)
            assert (await following.line()).endswith(f"#{number}  number {number}")
        ended = await following.stop(signal.SIGINT)
    assert ended.code == 0


async def test_subscriptions_begin_and_end_where_one_says(hub: RunningHub) -> None:
    env = at(hub)
    for text in "abc":
        await hubbub("put", "orders", text, env=env)
    early = await hubbub("subscribe", "--durable", "orders", "--from-start", env=env)
    assert early.out == "SUBSCRIBED orders (default), 3 waiting\n"
    later = await hubbub("subscribe", "--durable", "orders", "-n", "l", "--since", "2", env=env)
    assert later.out == "SUBSCRIBED orders (l), 1 waiting\n"
    again = await hubbub("subscribe", "--durable", "orders", env=env)
    assert again.out == "SUBSCRIBED orders (default, was there already), 3 waiting\n"
    ended = await hubbub("unsubscribe", "orders", env=env)
    assert ended.out == "UNSUBSCRIBED orders\n"
    refused = await hubbub("unsubscribe", "orders", env=env)
    assert refused.code == 1
    assert "hubbub subscribe --durable" in refused.err


async def test_an_outbox_keeps_what_the_hub_could_not_take(hub: RunningHub, tmp_path: Path) -> None:
    nobody = {"HUBBUB_URL": "http://127.0.0.1:9", "HUBBUB_HUB": "acme"}
    put = ("put", "orders", "hello", "--outbox", "box")
    kept = await hubbub(*put, "--wait", "0.1", env=nobody, folder=tmp_path)
    assert (kept.code, kept.out) == (0, "")
    assert "safe in box" in kept.err
    left = await hubbub("put", "--outbox", "box", "--wait", "0.1", env=nobody, folder=tmp_path)
    assert left.code == 1
    assert "1 messages wait in box" in left.err
    sent = await hubbub("put", "orders", "more", "--outbox", "box", env=at(hub), folder=tmp_path)
    assert sent.out.split()[1] == "2"
    none = await hubbub("put", "--outbox", "box", env=at(hub), folder=tmp_path)
    assert (none.code, none.out) == (0, "0 sent\n")
    history = await hubbub("history", "orders", "--json", env=at(hub))
    assert [json.loads(line)["payload"]["text"] for line in history.out.splitlines()] == [
        "hello",
        "more",
    ]


async def test_what_is_wrong_is_said_in_one_line(start_server: StartHub, tmp_path: Path) -> None:
    hub = await start_server(open_hub(rules=Rules(store=True)))
    env = at(hub)
    for arguments, code, text in (
        (("put", "orders", "x"), 1, "permission"),
        (("put", "orders", "x", "--outbox", "box"), 1, "permission"),
        (("put",), 2, "name a TOPIC"),
        (("get", "--follow"), 2, "name a TOPIC"),
        (("ack", "orders"), 2, "--up-to"),
        (("ack", "orders", "1", "--up-to", "2"), 2, "--up-to"),
        (("put", "orders", "{", "--json"), 2, "not JSON"),
    ):
        ended = await hubbub(*arguments, env=env, folder=tmp_path)
        assert ended.code == code, (arguments, ended)
        assert text in ended.err
        assert len(ended.err.splitlines()) == 1


# -- the shell ----------------------------------------------------------------------------------


async def test_the_shell_knows_the_words_of_the_service(hub: RunningHub) -> None:
    lines = """
        # a remark
        get news
        subscribe news
        put news "hello  world"
        put news it's as it is
        get news
        get
        get
        put "two words" x
        topics
        unsubscribe news
        get news
        help
        quit
        put news never
    """
    ended = await hubbub("shell", stdin=lines.encode(), env=at(hub))
    answers = ended.out.splitlines()
    assert answers[0] == "SUBSCRIBED news (default), 0 waiting"
    assert answers[1].startswith("PutReply ")
    assert answers[1].endswith(" #1")
    assert answers[3].endswith("news  #1  hello  world")
    assert answers[4].endswith("news  #2  it's as it is")
    assert answers[5] == "EmptyTopic"
    assert answers[8].split()[:3] == ["news", "default", "0"]
    assert answers[9] == "UNSUBSCRIBED news"
    assert answers[10].startswith("put TOPIC MESSAGE")
    assert [line.split(":")[0] for line in ended.err.splitlines()] == [
        "NonExistentTopic",
        "NotSubscribed",
    ]
    assert ended.code == 1


async def test_the_shell_can_leave_acknowledging_to_its_user(hub: RunningHub) -> None:
    lines = "subscribe t\nput t a\nput t b\nget t\nget t\nack\nget t\nack t 2\nget t\n"
    ended = await hubbub("shell", "--no-ack", stdin=lines.encode(), env=at(hub))
    answers = ended.out.splitlines()
    assert ended.code == 0
    assert answers[3].endswith("t  #1  a")
    assert answers[4].endswith("t  #1  (delivery 2)  a")
    assert answers[5] == "Ack t, all done up to #1"
    assert answers[6].endswith("t  #2  b")
    assert answers[7:] == ["Ack t, all done up to #2", "EmptyTopic"]


async def test_the_shell_says_what_a_line_lacks(hub: RunningHub) -> None:
    lines = ["put", "put t", "get a b", "ack", "ack t x", "subscribe t soon", 'put "t', "shout t"]
    ended = await hubbub("shell", stdin="\n".join(lines).encode(), env=at(hub))
    assert ended.code == 1
    assert ended.out == ""
    errors = ended.err.splitlines()
    assert len(errors) == len(lines)
    assert all(error.startswith("ERROR: ") for error in errors)
    assert "write: put TOPIC MESSAGE" in errors[0]
    assert "`help` lists them" in errors[-1]


async def test_the_shell_talks_to_a_terminal(hub: RunningHub, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        "shell",
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **at(hub), "HOME": str(tmp_path), "TERM": "dumb"},
    )
    os.close(theirs)
    shown = b""

    async def until(text: bytes) -> None:
        nonlocal shown
        async with asyncio.timeout(20):
            while text not in shown:
                shown += await asyncio.to_thread(os.read, ours, 4096)
        shown = shown.partition(text)[2]

    try:
        await until(b"hubbub> ")
        os.write(ours, b"subsc\tnews\n")  # completed
        await until(b"SUBSCRIBED news")
        await until(b"hubbub> ")
        os.write(ours, b"put ne\thi there\n")
        await until(b"PutReply")
        await until(b"hubbub> ")
        os.write(ours, b"quit\n")
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)
    assert "put news hi there" in (tmp_path / ".hubbub_history").read_text()
