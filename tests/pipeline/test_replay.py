"""Replay: a slice of the journal goes into a channel of a running hub again."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.command import Ended, hubbub
from harness.journals import NOON, message, seal
from harness.running_hub import RunningHub, hub_settings, open_hub
from hubbub.client import Attributes, connect
from hubbub.domain.rules import Rules
from hubbub.journal.sealed import moment
from hubbub.journal.slices import JournalSlice, read_slice
from hubbub.server.wiring import Server

pytestmark = pytest.mark.spec("PIPE-06")
STORING = Rules(
    public=True, client_publish=True, allow_anonymous=True, live_history=True, store=True
)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    server = Server(hub_settings(tmp_path, open_hub("demo", STORING), session__messageBurst=10))
    await server.start()
    running = RunningHub(server)
    yield running
    await running.close()


async def replay(tmp_path: Path, hub: RunningHub | None, *more: str) -> Ended:
    address = hub.address if hub else "127.0.0.1:1"
    return await hubbub(
        *("journal", "replay", "--journal", "j", "--hub", "demo", "--channel", "chat"),
        *("--url", f"ws://{address}", *more),
        folder=tmp_path,
    )


async def received(hub: RunningHub, channel: str) -> list[tuple[str, bytes, str]]:
    async with connect(f"ws://{hub.address}", hub="demo") as client:
        page = await client.history(channel, limit=100)
        return [(each.event, each.payload, each.content_type) for each in page.messages]


async def test_a_slice_is_published_again_as_it_was(tmp_path: Path, hub: RunningHub) -> None:
    seal(tmp_path / "j", message(2, payload=b'{"n":2}', content_type="application/json"))
    seal(tmp_path / "j", message(1, event="said"), message(3), message(4, channel="other"))
    done = await replay(tmp_path, hub, "--into", "copy")
    assert done.code == 0, done.err
    assert "published 3 of 3 messages" in done.out
    assert await received(hub, "copy") == [
        ("said", b"text 1", "text/plain"),
        ("", b'{"n":2}', "application/json"),
        ("", b"text 3", "text/plain"),
    ]


async def test_the_envelope_is_published_again(tmp_path: Path, hub: RunningHub) -> None:
    said: dict[str, Any] = {
        "conversation_id": "c-1",
        "refers_to": "m-0",
        "language": "de",
        "priority": 3,
    }
    seal(tmp_path / "j", message(1, headers={"k": "v"}, author="ann", **said))
    done = await replay(tmp_path, hub, "--into", "copy")
    assert "published 1 of 1" in done.out, done.err
    async with connect(f"ws://{hub.address}", hub="demo") as client:
        (copy,) = (await client.history("copy")).messages
    assert copy.attributes == Attributes(headers={"k": "v"}, author="ann", **said)


async def test_it_is_safe_to_repeat(tmp_path: Path, hub: RunningHub) -> None:
    seal(tmp_path / "j", message(1), message(2))
    await replay(tmp_path, hub, "--into", "copy")
    seal(tmp_path / "j", message(3))
    again = await replay(tmp_path, hub, "--into", "copy")
    assert "published 1 of 3 messages" in again.out
    assert "2 were sent there before" in again.out
    assert len(await received(hub, "copy")) == 3
    elsewhere = await replay(tmp_path, hub, "--into", "second")
    assert "published 3 of 3" in elsewhere.out
    forced = await replay(tmp_path, hub, "--into", "copy", "--again")
    assert "published 3 of 3" in forced.out
    assert len(await received(hub, "copy")) == 6


async def test_a_dry_run_says_what_would_be_sent(tmp_path: Path) -> None:
    seal(tmp_path / "j", message(1), message(2, payload=None), message(11))
    tried = await replay(tmp_path, None, "--into", "copy", "--dry-run", "--speed", "2")
    assert tried.code == 0, tried.err
    assert "would publish 2 of 3 messages" in tried.out
    assert "13 bytes, in 5.0 s" in tried.out
    assert "1 have no payload in the journal: m2" in tried.out
    as_json = await replay(tmp_path, None, "--into", "copy", "--dry-run", "--json")
    report = msgspec.json.decode(as_json.out)
    assert (report["messages"], report["without_payload"], report["sent"]) == (3, ["m2"], 0)


async def test_times_bound_the_slice_and_set_the_pace(tmp_path: Path, hub: RunningHub) -> None:
    seal(tmp_path / "j", *(message(n) for n in range(1, 6)))
    bounds = ("--from", moment(NOON + 2_000_000), "--until", moment(NOON + 5_000_000))
    began = time.monotonic()
    done = await replay(tmp_path, hub, "--into", "copy", *bounds, "--speed", "4")
    assert "published 3 of 3" in done.out
    assert time.monotonic() - began >= 0.5  # two seconds between the first and the last
    assert [payload for _, payload, _ in await received(hub, "copy")] == [
        b"text 2",
        b"text 3",
        b"text 4",
    ]


async def test_a_hub_that_takes_it_slowly_gets_it_all(tmp_path: Path, hub: RunningHub) -> None:
    seal(tmp_path / "j", *(message(n) for n in range(1, 500)))
    done = await replay(tmp_path, hub, "--into", "copy")
    assert "published 499 of 499" in done.out, done.err
    async with connect(f"ws://{hub.address}", hub="demo") as client:
        texts = [each.payload async for each in client.read_history("copy")]
    assert texts == [b"text %d" % n for n in range(1, 500)]


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--into", "chat"), "--same-channel"),
        (("--into", "a*b"), "'*'"),
        (("--into", "copy", "--speed", "0"), "a factor such as 10"),
        (("--into", "copy", "--speed", "warp"), "a factor such as 10"),
        (("--into", "copy", "--from", "soon"), "not a time such as"),
        (("--into", "copy", "--from", "2025-01-02", "--until", "2025-01-01"), "not before"),
        (("--into", "copy", "--until", "2001-01-01"), "no messages of 'chat' in that time"),
        (("--into", "copy", "--channel", "chess"), "of 'demo' it has chat"),
        (("--into", "copy", "--journal", "nowhere"), "holds no journal"),
        (("--into", "copy"), "is the server running?"),
    ],
)
async def test_nonsense_is_refused_clearly(
    tmp_path: Path, more: tuple[str, ...], complaint: str
) -> None:
    seal(tmp_path / "j", message(1))
    done = await replay(tmp_path, None, *more)
    assert done.code != 0
    assert complaint in done.err


async def test_a_hub_that_refuses_is_named(tmp_path: Path, hub: RunningHub) -> None:
    seal(tmp_path / "j", message(1))
    done = await replay(tmp_path, hub, "--into", "copy", "--into-hub", "nobody")
    assert (done.code, "nobody" in done.err) == (1, True)


def test_each_message_of_a_slice_comes_once(tmp_path: Path) -> None:
    seal(tmp_path, message(1), message(2))
    seal(tmp_path, message(2))  # the same segment under two names, for example
    found = read_slice(tmp_path, JournalSlice(hub="demo", channel="chat"))
    assert [each.id for each in found] == ["m1", "m2"]
