"""A producer with an outbox is killed at each step of a put: what it was promised arrives, once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from harness.child import child
from harness.restarting import RestartingHub
from harness.running_hub import OPEN, RunningHub, open_hub
from hubbub.client import FileUnusable, Options, Outbox, connect

pytestmark = pytest.mark.spec("ONCE-02")

PRODUCER = Path(__file__).with_name("outbox_producer.py")
STORED = msgspec.structs.replace(OPEN, store=True, live_history=False)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with RestartingHub(
        tmp_path,
        open_hub(rules=STORED),
        session__messagesPerSecond=0,
        connection__ws__maxMessageBytes=1024,
    ) as life:
        yield await life.restart()


async def produce_with_a_crash(hub: RunningHub, file: Path, point: str) -> list[str]:
    """Five puts, the last of them killed at the point, then two more by another process. Answers
    what is in the topic."""
    url = f"ws://{hub.address}"
    async with child(PRODUCER, file, url, "orders", point, 1, 5) as producer:
        await producer.until("here")
        await producer.kill()
    async with child(PRODUCER, file, url, "orders", "none", 6, 2) as producer:
        await producer.until("drained")
        await producer.ended()
    async with connect(url, hub="acme") as client:
        return [message.data async for message in client.read_history("orders")]


@pytest.mark.parametrize("point", ["sending", "sent", "answered", "forgetting"])
async def test_what_was_in_the_file_when_the_producer_died_arrives_once(
    hub: RunningHub, tmp_path: Path, point: str
) -> None:
    found = await produce_with_a_crash(hub, tmp_path / "outbox", point)
    assert found == [str(number) for number in range(1, 8)]


async def test_what_was_not_committed_when_the_producer_died_never_was(
    hub: RunningHub, tmp_path: Path
) -> None:
    found = await produce_with_a_crash(hub, tmp_path / "outbox", "writing")
    assert found == ["1", "2", "3", "4", "6", "7"]


@pytest.mark.parametrize("point", ["refused", "refusing", "handed-on"])
async def test_a_crash_while_a_sequence_is_handed_on_doubles_and_loses_nothing(
    hub: RunningHub, tmp_path: Path, point: str
) -> None:
    """The third message is too large for the hub; its sequence goes to the fourth."""
    file = tmp_path / "outbox"
    found = await produce_with_a_crash(hub, file, point)
    assert found == ["1", "2", "4", "5", "6", "7"]
    async with connect(f"ws://{hub.address}", hub="acme") as client, Outbox(client, file) as outbox:
        (refusal,) = await outbox.refused()
        assert (refusal.code, len(refusal.payload)) == ("too_large", 5000)


async def test_a_full_disk_refuses_puts_and_takes_them_again_when_there_is_room(
    hub: RunningHub, small_disk: Path
) -> None:
    url = f"ws://{hub.address}"
    promised: list[str] = []
    away = Options(start_offline=True)
    async with (
        connect("ws://127.0.0.1:9", hub="acme", options=away) as client,
        Outbox(client, small_disk / "outbox") as outbox,
    ):
        filler = small_disk / "filler"
        filler.write_bytes(b"x" * 1_000_000)
        with pytest.raises(FileUnusable, match="full"):
            await put_on_and_on(outbox, promised, 10_000)
        filler.unlink()
        await put_on_and_on(outbox, promised, 3)
    async with connect(url, hub="acme") as client, Outbox(client, small_disk / "outbox") as outbox:
        await outbox.drained()
        found = [message.data.split()[0] async for message in client.read_history("orders")]
    assert found == promised


async def put_on_and_on(outbox: Outbox, promised: list[str], count: int) -> None:
    """Notes down what was taken."""
    for _ in range(count):
        await outbox.put("orders", f"{len(promised)} {'x' * 900}")
        promised.append(str(len(promised)))
