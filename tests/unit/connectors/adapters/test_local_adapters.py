"""Adapters to the hub's own channels, to devices, and to folders of its machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import hubbub.connectors.adapters.included  # noqa: F401  declares them
from harness.adapters import (
    KeptChannels,
    KeptDevices,
    adapter_context,
    delivery,
    make_adapter,
    message,
)
from harness.clock import FakeClock
from hubbub.domain.communication.messages import check_fields, check_handed_in
from hubbub.domain.errors import NotPermitted, StoreUnavailable
from hubbub.ports.adapters import AdapterFailed, Pushed, TemporaryFailure

pytestmark = [pytest.mark.spec("COMM-03")]


# -- channels -------------------------------------------------------------------------------------


async def test_a_peer_is_reached_on_its_channel() -> None:
    async with adapter_context() as context:
        channels = context.channels
        assert isinstance(channels, KeptChannels)
        out: Any = make_adapter("channel", {}, context)
        await out.push(delivery())
        await out.push(delivery("alerts"))
        assert set(channels.published) == {("u:ann", "key-1"), ("alerts", "key-1")}
        channels.error = NotPermitted("no")
        with pytest.raises(AdapterFailed):
            await out.push(delivery())
        channels.error = StoreUnavailable("full")
        with pytest.raises(TemporaryFailure):
            await out.push(delivery())


async def test_what_is_published_to_a_channel_comes_in_until_it_is_settled() -> None:
    async with adapter_context() as context:
        channels = context.channels
        assert isinstance(channels, KeptChannels)
        channels.waiting["alerts"] = [message(id="m-1"), message(id="m-2")]
        incoming: Any = make_adapter("channel-in", {"channel": "alerts"}, context)
        first = await incoming.pull()
        assert (await incoming.pull()).message.id == first.message.id == "m-1"
        await incoming.settle(first.receipt)
        assert (await incoming.pull()).message.id == "m-2"


# -- devices --------------------------------------------------------------------------------------


async def test_one_device_that_takes_the_push_is_enough() -> None:
    async with adapter_context() as context:
        devices = context.devices
        assert isinstance(devices, KeptDevices)
        devices.answers = {
            "ann": [Pushed("gone", "410"), Pushed("ok")],
            "bob": [Pushed("retry", "503", 7.0), Pushed("gone", "410")],
            "eve": [Pushed("refused", "413")],
        }
        out: Any = make_adapter("push", {"urgency": "high"}, context)
        await out.push(delivery(ttl_ms=5000))
        user, options, message_id = devices.pushed[-1]
        assert (user, message_id) == ("ann", "m-1")
        assert (options.body, options.collapse_key, options.ttl) == ("it is red", "key-1", 5)
        assert options.urgency == "high"
        await out.push(delivery(ttl_ms=1))
        assert devices.pushed[-1][1].ttl == 1, "0 would mean now or never"
        with pytest.raises(TemporaryFailure) as caught:
            await out.push(delivery("bob"))
        assert caught.value.retry_after_seconds == 7.0
        for nobody in ("eve", "dan"):
            with pytest.raises(AdapterFailed):
                await out.push(delivery(nobody))


# -- folders --------------------------------------------------------------------------------------


async def test_files_become_messages_in_order_and_move_away(tmp_path: Path) -> None:
    async with adapter_context(files=tmp_path) as context:
        clock = context.clock
        assert isinstance(clock, FakeClock)
        incoming: Any = make_adapter("folder", {"path": "in", "stableSeconds": 2}, context)
        assert await incoming.pull() is None
        for number, name in enumerate(("b.txt", "a.txt")):
            (tmp_path / "in" / name).write_text(name)
            os.utime(tmp_path / "in" / name, (1000 + number, 1000 + number))
        assert await incoming.pull() is None
        clock.advance(3)
        (tmp_path / "in" / "c.txt").write_text("still being written")
        found = await incoming.pull()
        assert found.message.content == "b.txt"
        again: Any = make_adapter("folder", {"path": "in", "stableSeconds": 0}, context)
        assert (await again.pull()).message == found.message  # after a crash
        await incoming.settle(found.receipt)
        await incoming.settle(found.receipt)
        assert (await incoming.pull()).message.content == "a.txt"
        (moved,) = (tmp_path / "in" / ".done").iterdir()
        assert moved.name.startswith("b.txt.")


@pytest.mark.spec("COMM-12")
async def test_files_that_are_too_large_stay_and_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with adapter_context(files=tmp_path) as context:
        incoming: Any = make_adapter("folder", {"maxBytes": 10, "stableSeconds": 0}, context)
        (tmp_path / "large").write_text("x" * 11)
        (tmp_path / "small").write_text("x")
        found = await incoming.pull()
        assert found.message.headers["file"] == "small"
        await incoming.settle(found.receipt)
        with pytest.raises(AdapterFailed, match=r"'large' is left where it is: it has 11 bytes; a"):
            await incoming.pull()
        assert "maxBytes" in caplog.text
        assert await incoming.pull() is None
        assert (tmp_path / "large").exists()
        (tmp_path / "large").write_text("x" * 10)
        assert (await incoming.pull()).message.content == "x" * 10


@pytest.mark.spec("COMM-12")
async def test_a_file_that_is_written_again_after_it_was_read_is_read_again(tmp_path: Path) -> None:
    async with adapter_context(files=tmp_path) as context:
        incoming: Any = make_adapter("folder", {"stableSeconds": 0}, context)
        (tmp_path / "a").write_text("first")
        found = await incoming.pull()
        (tmp_path / "a").write_text("other")
        await incoming.settle(found.receipt)
        assert (tmp_path / "a").read_text() == "other"
        assert (await incoming.pull()).message.content == "other"


@pytest.mark.spec("COMM-12")
@pytest.mark.parametrize("name", [b"\xff\xe9.txt", b"a" * 255, "ü".encode() * 127, b"new\nline"])
async def test_any_name_of_a_file_can_be_put_away(tmp_path: Path, name: bytes) -> None:
    async with adapter_context(files=tmp_path) as context:
        incoming: Any = make_adapter("folder", {"stableSeconds": 0}, context)
        (tmp_path / os.fsdecode(name)).write_bytes(b"\xff")
        found = await incoming.pull()
        assert found.message.content == b"\xff"
        check_fields(check_handed_in(message(headers=found.message.headers)))
        await incoming.settle(found.receipt)
        assert await incoming.pull() is None
        assert len(list((tmp_path / ".done").iterdir())) == 1


@pytest.mark.spec("COMM-12")
async def test_a_file_whose_message_is_refused_stays_until_it_changes(tmp_path: Path) -> None:
    async with adapter_context(files=tmp_path) as context:
        incoming: Any = make_adapter("folder", {"stableSeconds": 0}, context)
        for name in ("a", "b"):
            (tmp_path / name).write_text(name)
        found = await incoming.pull()
        await incoming.refuse(found.receipt)
        second = await incoming.pull()
        assert second.message.content == "b"
        await incoming.settle(second.receipt)
        assert await incoming.pull() is None
        assert (tmp_path / "a").read_text() == "a"
        (tmp_path / "a").write_text("else")
        assert (await incoming.pull()).message.content == "else"


@pytest.mark.parametrize("path", ["..", "../other", "/etc", "in/../..", "link"])
async def test_no_path_leads_out_of_the_hubs_own_folder(tmp_path: Path, path: str) -> None:
    own = tmp_path / "acme"
    own.mkdir()
    (own / "link").symlink_to("/etc")
    async with adapter_context(files=own) as context:
        incoming: Any = make_adapter("folder", {"path": path, "stableSeconds": 0}, context)
        with pytest.raises(AdapterFailed, match="leads out"):
            await incoming.pull()


async def test_links_are_not_files(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    async with adapter_context(files=tmp_path) as context:
        incoming: Any = make_adapter("folder", {"stableSeconds": 0}, context)
        assert await incoming.pull() is None


async def test_without_a_folder_of_the_operator_none_is_read() -> None:
    async with adapter_context() as context:
        incoming: Any = make_adapter("folder", {}, context)
        with pytest.raises(AdapterFailed, match="no folder"):
            await incoming.pull()
